import assert from "node:assert/strict";
import { encodeGone } from "../../lib/protocol/frames.ts";
import { brief } from "../flow/lane_rig.ts";
import { octets } from "../helpers/bytes.ts";
import { envelope, ReceiverRig } from "../helpers/unit_receiver.ts";
import type { Script } from "../helpers/upstream.ts";

/** An upstream that gives half of a body, and the rest when the test writes it. */
const halfAnAnswer: Script = async (connection) => {
  await connection.readUntil("\r\n\r\n");
  await connection.write("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nabc");
  await connection.waitEnd(10_000);
};

Deno.test("gone from the requester ends the call of that epoch", async () => {
  await using rig = await ReceiverRig.start(halfAnAnswer);
  rig.request(envelope("q"));
  const { epoch } = (await rig.answer("q")).frame!;
  rig.transport.deliver("control", "q", encodeGone(octets("12345678"), "gone"));
  rig.transport.deliver("control", "q", octets("\x03"));
  rig.transport.deliver("control", "other", encodeGone(epoch, "gone"));
  assert.equal(rig.registry.size, 1);
  rig.transport.deliver("control", "q", encodeGone(epoch, "gone"));
  await rig.idle();
  assert.deepEqual(rig.ends, { peer_lost: 1 });
  await rig.upstream.connections[0]!.waitEnd();
});

Deno.test("A requester that answers no first event for PEER_TIMEOUT is lost", async () => {
  await using rig = await ReceiverRig.start(halfAnAnswer, { peerTimeoutMs: 150 });
  rig.request(envelope("q"));
  await rig.idle();
  assert.deepEqual(rig.ends, { peer_lost: 1 });
  const sent = rig.answers("q").map((one) => brief(one.frame!));
  assert.ok(sent.length > 2, "it was repeated");
  assert.deepEqual([...new Set(sent)], ["head 0+3", "gone peer_lost"], "and nothing was probed");
});

Deno.test("A requester that answers no probe for PEER_TIMEOUT is lost, and told so", async () => {
  await using rig = await ReceiverRig.start(halfAnAnswer, { peerTimeoutMs: 150 });
  rig.request(envelope("q"));
  await rig.answer("q");
  rig.window("q", 4, 1_000);
  const probe = await rig.transport.find((one) => one.frame?.type === 4, "a probe");
  assert.equal(brief(probe.frame!), "probe 4 #1");
  assert.equal(probe.reply, "to.proxy.control.worker-1.q");
  const gone = await rig.transport.find((one) => one.frame?.type === 6, "the end");
  assert.equal(brief(gone.frame!), "gone peer_lost");
  await rig.idle();
  assert.deepEqual(rig.ends, { peer_lost: 1 });
});

Deno.test("A lost link costs a response nothing: what was lost is sent again", async () => {
  await using rig = await ReceiverRig.start(halfAnAnswer);
  rig.request(envelope("q"));
  await rig.answer("q");
  rig.window("q", 4, 1_000);
  rig.transport.setConnected(false);
  await rig.upstream.connections[0]!.write("def");
  rig.transport.setConnected(true);
  const [, last] = await rig.takes("q");
  assert.equal(brief(last!), "data 4+3 fin");
  await rig.idle();
  assert.deepEqual(rig.ends, { ok: 1 });
});

Deno.test("A link that stays lost for PEER_TIMEOUT ends the response with nats_down", async () => {
  await using rig = await ReceiverRig.start(halfAnAnswer, { peerTimeoutMs: 100 });
  rig.request(envelope("q"));
  await rig.answer("q");
  rig.transport.setConnected(false);
  await rig.idle();
  assert.deepEqual(rig.ends, { nats_down: 1 });
  await rig.upstream.connections[0]!.waitEnd();
});
