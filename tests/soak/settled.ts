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

/** `true` with NATSWAY_TEST_FULL=1: the numbers of the contract, not the shortened ones. */
export const FULL = Deno.env.get("NATSWAY_TEST_FULL") === "1";
export const MIB = 2 ** 20;

/** What must come back to where it was. */
export interface Holdings {
  /** Per process, by kind of descriptor. */
  readonly descriptors: readonly (readonly [string, number])[][];
  /** Subscriptions of all connections of the nats-server, and the connections. */
  readonly subscriptions: number;
  readonly connections: number;
  /** Live flows per process. */
  readonly flows: readonly number[];
}

/** Counts once. The nats-server needs `http: "127.0.0.1:<monitorPort>"`. */
export async function holdings(rig: Rig, monitorPort: number): Promise<Holdings> {
  const roles = [rig.requester, ...rig.receivers];
  const flows: number[] = [];
  for (const role of roles) flows.push(await liveFlows(role));
  const response = await fetch(`http://127.0.0.1:${monitorPort}/connz?subs=1`);
  const { connections } = await response.json() as { connections: { subscriptions: number }[] };
  return {
    descriptors: roles.map((role) => [...openDescriptors(role.pid)].sort()),
    subscriptions: connections.reduce((sum, connection) => sum + connection.subscriptions, 0),
    connections: connections.length,
    flows,
  };
}

async function liveFlows(role: Natsway): Promise<number> {
  const page = json(await request(role.port, "/observability/nats"));
  return page["flows"] as number;
}

/**
 * Counts again and again until it is `wanted`; fails with the difference when it is not within `ms`:
 * lingering closes and clients that were waited for take up to a second or two.
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
    await pause(250);
  }
}

/** Resident memory of all roles. */
export function memory(rig: Rig): number[] {
  return [rig.requester, ...rig.receivers].map((role) => role.rssBytes());
}

/** `bytes` as MiB, for messages. */
export function mib(bytes: number): string {
  return `${(bytes / MIB).toFixed(1)} MiB`;
}
