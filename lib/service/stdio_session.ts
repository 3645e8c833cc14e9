/**
 * A requester without ports, for `natsway stdio`.
 * @module
 */
import type { Config } from "../config/settings.ts";
import { newId } from "../flow/ids.ts";
import { MemoryBudget } from "../flow/memory_budget.ts";
import { FlowRegistry } from "../flow/registry.ts";
import type { Logger } from "../logger.ts";
import { planePatterns } from "../protocol/subjects.ts";
import type { StdioSession } from "../stdio.ts";
import { connectCore } from "../transport/core.ts";
import { linkSettings } from "../transport/settings.ts";
import { makeRequester, rootsOf } from "./roles.ts";

/**
 * Begins to connect. Such a process lives for one session, so it is not on the lists of presence.
 * @throws {StartError} credentials or certificates cannot be used
 */
export function openStdioSession(config: Config, logger: Logger): StdioSession {
  const transport = connectCore({
    ...linkSettings(config),
    logger,
    subjects: {
      requests: config.listenSubject,
      queueGroup: config.natsQueueGroup,
      ...planePatterns(rootsOf(config), config.serviceId),
    },
  });
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
    ready: untilConnected(transport),
    end: () => [...registry.ends().keys()].at(-1) ?? null,
    async close() {
      // Whoever ends this process wants no more of the session: no failure of anybody's.
      requester.stop("canceled");
      await transport.close();
    },
  };
}

/** Resolves once the server has taken the subscriptions. */
async function untilConnected(transport: ReturnType<typeof connectCore>): Promise<void> {
  for (;;) {
    if (!transport.connected) {
      await new Promise<void>((resolve) =>
        transport.onConnection((connected) => connected && resolve())
      );
    }
    try {
      await transport.flush();
      return;
    } catch {
      // The connection is gone again.
    }
  }
}
