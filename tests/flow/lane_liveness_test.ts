import assert from "node:assert/strict";
import { EPOCH, frames, HostRig, pattern } from "./lane_rig.ts";

const T = 15_000;

/** A receiver's tunnel whose first event was answered now. */
function openTunnel(rig: HostRig, id = "f") {
  const opened = rig.open({ id });
  opened.flow.established();
  rig.host.receive(id, frames.window(0, 10_000));
  return opened;
}

Deno.test("An idle flow is probed a third of PEER_TIMEOUT after it was heard, and lives for ever if answered", () => {
  const rig = new HostRig();
  const { wire, app } = openTunnel(rig);
  for (let i = 1; i <= 100; i++) {
    rig.pass(T / 3 - 1);
    assert.deepEqual(wire.take(), []);
    rig.pass(1);
    assert.deepEqual(wire.take(), [`probe 0 #${i}`]);
    rig.host.receive("f", frames.window(0, 10_000, i));
  }
  assert.equal(app.end(), null);
});

Deno.test("A side that only consumes probes as well, with nothing sent", () => {
  const rig = new HostRig();
  const { wire, app } = rig.openBound({ sends: false });
  rig.pass(T / 3);
  assert.deepEqual(wire.take(), ["probe 0 #1"]);
  rig.pass(T);
  assert.equal(app.end()?.reason, "peer_lost");
});

Deno.test("An unanswered probe is repeated every 2 s; PEER_TIMEOUT after the first the peer is lost", () => {
  const rig = new HostRig();
  const { wire, app } = openTunnel(rig);
  rig.pass(T / 3 + T - 1);
  assert.equal(app.end(), null);
  assert.equal(wire.take().length, 8);
  rig.pass(1);
  assert.deepEqual(app.end(), { reason: "peer_lost", byPeer: false });
  assert.deepEqual(wire.take().at(-1), "gone peer_lost");
  rig.host.receive("f", frames.probe(0, 1));
  assert.deepEqual(rig.answers, ["f peer gone peer_lost"]);
});

Deno.test("Any frame of the flow stops its clock", () => {
  const rig = new HostRig();
  const { app } = openTunnel(rig);
  rig.pass(T / 3 + T - 1);
  rig.host.receive("f", frames.data(0, pattern(0, 5)));
  rig.pass(T / 3 + T - 1);
  assert.equal(app.end(), null);
  rig.pass(1);
  assert.equal(app.end()?.reason, "peer_lost");
});

Deno.test("Slow is not lost: a shut window may last as long as probes are answered", () => {
  const rig = new HostRig();
  const { flow, wire, app } = openTunnel(rig);
  flow.offer(pattern(0, 10_000), 0, 10_000);
  rig.host.receive("f", frames.window(10_000, 10_000));
  assert.equal(flow.offer(pattern(0, 10), 0, 10), 0);
  wire.take();
  for (let i = 1; i <= 1000; i++) {
    rig.pass(2000);
    assert.deepEqual(wire.take(), [`probe 10000 #${i}`]);
    rig.host.receive("f", frames.window(10_000, 10_000, i));
  }
  assert.equal(app.end(), null);
});

Deno.test("gap: PEER_TIMEOUT of answers that show a loss, with three restarts in vain", () => {
  const rig = new HostRig();
  const { flow, wire, app } = openTunnel(rig);
  flow.offer(pattern(0, 10), 0, 10);
  let answered = 0;
  const start = rig.ms;
  while (app.end() === null && rig.ms < start + 60_000) {
    rig.pass(100);
    const probe = wire.take().findLast((text) => text.startsWith("probe"));
    if (probe === undefined) continue;
    rig.host.receive("f", frames.window(0, 10_000, Number(probe.split("#")[1]), true));
    answered = answered || rig.ms;
  }
  assert.deepEqual(app.end(), { reason: "gap", byPeer: false });
  assert.ok(rig.ms - answered >= T && rig.ms - answered < T + 2000, `${rig.ms - answered}`);
});

Deno.test("gone from the peer ends a flow, but not one whose both ends were said and heard", () => {
  const rig = new HostRig();
  const one = openTunnel(rig);
  rig.host.receive("f", frames.gone("gap"));
  assert.deepEqual(one.app.end(), { reason: "gap", byPeer: true });
  const { flow, app } = openTunnel(rig, "g");
  rig.host.receive("g", frames.data(0, pattern(0, 100), true));
  flow.finish();
  rig.host.receive("g", frames.window(1, 10_000));
  rig.host.receive("g", frames.gone("gone"));
  rig.pass(10 * T);
  assert.equal(app.end(), null, "the slow reader still gets what is buffered");
  flow.delivered(100);
  assert.equal(app.end()?.reason, "ok");
});

Deno.test("While disconnected nothing is published and clocks stand; they start anew at reconnect", () => {
  const rig = new HostRig();
  const { flow, wire, app } = openTunnel(rig);
  flow.offer(pattern(0, 10), 0, 10);
  rig.pass(T - 2000);
  wire.take();
  rig.host.connectionChanged(false);
  assert.equal(flow.offer(pattern(10, 20), 0, 10), 0);
  rig.pass(T - 1);
  assert.deepEqual(wire.take(), []);
  rig.host.connectionChanged(true);
  assert.deepEqual(app.seen, ["room"]);
  rig.pass(0);
  assert.deepEqual(wire.take().length, 1, "what waits is probed at once");
  rig.pass(T - 1);
  assert.equal(app.end(), null);
  rig.pass(1);
  assert.equal(app.end()?.reason, "peer_lost");
});

Deno.test("A process without a connection for PEER_TIMEOUT ends its flows with nats_down", () => {
  const rig = new HostRig();
  const { app } = openTunnel(rig);
  const unbound = rig.open({ id: "g", role: "requester" });
  rig.host.connectionChanged(false);
  rig.pass(T - 1);
  assert.equal(app.end(), null);
  rig.pass(1);
  assert.equal(app.end()?.reason, "nats_down");
  assert.equal(unbound.app.end()?.reason, "nats_down");
  assert.deepEqual(unbound.wire.calls, []);
  const late = rig.open({ id: "h" });
  rig.pass(1);
  assert.equal(late.app.end()?.reason, "nats_down");
});

Deno.test("A peer is pinged while flows are shared; its silence counts after a first answer", () => {
  const rig = new HostRig({ pings: true });
  const one = rig.openBound();
  const two = rig.openBound({ id: "g" });
  const answer = () => {
    for (const id of ["f", "g"]) rig.host.receive(id, frames.window(0, 10_000));
  };
  rig.pass(0);
  assert.deepEqual(rig.pings, ["peer"]);
  assert.equal(rig.host.peers.size, 1);
  rig.pass(2000);
  assert.equal(rig.pings.length, 2, "an unanswered ping is repeated after 2 s");
  rig.host.peers.answered("peer");
  rig.pass(4000);
  answer();
  assert.equal(rig.pings.length, 3);
  one.wire.take();
  rig.pass(T - 1);
  assert.deepEqual([one.app.end(), two.app.end()], [null, null]);
  assert.equal(
    one.wire.take().length,
    0,
    "the flow's own probes are rare while pings are answered",
  );
  rig.pass(4001);
  assert.deepEqual([one.app.end()?.reason, two.app.end()?.reason], ["peer_lost", "peer_lost"]);
  assert.equal(rig.host.peers.size, 0);
});

Deno.test("A peer that never answers a ping is judged by its flows alone", () => {
  const rig = new HostRig({ pings: true });
  const { wire, app } = rig.openBound();
  for (let i = 0; i < 20; i++) {
    rig.pass(T / 3);
    const probe = wire.take().at(-1)!;
    rig.host.receive("f", frames.window(0, 10_000, Number(probe.split("#")[1])));
  }
  assert.equal(app.end(), null);
});

Deno.test("A peer that is heard elsewhere does not save a flow that it has forgotten", () => {
  const rig = new HostRig({ pings: true });
  const { app } = rig.openBound();
  const other = rig.openBound({ id: "g" });
  for (let i = 0; i < 36; i++) {
    rig.pass(1000);
    rig.host.peers.answered("peer");
    rig.host.receive("g", { ...frames.window(0, 10_000), epoch: EPOCH });
  }
  assert.equal(app.end()?.reason, "peer_lost");
  assert.equal(other.app.end(), null);
});
