/**
 * Makes the half of the bridge that a process is, from its settings.
 * @module
 */
import type { Config } from "../config/settings.ts";
import type { MemoryBudget } from "../flow/memory_budget.ts";
import type { FlowRegistry } from "../flow/registry.ts";
import type { Logger } from "../logger.ts";
import type { Roots } from "../protocol/subjects.ts";
import { dialTarget } from "../receiver/dial.ts";
import { OwnAddresses } from "../receiver/own_addresses.ts";
import { Receiver } from "../receiver/receiver.ts";
import { TargetPolicy } from "../receiver/target_policy.ts";
import { Requester, type RequesterOptions } from "../requester/requester.ts";
import type { Transport } from "../transport/types.ts";

/** What both roles get. */
export interface RoleParts {
  readonly config: Config;
  readonly transport: Transport;
  readonly registry: FlowRegistry;
  readonly budget: MemoryBudget;
  readonly logger: Logger;
  readonly instance: string;
  readonly ping: ((instance: string) => void) | null;
}

/** The two roots of the settings. */
export function rootsOf(config: Config): Roots {
  return { request: config.requestRoot, response: config.responseRoot };
}

/** The half that faces clients. */
export function makeRequester(
  parts: RoleParts,
  runtime: RequesterOptions["runtime"],
): Requester {
  const { config, instance } = parts;
  return new Requester({
    ...config,
    ...parts,
    roots: rootsOf(config),
    via: config.via ? `natsway-${instance.slice(0, 8)}` : null,
    runtime,
  });
}

/** The half that faces targets. `listeners`: where this process listens, which is never a target. */
export function makeReceiver(
  parts: RoleParts,
  listeners: () => readonly { hostname: string; port: number }[],
): Receiver {
  const { config, transport } = parts;
  const own = new OwnAddresses({
    listeners,
    servers: () => [
      ...config.natsUrls,
      ...(config.embeddedNatsEnabled ? [config.embeddedNatsListen] : []),
      ...toldServers(transport),
    ],
  });
  void own.refresh();
  transport.onConnection((connected) => {
    if (connected) void own.refresh();
  });
  const policy = new TargetPolicy({ allow: config.targetAllow, deny: config.targetDeny, own });
  const { connectTimeoutMs } = config;
  return new Receiver({
    ...config,
    ...parts,
    roots: rootsOf(config),
    upstream: config.upstreamUrl,
    maxInflight: config.receiverMaxInflight,
    dialSession: ({ host, port }, signal) =>
      dialTarget({ hostname: host, port }, { policy, connectTimeoutMs, signal }),
  });
}

/** Servers of the cluster that the connected one has told of. */
function toldServers(transport: Transport): { hostname: string; port: number }[] {
  const told = transport.status().serverInfo?.connect_urls;
  if (!Array.isArray(told)) return [];
  return told.flatMap((text) => {
    const url = typeof text === "string" && URL.canParse(`nats://${text}`)
      ? new URL(`nats://${text}`)
      : null;
    if (url === null || url.port === "") return [];
    return [{ hostname: url.hostname.replace(/^\[|\]$/g, ""), port: Number(url.port) }];
  });
}
