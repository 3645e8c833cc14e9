import assert from "node:assert/strict";
import { json, text } from "../helpers/http_message.ts";
import { freePort } from "../helpers/nats_server.ts";
import { type Rig, startRig } from "../helpers/rig.ts";
import { ENDING_SETTINGS, ENDINGS, prepareUpstream } from "./endings.ts";
import { FULL, holdings, memory, MIB, mib, returnsTo, settled } from "./settled.ts";

/** Flows before the first count: what is made once and kept is made then. */
const WARM_FLOWS = FULL ? 2_000 : 400;
const FLOWS = FULL ? 10_000 : 1_500;
/** Of them, with the upstream's port closed, and with the nats-server stopped. */
const OUTAGE_FLOWS = FLOWS / 20;
const AT_ONCE = 40;
const REST_MS = 30_000;
/**
 * What a process may have grown by: 1.6 KiB for each of 10 000 flows. About 4 MiB were measured, which
 * do not come again with the next 10 000.
 */
const GROWTH_BYTES = 16 * MIB;
/** Garbage is collected whole and soon, so that resident memory tells what is kept. */
const COLLECT = { DENO_V8_FLAGS: "--gc-global,--max-semi-space-size=2" };

/** Runs `count` flows, as many at once as AT_ONCE says. */
async function run(count: number, flow: (i: number) => Promise<void>): Promise<void> {
  let next = 0;
  const worker = async () => {
    while (next < count) await flow(next++);
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
}

async function runEndings(rig: Rig, count: number): Promise<void> {
  await run(count, (i) => ENDINGS[i % ENDINGS.length]!.run(rig));
}

async function runFailing(rig: Rig, count: number, status: number, code: string): Promise<void> {
  await run(count, async () => {
    const response = await rig.request("/plain");
    assert.equal(response.status, status, text(response));
    assert.equal(json(response)["code"], code);
  });
}

/** Connections that receivers keep to the upstream are no leak: it closes them before a count. */
async function closeKept(rig: Rig): Promise<void> {
  await Promise.all(rig.upstream.connections.splice(0).map((connection) => connection.close()));
}

Deno.test(`after ${FLOWS} flows that ended in ${ENDINGS.length + 2} ways nothing of them is held`, async (t) => {
  const monitorPort = freePort();
  await using rig = await startRig({
    receivers: 2,
    natsConfig: `http: "127.0.0.1:${monitorPort}"\n`,
    settings: { LOG_LEVEL: "info", ...COLLECT },
    requesterSettings: ENDING_SETTINGS.requester,
    receiverSettings: ENDING_SETTINGS.receiver,
  });
  const count = () => holdings(rig, monitorPort);
  prepareUpstream(rig);
  await runEndings(rig, WARM_FLOWS);
  await closeKept(rig);
  const before = await settled(count, REST_MS);
  assert.deepEqual(before.flows, [0, 0, 0]);
  const memoryBefore = memory(rig);

  await runEndings(rig, FLOWS - 2 * OUTAGE_FLOWS);

  const { port } = rig.upstream;
  await rig.upstream.refuse();
  await closeKept(rig);
  await runFailing(rig, OUTAGE_FLOWS, 502, "target_refused");
  await rig.upstream.listen(port);

  const marks = [rig.requester, ...rig.receivers].map((role) => [role, role.mark] as const);
  await rig.nats.stop();
  await rig.requester.event("not ready", { from: marks[0]![1] });
  await runFailing(rig, OUTAGE_FLOWS, 503, "nats_down");
  await rig.nats.restart();
  for (const [role, from] of marks) await role.event("ready", { from });
  assert.equal((await rig.request("/plain")).status, 200);

  await closeKept(rig);
  await returnsTo(before, count, REST_MS);
  for (const [i, bytes] of memory(rig).entries()) {
    const was = memoryBefore[i]!;
    await t.step(`process ${i}: resident ${mib(was)} before, ${mib(bytes)} after`, () => {
      assert.ok(bytes - was < GROWTH_BYTES);
    });
  }
});
