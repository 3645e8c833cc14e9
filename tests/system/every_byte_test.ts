import assert from "node:assert/strict";
import { freePort } from "../helpers/nats_server.ts";
import { type Rig, startRig } from "../helpers/rig.ts";
import { holdings, memory, MIB, mib, returnsTo, settled } from "../soak/settled.ts";
import { SocketEndedError, type TestSocket } from "../helpers/socket.ts";
import {
  drawSession,
  judge,
  mayLeave,
  ofSession,
  playSide,
  type Seen,
  type Side,
} from "./session_plan.ts";
import { OPEN_PROXY, openTunnel } from "./tunnels.ts";

const FULL = Deno.env.get("NATSWAY_TEST_FULL") === "1";
const SESSIONS = FULL ? 10_000 : 400;
const WARM_SESSIONS = FULL ? 3_000 : 150;
const AT_ONCE = 24;
const REST_MS = 30_000;
/** What a process may have grown by behind the warm-up. */
const GROWTH_BYTES = 24 * MIB;
/** Garbage is collected whole and soon, so that resident memory tells what is kept. */
const COLLECT = { DENO_V8_FLAGS: "--gc-global,--max-semi-space-size=2" };
/** `NATSWAY_SEED` repeats a run. */
const SEED = Number(
  Deno.env.get("NATSWAY_SEED") ?? crypto.getRandomValues(new Uint32Array(1))[0],
);

/** The target's end of each session that is under way, by number. */
const targetEnds = new Map<number, PromiseWithResolvers<Seen>>();

async function runSession(rig: Rig, index: number): Promise<void> {
  const { client, target } = drawSession(SEED, index);
  const targetEnd = Promise.withResolvers<Seen>();
  targetEnds.set(index, targetEnd);
  // The target learns by the first octets which session it is in; they may come early.
  const number = new Uint8Array(new Uint32Array([index]).buffer);
  const early = index % 2 === 0;
  const options = early ? { early: number } : {};
  await using socket = await openTunnel(rig.port, rig.upstream.port, options);
  if (!early) await socket.write(number);
  // A reset may take the number with it: who may leave waits until it has arrived.
  const known = !mayLeave(client) || await isKnown(socket, target);
  const [atClient, atTarget] = await Promise.all([
    known ? playSide(socket, client, target) : { received: 0, end: "reset" as const },
    targetEnd.promise,
  ]);
  judge(atClient, target, client);
  judge(atTarget, client, target);
  targetEnds.delete(index);
}

/** Waits for the target's word that it knows the session; false when it has left with a reset. */
async function isKnown(socket: TestSocket, target: Side): Promise<boolean> {
  try {
    await socket.readExactly(1);
    return true;
  } catch (error) {
    if (target.leave !== "reset" || !(error instanceof SocketEndedError)) throw error;
    assert.equal(socket.end, "reset");
    return false;
  }
}

async function runSessions(rig: Rig, from: number, count: number): Promise<void> {
  let next = from;
  const worker = async () => {
    for (let index = next++; index < from + count; index = next++) {
      const { client, target } = drawSession(SEED, index);
      const name = `NATSWAY_SEED=${SEED}, session ${index} (${client.leave}, ${target.leave})`;
      await ofSession(runSession(rig, index), name);
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
}

Deno.test(`every octet of ${SESSIONS} random sessions arrives, or its end is visible; nothing is left behind`, async (t) => {
  const monitorPort = freePort();
  await using rig = await startRig({
    receivers: 2,
    natsConfig: `http: "127.0.0.1:${monitorPort}"\n`,
    settings: { LOG_LEVEL: "info", ...COLLECT },
    requesterSettings: OPEN_PROXY,
    upstream: async (connection) => {
      const number = new DataView((await connection.readExactly(4)).buffer).getUint32(0, true);
      const { client, target } = drawSession(SEED, number);
      const end = targetEnds.get(number);
      if (mayLeave(client)) await connection.write("!");
      await playSide(connection, target, client).then(
        (seen) => end?.resolve(seen),
        (error) => end?.reject(error),
      );
    },
  });
  const count = () => holdings(rig, monitorPort);
  await runSessions(rig, 0, WARM_SESSIONS);
  const before = await settled(count, REST_MS);
  assert.deepEqual(before.flows, [0, 0, 0]);
  const memoryBefore = memory(rig);
  const { length: warnings } = rig.requester.log.events.filter(isTrouble);
  await runSessions(rig, WARM_SESSIONS, SESSIONS);
  assert.equal(rig.requester.log.events.filter(isTrouble).length, warnings);
  await returnsTo(before, count, REST_MS);
  for (const [i, bytes] of memory(rig).entries()) {
    const was = memoryBefore[i] ?? 0;
    await t.step(`process ${i}: resident ${mib(was)} before, ${mib(bytes)} after`, () => {
      assert.ok(bytes - was < GROWTH_BYTES);
    });
  }
});

/** Lines that no random session may cause. */
function isTrouble(event: { level: string; code?: unknown }): boolean {
  return event.level === "error" || event.code === "gap" || event.code === "peer_lost" ||
    event.code === "internal";
}
