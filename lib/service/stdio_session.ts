/**
 * A requester without ports, for `natsway stdio`.
 * @module
 */
import type { Config } from "../config/settings.ts";
import { newId } from "../flow/ids.ts";
import { MemoryBudget } from "../flow/memory_budget.ts";
import { FlowRegistry } from "../flow/registry.ts";
import type { Logger } from "../logger.ts";
import type { StdioSession } from "../stdio.ts";
import { type AutoTransport, connectTransport } from "../transport/jetstream/auto_transport.ts";
import { makeRequester } from "./roles.ts";
import { transportOptions } from "./transport_options.ts";

/**
 * Begins to connect. Such a process lives for one session, so it is not on the lists of presence.
 * @throws {StartError} credentials or certificates cannot be used
 */
export function openStdioSession(config: Config, logger: Logger): StdioSession {
  const transport = connectTransport(transportOptions(config, logger));
  const registry = new FlowRegistry({ maxFlows: config.maxFlows, logger });
  const requester = makeRequester({
    config,
    transport,
    registry,
    budget: new MemoryBudget({ totalBytes: config.flowMemoryBytes, maxFlows: config.maxFlows }),
    logger,
    instance: newId(),
    ping: null,
  }, () => ({ state: transport.connected ? "ready" : "booting", details: {} }));
  requester.start();
  return {
    open: requester.openSession,
    ready: untilReady(transport),
    end: () => [...registry.ends().keys()].at(-1) ?? null,
    async close() {
      // Whoever ends this process wants no more of the session: no failure of anybody's.
      requester.stop("canceled");
      await transport.close();
    },
  };
}

/** Resolves once the transport is in service: connected, its backend known, its planes heard. */
async function untilReady(transport: AutoTransport): Promise<void> {
  const changed = () =>
    new Promise<void>((resolve) => {
      transport.onConnection(() => resolve());
      transport.onReadiness(() => resolve());
    });
  for (;;) {
    const change = changed();
    try {
      if (transport.connected) await transport.flush();
      const { connected, notReady } = transport.status();
      if (connected && (notReady ?? null) === null) return;
    } catch {
      // The connection is gone again.
    }
    await change;
  }
}
