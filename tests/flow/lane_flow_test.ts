import assert from "node:assert/strict";
import { encodeHeadPrefix } from "../../lib/protocol/frames.ts";
import { octets } from "../helpers/bytes.ts";
import { EPOCH, frames, HostRig, OTHER_EPOCH, pattern } from "./lane_rig.ts";

const FIRST = { epoch: EPOCH, instance: "peer", limit: 10_000, whole: false };
const T = 15_000;

function head(): Uint8Array {
  const parts = { status: 200, reason: octets(""), info: octets(""), fields: octets("A: b\r\n") };
  return encodeHeadPrefix(EPOCH, { ...parts, declaredLength: -1 }, false);
}

/** A receiver's tunnel whose first event was answered. */
function openTunnel(rig: HostRig) {
  const opened = rig.open();
  opened.flow.established();
  rig.host.receive("f", frames.window(0, 10_000));
  opened.wire.calls.length = 0;
  return opened;
}

Deno.test("A requester is bound to the first event, answers it and every repeat at once", () => {
  const rig = new HostRig();
  const { flow, wire, app } = rig.open({ role: "requester" });
  assert.equal(flow.offer(pattern(0, 10), 0, 10), 0);
  assert.equal(rig.host.first("f", "peer", FIRST), "taken");
  assert.deepEqual(wire.take(), ["window 0 of 65536"]);
  assert.deepEqual(app.seen, ["room"]);
  assert.equal(flow.offer(pattern(0, 10), 0, 10), 10);
  wire.take();
  assert.equal(rig.host.first("f", "peer", FIRST), "taken");
  assert.deepEqual(wire.take(), ["window 0 of 65536"]);
});

Deno.test("Frames of another epoch are dropped, its first event is to be cancelled, its probe gets gone", () => {
  const rig = new HostRig();
  const { app, wire } = rig.openBound();
  rig.host.receive("f", { ...frames.data(0, pattern(0, 5)), epoch: OTHER_EPOCH });
  assert.deepEqual([app.seen, wire.take()], [[], []]);
  assert.equal(rig.host.first("f", "other", { ...FIRST, epoch: OTHER_EPOCH }), "cancel");
  const whole = { ...FIRST, epoch: OTHER_EPOCH, whole: true };
  assert.equal(rig.host.first("f", "other", whole), "dropped");
  rig.host.receive("f", frames.probe(5, 1, OTHER_EPOCH));
  assert.deepEqual(rig.answers, ["f peer gone gone"]);
});

Deno.test("A requester without its first event answers no probe and keeps early frames, within bounds", () => {
  const rig = new HostRig();
  const { app, wire } = rig.open({ role: "requester" });
  rig.host.receive("f", frames.probe(5, 1));
  rig.host.receive("f", frames.data(0, pattern(0, 5000)));
  rig.host.receive("f", { ...frames.data(0, pattern(9, 20)), epoch: OTHER_EPOCH });
  rig.host.receive("f", frames.data(5000, pattern(5000, 10_000)));
  rig.host.receive("f", frames.eof(10_000));
  assert.deepEqual([app.seen, wire.take(), rig.answers], [[], [], []]);
  rig.host.first("f", "peer", FIRST);
  assert.deepEqual(app.bytes, pattern(0, 5000), "what did not fit is asked for");
  assert.ok(wire.take().includes("window 5000 of 65536 resend"));
});

Deno.test("A first event for a flow that is not there is to be cancelled", () => {
  assert.equal(new HostRig().host.first("nobody", "peer", FIRST), "cancel");
});

Deno.test("A receiver repeats its first event every 2 s, probes nothing, and gives up after PEER_TIMEOUT", () => {
  const rig = new HostRig();
  const { flow, wire, app } = rig.open();
  flow.established();
  flow.offer(pattern(0, 5), 0, 5);
  rig.pass(T - 1);
  assert.equal(wire.calls.length, 1 + 7);
  assert.deepEqual(wire.take(), ["data 0+5"]);
  assert.equal(app.end(), null);
  rig.pass(1);
  assert.deepEqual(app.end(), { reason: "peer_lost", byPeer: false });
  assert.equal(rig.host.size, 0);
});

Deno.test("A head that is the first event is repeated with its body, until anything is heard", () => {
  const rig = new HostRig();
  const { flow, wire } = rig.open({ responseHead: true, receives: false });
  flow.respond(head(), pattern(0, 5), 0, 5, false);
  rig.pass(2000);
  assert.deepEqual(wire.take(), ["head 0+5", "head 0+5"]);
  rig.host.receive("f", frames.window(6, 10_000));
  rig.pass(4000);
  assert.deepEqual(wire.take(), []);
});

Deno.test("A response in one message ends its flow: not kept, answered, repeated or remembered", () => {
  const rig = new HostRig();
  const { flow, wire, app } = rig.open({ responseHead: true, receives: false });
  assert.equal(flow.respond(head(), pattern(0, 5), 0, 5, true), 5);
  assert.deepEqual(wire.take(), ["head 0+5 fin"]);
  assert.equal(app.end()?.reason, "ok");
  assert.deepEqual([rig.host.size, rig.host.remembered], [0, 0]);
  const other = new HostRig();
  const requester = other.open({ role: "requester", responseHead: true, sends: false });
  other.host.first("f", "peer", { ...FIRST, whole: true });
  other.host.receive("f", frames.head(pattern(0, 5), true));
  assert.deepEqual(requester.app.seen, ["head", "data 5", "eof"]);
  requester.flow.delivered(5);
  assert.equal(requester.app.end()?.reason, "ok");
  assert.deepEqual([requester.wire.take(), other.host.remembered], [[], 0]);
});

Deno.test("A half-close leaves the other direction open, and both together end the flow well", () => {
  const rig = new HostRig();
  const { flow, wire, app } = openTunnel(rig);
  rig.host.receive("f", frames.data(0, pattern(0, 5), true));
  flow.delivered(5);
  assert.deepEqual(app.seen, ["data 5", "eof"]);
  assert.equal(flow.offer(pattern(0, 7), 0, 7), 7);
  flow.finish();
  assert.deepEqual(wire.take(), ["window 6 of 65536", "data 0+7", "eof 7"]);
  rig.host.receive("f", frames.window(8, 10_000));
  assert.deepEqual(app.end(), { reason: "ok", byPeer: false });
  assert.equal(rig.budget.usedBytes, 0);
});

Deno.test("An ended flow answers probes: what it acknowledged, or why it ended, for three PEER_TIMEOUT", () => {
  const rig = new HostRig();
  const well = openTunnel(rig);
  rig.host.receive("f", frames.data(0, pattern(0, 5), true));
  well.flow.delivered(5);
  well.flow.finish();
  rig.host.receive("f", frames.window(1, 10_000));
  rig.host.receive("f", frames.probe(6, 9));
  const bad = rig.open({ id: "g" });
  bad.flow.established();
  rig.host.receive("g", frames.window(0, 10_000));
  bad.flow.reset("reset");
  rig.host.receive("g", frames.window(1, 10_000));
  rig.host.receive("g", frames.probe(6, 9));
  assert.deepEqual(rig.answers.splice(0), ["f peer window 6 of 6 #9", "g peer gone reset"]);
  rig.pass(3 * T - 1);
  rig.host.receive("f", frames.probe(6, 9));
  assert.deepEqual(rig.answers.splice(0), ["f peer window 6 of 6 #9"]);
  rig.pass(1);
  rig.host.receive("f", frames.probe(6, 9));
  assert.deepEqual(rig.answers.splice(0), ["f peer gone gone"]);
});

Deno.test("gone, and anything but a probe for a flow that is not there, is not answered", () => {
  const rig = new HostRig();
  rig.host.receive("f", frames.gone("gone"));
  rig.host.receive("f", frames.window(0, 5));
  rig.host.receive("f", frames.data(0, pattern(0, 5)));
  rig.host.receive("f", frames.close(0, "reset"));
  assert.deepEqual(rig.answers, []);
});

Deno.test("A first event whose flow has ended well is answered with the window", () => {
  const rig = new HostRig();
  const { flow } = rig.openBound({ sends: false });
  rig.host.receive("f", frames.data(0, pattern(0, 5), true));
  flow.delivered(5);
  assert.equal(rig.host.first("f", "peer", FIRST), "dropped");
  assert.deepEqual(rig.answers, ["f peer window 6 of 6"]);
});

Deno.test("A reset goes through the lane behind what was taken, is kept and probed for PEER_TIMEOUT", () => {
  const rig = new HostRig();
  const { flow, wire, app } = openTunnel(rig);
  flow.offer(pattern(0, 5), 0, 5);
  flow.reset("reset");
  assert.deepEqual(app.end(), { reason: "reset", byPeer: false });
  assert.equal(rig.host.size, 1);
  rig.pass(4000);
  assert.deepEqual(wire.take(), ["data 0+5", "close 5 reset", "probe 6 #1", "probe 6 #2"]);
  rig.host.receive("f", frames.window(0, 10_000, 2, true));
  assert.deepEqual(wire.take(), ["data 0+5", "close 5 reset", "probe 6 #3"]);
  rig.pass(T);
  assert.equal(rig.host.size, 0);
});

Deno.test("A close of the peer resets at once, and is acknowledged also by who closes itself", () => {
  const rig = new HostRig();
  const { wire, app } = openTunnel(rig);
  rig.host.receive("f", frames.data(0, pattern(0, 5)));
  rig.host.receive("f", frames.close(5, "reset"));
  assert.deepEqual(app.seen, ["data 5", "ended reset by peer"]);
  assert.deepEqual(wire.take(), ["window 6 of 65536"]);
  assert.equal(rig.host.size, 0);
  const other = new HostRig();
  const closing = openTunnel(other);
  closing.flow.reset("reset");
  closing.wire.take();
  other.host.receive("f", frames.close(0, "reset"));
  assert.deepEqual(closing.wire.take(), ["window 1 of 65536"]);
});

Deno.test("A requester ends a request by a cancel: at its owner, or in the pool when it knows none", () => {
  const rig = new HostRig();
  const bound = rig.openBound({ closeBy: "cancel" });
  bound.flow.reset("downstream_disconnect");
  assert.deepEqual(bound.wire.calls, ["cancel owner downstream_disconnect"]);
  assert.deepEqual(bound.wire.take(), []);
  const unbound = rig.open({ id: "g", role: "requester" });
  unbound.flow.reset("downstream_disconnect");
  assert.deepEqual(unbound.wire.calls, ["cancel pool downstream_disconnect"]);
  assert.equal(rig.host.size, 0);
  rig.host.receive("f", frames.probe(5, 1));
  assert.deepEqual(rig.answers, ["f peer gone downstream_disconnect"], "if the cancel is lost");
});

Deno.test("Without a first event a request ends with response_timeout and a cancel in the pool", () => {
  const rig = new HostRig();
  const { wire, app } = rig.open({ role: "requester" });
  rig.pass(29_999);
  assert.equal(app.end(), null);
  rig.pass(1);
  assert.equal(app.end()?.reason, "response_timeout");
  assert.deepEqual(wire.calls, ["cancel pool response_timeout"]);
});

Deno.test("A cancel ends the execution of its epoch, without epoch all of the id", () => {
  const rig = new HostRig();
  const one = rig.open();
  const two = rig.open({ epoch: OTHER_EPOCH });
  assert.equal(rig.host.cancel("f", OTHER_EPOCH, "canceled"), true);
  assert.deepEqual([one.app.end(), two.app.end()?.reason], [null, "canceled"]);
  rig.open({ epoch: OTHER_EPOCH });
  assert.equal(rig.host.cancel("f", null, "canceled"), true);
  assert.equal(rig.host.size, 0);
  assert.equal(rig.host.cancel("f", null, "canceled"), false);
});

Deno.test("A flow beyond the reserve is refused", () => {
  const rig = new HostRig({ maxFlows: 1 });
  const { flow } = rig.open();
  assert.throws(() => rig.open({ id: "g" }), /no reserve/);
  flow.canceled("canceled");
  rig.open({ id: "g" });
});

Deno.test("A flow that never was is dropped without a word, and leaves nothing behind", () => {
  const rig = new HostRig();
  const { flow, wire, app } = rig.open({ role: "requester", epoch: null });
  assert.ok(rig.budget.usedBytes > 0);
  flow.drop();
  flow.reset("late");
  rig.pass(10 * T);
  assert.deepEqual([wire.take(), wire.calls, app.seen], [[], [], []]);
  assert.deepEqual([rig.host.size, rig.host.remembered], [0, 0]);
  assert.deepEqual([rig.budget.usedBytes, rig.budget.flows], [0, 0]);
});
