/**
 * What processes hold: descriptors, subscriptions, flows, memory.
 * @module
 */
import assert from "node:assert/strict";
import { request } from "../helpers/client.ts";
import { json } from "../helpers/http_message.ts";
import type { Natsway } from "../helpers/natsway.ts";
import { openDescriptors } from "../helpers/proc.ts";
import type { Rig } from "../helpers/rig.ts";
import { pause } from "../helpers/wait.ts";
import { isDeepStrictEqual } from "node:util";

/** `true` with NATSWAY_TEST_FULL=1: the numbers of the contract, not the shortened ones. */
export const FULL = Deno.env.get("NATSWAY_TEST_FULL") === "1";
export const MIB = 2 ** 20;
const PAUSE_MS = 250;

/** What must come back to where it was. */
export interface Holdings {
  /** Per process, by kind of descriptor. */
  readonly descriptors: readonly Readonly<Record<string, number>>[];
  /** Subscriptions of all connections of the nats-server, and the connections. */
  readonly subscriptions: number;
  readonly connections: number;
  /** Live flows per process. */
  readonly flows: readonly number[];
}

/** Counts once. The nats-server needs `http: "127.0.0.1:<monitorPort>"`. */
export async function holdings(rig: Rig, monitorPort: number): Promise<Holdings> {
  const roles = [rig.requester, ...rig.receivers];
  // Before anything is asked of them over a connection.
  const descriptors = roles.map((role) => countable(openDescriptors(role.pid)));
  const flows: number[] = [];
  for (const role of roles) flows.push(await liveFlows(role));
  const response = await fetch(`http://127.0.0.1:${monitorPort}/connz?subs=1`);
  const { connections } = await response.json() as { connections: { subscriptions: number }[] };
  return {
    descriptors,
    subscriptions: connections.reduce((sum, connection) => sum + connection.subscriptions, 0),
    connections: connections.length,
    flows,
  };
}

/** Without files: Deno opens those of its cache when it likes. */
function countable(descriptors: Map<string, number>): Record<string, number> {
  return Object.fromEntries([...descriptors].filter(([kind]) => !kind.startsWith("/")).sort());
}

async function liveFlows(role: Natsway): Promise<number> {
  const page = json(await request(role.port, "/observability/nats"));
  return page["flows"] as number;
}

/**
 * Counts again and again until it is `wanted`; fails with the difference when it is not within `ms`:
 * lingering closes and clients that are waited for take up to a second or two.
 */
export async function returnsTo(
  wanted: Holdings,
  count: () => Promise<Holdings>,
  ms: number,
): Promise<void> {
  const until = performance.now() + ms;
  for (;;) {
    const now = await count();
    try {
      assert.deepEqual(now, wanted);
      return;
    } catch (error) {
      if (performance.now() > until) throw error;
    }
    await pause(PAUSE_MS);
  }
}

/** Counts until nothing changes any more for a second, and returns that. */
export async function settled(count: () => Promise<Holdings>, ms: number): Promise<Holdings> {
  const until = performance.now() + ms;
  let last = await count();
  for (let same = 0; same * PAUSE_MS < 1_000;) {
    await pause(PAUSE_MS);
    const now = await count();
    same = isDeepStrictEqual(now, last) ? same + 1 : 0;
    last = now;
    if (performance.now() > until) throw new Error(`never at rest: ${JSON.stringify(now)}`);
  }
  return last;
}

/** Resident memory of all roles. */
export function memory(rig: Rig): number[] {
  return [rig.requester, ...rig.receivers].map((role) => role.rssBytes());
}

/** `bytes` as MiB, for messages. */
export function mib(bytes: number): string {
  return `${(bytes / MIB).toFixed(1)} MiB`;
}
