import assert from "node:assert/strict";
import { encodeNatsHeaders } from "../../lib/protocol/nats_headers.ts";
import { octets } from "../helpers/bytes.ts";
import { contractRig, CREDIT_TIMEOUT_MS, inbound, openRig, SIZES } from "./contract_rig.ts";
import { pattern } from "./lane_rig.ts";

const SIDES = ["requester", "receiver"] as const;
const DATA = { requester: "session_data", receiver: "session_data_downstream" } as const;

for (const side of SIDES) {
  const data = DATA[side];

  Deno.test(`A ${side} sends nothing before the first credit, and grants its own at once`, () => {
    const { flow, wire, app, credit } = contractRig(side);
    flow.open();
    assert.deepEqual(wire.take(), ["credit 32000"]);
    assert.equal(flow.offer(pattern(0, 100), 0, 100), 0);
    assert.deepEqual([wire.take(), app.seen], [[], []]);
    credit(50);
    assert.deepEqual(app.seen, ["room"]);
    assert.equal(flow.offer(pattern(0, 100), 0, 100), 50);
    assert.deepEqual(wire.take(), [`${data} 50`]);
  });

  Deno.test(`A ${side} cuts at the chunk and where credit ends, in order`, () => {
    const { flow, wire } = openRig(side, {}, 2500);
    const bytes = pattern(0, 4000);
    assert.equal(flow.offer(bytes, 10, 4000), 2500);
    const sent = wire.published.map((one) => one.data);
    assert.deepEqual(sent.map((one) => one.length), [1000, 1000, 500]);
    assert.deepEqual(sent.flatMap((one) => [...one]), [...bytes.subarray(10, 2510)]);
  });

  Deno.test(`A ${side} loses credit over the cap, and credit that is none of the session`, () => {
    const { flow, wire, credit } = openRig(side, {}, 0);
    for (let i = 0; i < 9; i++) credit(SIZES.initial);
    const other = { type: "flow_credit", request_id: "other", direction: "upstream", bytes: 9 };
    for (const direction of ["upstream", "downstream"]) {
      const text = JSON.stringify({ ...other, direction });
      flow.receive(inbound(octets(text), `session_credit_${direction}`));
      flow.receive(inbound(octets("{}"), `session_credit_${direction}`));
    }
    let sent = 0;
    for (let took = -1; took !== 0; sent += took) took = flow.offer(pattern(0, 5000), 0, 5000);
    assert.equal(sent, SIZES.cap);
    wire.take();
  });

  Deno.test(`A ${side} that has bytes and no credit ends after the timeout, visibly`, () => {
    const { flow, wire, app, clock, credit } = openRig(side, {}, 10);
    flow.offer(pattern(0, 20), 0, 20);
    clock.pass(CREDIT_TIMEOUT_MS - 1);
    credit(5);
    flow.offer(pattern(10, 20), 0, 10);
    wire.take();
    clock.pass(CREDIT_TIMEOUT_MS - 1);
    assert.equal(app.end(), null);
    clock.pass(1);
    assert.deepEqual(app.end(), { reason: "flow_credit_timeout", byPeer: false });
    const close = '{"type":"session_close","reason":"flow_credit_timeout"}';
    assert.deepEqual(wire.take(), [side === "requester" ? close : `event ${close}`]);
    assert.equal(clock.running, 0);
  });

  Deno.test(`A ${side} without bytes to send may be without credit for ever`, () => {
    const { flow, app, clock } = openRig(side, {}, 10);
    assert.equal(flow.offer(pattern(0, 10), 0, 10), 10);
    clock.pass(100 * CREDIT_TIMEOUT_MS);
    assert.equal(app.end(), null);
    const unlimited = openRig(side, { creditTimeoutMs: 0 }, 0);
    unlimited.flow.offer(pattern(0, 10), 0, 10);
    unlimited.clock.pass(100 * CREDIT_TIMEOUT_MS);
    assert.equal(unlimited.app.end(), null);
  });

  Deno.test(`A ${side} returns credit in batches as the socket takes bytes, the rest at the end`, () => {
    const { flow, wire, app, clock, data } = openRig(side);
    for (let i = 0; i < 20; i++) data(pattern(i * 1000, i * 1000 + 1000));
    assert.deepEqual(app.bytes, pattern(0, 20_000));
    flow.delivered(7999);
    assert.deepEqual(wire.take(), []);
    flow.delivered(2);
    assert.deepEqual(wire.take(), ["credit 8001"]);
    flow.delivered(11_999);
    assert.deepEqual(wire.take(), ["credit 11999"]);
    data(pattern(0, 7));
    flow.peerClosed("");
    clock.pass(100);
    flow.delivered(7);
    assert.deepEqual(wire.take()[0], "credit 7");
    assert.deepEqual(app.end(), { reason: "ok", byPeer: false });
  });

  Deno.test(`A ${side} takes one frame more than it granted, then ends the flow`, () => {
    const { flow, wire, app, warnings, data } = openRig(side);
    for (let i = 0; i < 33; i++) data(pattern(0, 1000));
    assert.equal(app.bytes.length, SIZES.initial + SIZES.chunk);
    assert.equal(app.end(), null);
    data(pattern(0, 1));
    assert.equal(app.bytes.length, SIZES.initial + SIZES.chunk, "memory is bounded");
    const reason = side === "requester" ? "target_broken" : "bad_request";
    assert.deepEqual(app.end(), { reason, byPeer: false });
    assert.match(wire.take().join(), /session_close/);
    assert.equal(warnings.length, 1);
    flow.delivered(1);
    data(pattern(0, 1));
    assert.deepEqual(wire.take(), []);
  });

  Deno.test(`A ${side} holds data back while the transport is congested`, () => {
    const { flow, wire, app } = openRig(side);
    wire.ready = false;
    assert.equal(flow.offer(pattern(0, 10), 0, 10), 0);
    wire.ready = true;
    flow.pump();
    flow.pump();
    assert.deepEqual(app.seen, ["room"]);
    assert.equal(flow.offer(pattern(0, 10), 0, 10), 10);
  });

  Deno.test(`A ${side} gathers tiny pieces instead of flooding the peer's queue with them`, () => {
    const { flow, wire, app, clock } = openRig(side);
    let taken = 0;
    for (let i = 0; i < 100; i++) taken += flow.offer(pattern(i, i + 1), 0, 1);
    assert.equal(taken, 32);
    assert.equal(wire.take().length, 32);
    clock.pass(10);
    assert.deepEqual(app.seen, ["room"]);
    assert.equal(flow.offer(pattern(0, 68), 0, 68), 68);
    assert.deepEqual(wire.take(), [`${data} 68`]);
    assert.equal(flow.offer(pattern(0, 8000), 0, 8000), 8000, "large pieces are not counted");
    flow.reset("reset");
    assert.equal(clock.running, 0);
  });

  Deno.test(`A ${side} ends when the connection to NATS is lost, and says nothing any more`, () => {
    const { flow, wire, app, clock } = openRig(side);
    wire.connected = false;
    flow.connectionLost();
    assert.deepEqual(app.end(), { reason: "nats_down", byPeer: false });
    wire.connected = true;
    assert.equal(flow.offer(pattern(0, 10), 0, 10), 0);
    flow.finish();
    flow.reset("reset");
    flow.connectionLost();
    assert.deepEqual([wire.take(), app.seen], [[], ["ended nats_down"]]);
    assert.equal(clock.running, 0);
  });

  Deno.test(`A ${side} whose bytes were not sent ends with nats_down before it is told`, () => {
    for (const act of ["offer", "finish", "open", "delivered"] as const) {
      const { flow, wire, app, clock, data } = openRig(side);
      data(pattern(0, 9000).subarray(0, 9000));
      wire.connected = false;
      if (act === "offer") flow.offer(pattern(0, 10), 0, 10);
      else if (act === "finish") flow.finish();
      else if (act === "open") flow.open();
      else flow.delivered(9000);
      assert.deepEqual(app.end(), { reason: "nats_down", byPeer: false }, act);
      assert.equal(clock.running, 0, act);
    }
  });

  Deno.test(`A ${side} that has all bytes of a closed session needs the connection no more`, () => {
    const { flow, wire, app, clock, data } = openRig(side);
    data(pattern(0, 10));
    flow.peerClosed("");
    clock.pass(100);
    wire.connected = false;
    flow.connectionLost();
    assert.equal(app.end(), null);
    flow.delivered(10);
    assert.deepEqual(app.end(), { reason: "ok", byPeer: false });
  });

  Deno.test(`A ${side} whose server takes less than a frame ends with internal`, () => {
    const { flow, wire, app } = openRig(side);
    wire.maxBytes = 500;
    flow.offer(pattern(0, 1000), 0, 1000);
    assert.deepEqual(app.end(), { reason: "internal", byPeer: false });
  });

  Deno.test(`A ${side} delivers what comes within 100 ms of silence behind the peer's close`, () => {
    const { flow, app, clock, data } = openRig(side);
    data(pattern(0, 10));
    flow.peerClosed("");
    clock.pass(99);
    data(pattern(10, 20));
    clock.pass(99);
    data(pattern(20, 30));
    flow.delivered(30);
    clock.pass(99);
    assert.deepEqual(app.seen, ["data 10", "data 10", "data 10"]);
    clock.pass(1);
    assert.deepEqual(app.seen.slice(3), ["eof", "ended ok"]);
    assert.deepEqual(app.bytes, pattern(0, 30));
    assert.equal(clock.running, 0);
  });

  Deno.test(`A ${side} ends well only when the socket has taken all`, () => {
    const { flow, app, clock, data } = openRig(side);
    data(pattern(0, 10));
    flow.peerClosed("");
    clock.pass(100);
    flow.delivered(9);
    clock.pass(100_000);
    data(pattern(0, 5));
    assert.deepEqual(app.seen, ["data 10", "eof"]);
    flow.delivered(1);
    assert.deepEqual(app.seen, ["data 10", "eof", "ended ok"]);
  });

  Deno.test(`A ${side} may be called from within what it calls`, () => {
    const rig = openRig(side);
    const { flow, app } = rig;
    app.data = (bytes: Uint8Array) => {
      app.seen.push(`data ${bytes.length}`);
      flow.delivered(bytes.length);
      if (bytes.length === 3) flow.reset("reset");
    };
    rig.data(pattern(0, 2));
    rig.data(pattern(0, 3));
    rig.data(pattern(0, 2));
    assert.deepEqual(app.seen, ["data 2", "data 3", "ended reset"]);
    const closing = openRig(side);
    closing.app.eof = () => closing.flow.reset("reset");
    closing.flow.peerClosed("");
    closing.clock.pass(100);
    assert.deepEqual(closing.app.seen, ["ended reset"]);
    const waking = openRig(side, {}, 0);
    waking.app.room = () => void waking.flow.offer(pattern(0, 100), 0, 100);
    waking.app.room();
    waking.credit(60);
    assert.deepEqual(waking.wire.take(), [`${DATA[side]} 60`]);
  });
}

Deno.test("A receiver takes client bytes under every name that R takes them, and drops other frames", () => {
  const { flow, app, warnings } = openRig("receiver");
  for (const type of [null, "session_data", "session_data_upstream"]) {
    flow.receive(inbound(octets("a"), type));
  }
  const traced = encodeNatsHeaders([["traceparent", "00-1"]]);
  flow.receive({ ...inbound(octets("a"), null), headers: traced });
  for (const type of ["session_data_downstream", "Session_Data", "natsway", "response_credit"]) {
    flow.receive(inbound(octets("b"), type));
  }
  assert.deepEqual([app.bytes, warnings], [octets("aaaa"), []]);
});

Deno.test("A requester takes target bytes under their one name, and no close by frame", () => {
  const { flow, app, clock } = openRig("requester");
  flow.receive(inbound(octets("a"), "session_data_downstream"));
  for (const type of [null, "session_data", "session_data_upstream", "session_close", "x"]) {
    flow.receive(inbound(octets("b"), type));
  }
  clock.pass(1000);
  assert.deepEqual([app.bytes, app.end()], [octets("a"), null]);
});
