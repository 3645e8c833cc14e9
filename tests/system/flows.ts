/**
 * What roles say of their live flows.
 * @module
 */
import { request } from "../helpers/client.ts";
import { json } from "../helpers/http_message.ts";
import type { Natsway } from "../helpers/natsway.ts";
import { pause } from "../helpers/wait.ts";

const PAUSE_MS = 50;

/** The number of live flows that a role's page tells. */
export async function liveFlows(role: Natsway): Promise<number> {
  return json(await request(role.port, "/observability/nats"))["flows"] as number;
}

/** Waits until none of the roles has a live flow. @throws {Error} after `ms` one still has */
export async function flowsGone(roles: readonly Natsway[], ms = 5_000): Promise<void> {
  await flowsAre(roles, 0, ms);
}

/** Waits until each of the roles has so many live flows. @throws {Error} after `ms` one has not */
export async function flowsAre(
  roles: readonly Natsway[],
  count: number,
  ms = 5_000,
): Promise<void> {
  const until = performance.now() + ms;
  for (const role of roles) {
    for (;;) {
      const flows = await liveFlows(role);
      if (flows === count) break;
      const text = `${role.role} has ${flows} live flows, not ${count}`;
      if (performance.now() > until) throw new Error(role.described(text));
      await pause(PAUSE_MS);
    }
  }
}
