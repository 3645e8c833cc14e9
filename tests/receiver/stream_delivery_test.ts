import assert from "node:assert/strict";
import { EDGE, envelope, natswayPeer, ReceiverRig } from "../helpers/unit_receiver.ts";
import type { Delivery } from "../../lib/transport/types.ts";

/** A POST, which must not run twice. */
function post(id: string): Record<string, unknown> {
  return envelope(id, { payload: { method: "POST", path: `/${id}`, headers: {}, body: "x" } });
}

function session(id: string): Record<string, unknown> {
  const target = { host: "127.0.0.1", port: 7, requester_service_id: EDGE };
  return envelope(id, { operation: "tcp_stream", payload: target });
}

/** Starts one request with such a delivery; it must not reach the upstream. */
async function notRun(
  message: Record<string, unknown>,
  facts: Partial<Delivery>,
): Promise<{ settled: readonly string[]; statuses: number[] }> {
  await using rig = await ReceiverRig.start();
  rig.request(message, { facts });
  await rig.idle();
  assert.deepEqual(rig.upstream.requests, []);
  const answers = rig.answers(String(message["request_id"]));
  const statuses = answers.flatMap(({ frame }) =>
    frame?.type === 1 && frame.head !== null ? [frame.head.status] : []
  );
  return { settled: rig.transport.settled, statuses };
}

for (const [what, message] of Object.entries({ request: envelope("q"), session: session("q") })) {
  Deno.test(`A ${what} that is older than its client waits is acknowledged and not run`, async () => {
    const { settled, statuses } = await notRun(message, { ageMs: 31_000 });
    assert.deepEqual(settled, ["ack"]);
    assert.deepEqual(statuses, []);
  });
}

Deno.test("An unsafe request of unknown age is given back, and on its last delivery answered", async () => {
  const facts = { ageMs: null, lastDelivery: false };
  assert.deepEqual(await notRun(post("q"), facts), { settled: ["nak"], statuses: [] });
  const last = await notRun(post("q"), { ...facts, lastDelivery: true });
  assert.deepEqual(last.settled, ["nak"]);
  assert.deepEqual(last.statuses, [503]);
});

Deno.test("An unsafe request that is not surely this receiver's is neither run nor answered", async () => {
  const claimed = await notRun(post("q"), { claim: () => Promise.resolve(false) });
  assert.deepEqual(claimed, { settled: [], statuses: [] });
});

Deno.test("A request of a client that waits for less is older sooner", async () => {
  const message = envelope("q", { natsway: natswayPeer({ ttl_ms: 500 }) });
  assert.deepEqual((await notRun(message, { ageMs: 600 })).settled, ["ack"]);
});

Deno.test("An operation that no receiver knows is terminated, counted and shows nothing in the log", async () => {
  await using rig = await ReceiverRig.start();
  rig.request(envelope("q", { operation: "fax-secret" }));
  assert.deepEqual(rig.transport.settled, ["term"]);
  assert.deepEqual([...rig.receiver.dropped.values()], [1]);
  assert.doesNotMatch(JSON.stringify([...rig.receiver.dropped.keys()]), /secret/);
});
