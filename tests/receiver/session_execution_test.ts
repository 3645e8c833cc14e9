import assert from "node:assert/strict";
import { FlowError } from "../../lib/errors.ts";
import { MemoryBudget } from "../../lib/flow/memory_budget.ts";
import { encodeClose, encodeEof, encodeProbe, encodeWindow } from "../../lib/protocol/frames.ts";
import { decodeSessionEvent, SessionFrame, sessionHeaders } from "../../lib/protocol/session.ts";
import { brief } from "../flow/lane_rig.ts";
import { latin1, octets } from "../helpers/bytes.ts";
import { DOWN, sessionEnvelope, TargetRig } from "../helpers/unit_target.ts";
import { dataFrame } from "../helpers/unit_requester.ts";
import { within } from "../helpers/wait.ts";

// Whether an end is a reset is not seen here: that takes rights that tests do not have (reset_test.ts).
/** The envelope's window in these tests, and what this side grants first. */
const LIMIT = 50_000;
const GRANT = 262_144;

Deno.test("A session is dialled, answered with both ends' facts, and carries bytes both ways", async () => {
  await using rig = await TargetRig.start();
  const session = rig.open("s");
  const event = await session.established();
  const target = await rig.target();
  assert.deepEqual({ ...event.json, natsway: { ...event.json.natsway, epoch: "" } }, {
    type: "session_established",
    session_id: "s",
    bind_host: "127.0.0.1",
    bind_port: target.remotePort,
    ingress_kind: "http_connect",
    receiver_service_id: "worker-1",
    flow_kind: "tcp_stream",
    natsway: {
      v: 1,
      instance: "i-worker-1",
      features: ["raw"],
      max_msg: 1_048_576,
      ttl_ms: 0,
      window: GRANT,
      epoch: "",
    },
  });
  assert.equal(event.subject, "from.proxy.responses.edge-a.s");
  assert.match(event.json.natsway.epoch, /^[0-9a-f]{16}$/);
  assert.deepEqual(rig.transport.settled, ["ack"]);
  session.window(0, LIMIT);
  session.up(dataFrame(0, "ping", { epoch: session.epoch }));
  assert.equal(latin1(await target.readExactly(4)), "ping");
  await target.write("pong");
  await session.says("data 0+4");
  const down = rig.transport.to(DOWN).at(-1)!;
  assert.equal(down.subject, `${DOWN}edge-a.s`);
  await target.closeWrite();
  await session.says("eof 4");
  session.up(dataFrame(4, "!", { epoch: session.epoch, fin: true }));
  assert.equal(latin1(await target.readExactly(1)), "!");
  assert.equal(await target.waitEnd(), "fin");
  session.window(5, LIMIT);
  await rig.idle();
  assert.deepEqual(rig.ends, { ok: 1 });
  assert.deepEqual([rig.budget.usedBytes, rig.budget.flows], [0, 0]);
});

Deno.test("The first event is repeated until the requester is heard, and nothing is probed before", async () => {
  await using rig = await TargetRig.start({ peerTimeoutMs: 600 });
  const session = rig.open("s");
  const first = await session.established();
  const again = await rig.receiver.answer("s", 2);
  assert.deepEqual(again.payload, first.payload);
  session.window(0, LIMIT);
  const count = rig.receiver.answers("s").length;
  await session.says("probe 0 #1");
  assert.equal(rig.receiver.answers("s").length, count, "heard once is enough");
});

Deno.test("A requester that is never heard for PEER_TIMEOUT is lost, and the target is reset", async () => {
  await using rig = await TargetRig.start({ peerTimeoutMs: 120 });
  rig.open("s");
  const target = await rig.target();
  await rig.idle();
  assert.deepEqual(rig.ends, { peer_lost: 1 });
  await target.waitEnd();
});

Deno.test("What the target says at once goes out behind the first event, up to the envelope's window", async () => {
  await using rig = await TargetRig.start({}, (target) => target.write("x".repeat(5_000)));
  const session = rig.open("s", { window: 1_000 });
  await session.established();
  await session.says("data 0+1000");
  assert.ok(!session.said.some((one) => one.startsWith("data 1000")));
  session.window(1_000, 3_000);
  await session.says("data 1000+2000");
});

Deno.test("Bad payloads get the 400s of wire-protocol.md section 9, and nothing is dialled", async () => {
  await using rig = await TargetRig.start();
  const hostPort = "Missing or invalid host/port for tcp_stream";
  const service = "Missing requester_service_id for tcp_stream";
  const rows: [Record<string, unknown>, string][] = [
    [{ host: "" }, hostPort],
    [{ host: 7 }, hostPort],
    [{ host: undefined }, hostPort],
    [{ port: 0 }, hostPort],
    [{ port: 65_536 }, hostPort],
    [{ port: 1.5 }, hostPort],
    [{ port: "x" }, hostPort],
    [{ port: null }, hostPort],
    [{ requester_service_id: "" }, service],
    [{ requester_service_id: undefined }, service],
    [{ requester_service_id: "a b" }, service],
    [{ requester_service_id: "a..b" }, service],
    [{ requester_service_id: "*" }, service],
  ];
  for (const natsway of [true, false]) {
    for (const [index, [changes, text]] of rows.entries()) {
      const id = `${natsway ? "n" : "r"}${index}`;
      rig.open(id, { ruby: !natsway, payload: changes });
      const events = rig.receiver.answers(id).map((one) => one.json);
      assert.deepEqual(events.map((one) => one.type), [
        "response_start",
        "response_chunk",
        "response_end",
      ], id);
      assert.equal(events[0].status, 400);
      assert.equal(events[0].request_id, undefined);
      assert.equal(events[1].body, JSON.stringify({ error: text }));
      assert.equal(rig.transport.settled.at(-1), "term");
    }
  }
  assert.equal(rig.receiver.registry.opened, 0);
  assert.equal(rig.targets.events.length, 0);
});

Deno.test("A port as digits is a port", async () => {
  await using rig = await TargetRig.start();
  await rig.open("s", { payload: { port: String(rig.port) } }).established();
});

Deno.test("A dial that fails is a head with its code for natsway, a text of section 9 for nats-proxy", async () => {
  const rows = [
    ["target_refused", 502, true],
    ["target_not_found", 502, true],
    ["target_timeout", 504, true],
    ["target_unreachable", 502, true],
    ["target_denied", 403, false],
    ["loop", 508, false],
  ] as const;
  for (const [code, status, contractText] of rows) {
    await using rig = await TargetRig.start({
      dialSession: () => Promise.reject(new FlowError(code, "the reason")),
    });
    rig.open("n");
    const [frame] = await rig.receiver.frames("n");
    assert.equal(frame?.head?.status, status);
    assert.deepEqual(JSON.parse(latin1(frame.body)), { error: "the reason", code });
    rig.open("r", { ruby: true, payload: { host: "::1", port: 22 } });
    const [start, chunk, ...end] = (await rig.receiver.whole("r")).map((one) => one.json);
    assert.deepEqual(end, [{ type: "response_end" }]);
    assert.equal(start.request_id, "r");
    assert.equal(start.flow_kind, "tcp_stream");
    if (contractText) {
      assert.equal(start.status, 502);
      assert.equal(start.content_type, "text/plain");
      assert.equal(chunk.body, "Failed to connect to [::1]:22");
    } else {
      assert.equal(start.status, status);
      assert.equal(JSON.parse(chunk.body).code, code);
    }
    await rig.idle();
    assert.deepEqual(rig.ends, { [code]: 2 });
    assert.deepEqual(rig.transport.settled, ["ack", "ack"]);
    assert.equal(rig.budget.flows, 0);
  }
});

Deno.test("A real refusal is target_refused", async () => {
  await using rig = await TargetRig.start();
  rig.close();
  rig.open("s");
  const [frame] = await rig.receiver.frames("s");
  assert.equal(frame?.head?.status, 502);
  assert.equal(JSON.parse(latin1(frame.body)).code, "target_refused");
});

Deno.test("A cancel while it is dialled ends the dial; natsway is told nothing", async () => {
  const dialling = Promise.withResolvers<AbortSignal>();
  await using rig = await TargetRig.start({
    dialSession: (_target, signal) => {
      dialling.resolve(signal);
      return new Promise((_, reject) => {
        signal.addEventListener("abort", () => reject(new FlowError("canceled", "ended")));
      });
    },
  });
  rig.open("s");
  const signal = await dialling.promise;
  rig.cancel("s");
  assert.ok(signal.aborted);
  await rig.idle();
  assert.deepEqual(rig.ends, { canceled: 1 });
  assert.equal(rig.transport.all.length, 0);
});

Deno.test("A connection that is there just after its cancel is closed, and not told", async () => {
  const gate = Promise.withResolvers<void>();
  await using rig = await TargetRig.start({}, () => {}, gate.promise);
  rig.open("s");
  const target = await rig.target();
  rig.cancel("s");
  gate.resolve();
  await rig.idle();
  assert.equal(await target.waitEnd(), "fin");
  assert.equal(rig.transport.all.length, 0);
});

Deno.test("A cancel of an open session resets its target", async () => {
  await using rig = await TargetRig.start();
  const session = rig.open("s");
  await session.established();
  rig.cancel("s", "0000000000000000");
  assert.equal(rig.receiver.registry.size, 1, "that is another execution");
  rig.cancel("s");
  await (await rig.target()).waitEnd();
  await rig.idle();
  assert.deepEqual(rig.ends, { canceled: 1 });
});

Deno.test("What waited longer than its client does is not dialled", async () => {
  await using rig = await TargetRig.start({ maxInflight: 1 }, () => {}, new Promise(() => {}));
  rig.open("first");
  await rig.target();
  rig.open("late", { ttl_ms: 1 });
  await new Promise((resolve) => setTimeout(resolve, 20));
  rig.cancel("first");
  rig.releaseDials();
  await rig.idle();
  assert.equal(rig.targets.events.length, 1);
  assert.equal(rig.receiver.answers("late").length, 0);
  assert.deepEqual(rig.ends, { canceled: 2 });
});

Deno.test("A cancel that comes first is remembered: the session is acked and not dialled", async () => {
  await using rig = await TargetRig.start();
  rig.cancel("s");
  rig.open("s");
  assert.deepEqual(rig.transport.settled, ["ack"]);
  assert.equal(rig.receiver.registry.opened, 0);
});

Deno.test("A slot is held for the dial alone: open sessions keep nobody waiting", async () => {
  await using rig = await TargetRig.start({ maxInflight: 1 });
  for (const id of ["a", "b", "c"]) await rig.open(id).established();
  assert.equal(rig.receiver.registry.size, 3);
});

Deno.test("Without memory for lanes the answer is overloaded, and the target is let go", async () => {
  const budget = new MemoryBudget({ totalBytes: 2 ** 20, maxFlows: 0 });
  await using rig = await TargetRig.start({ budget });
  rig.open("s");
  const [frame] = await rig.receiver.frames("s");
  assert.equal(frame?.head?.status, 503);
  assert.equal(JSON.parse(latin1(frame.body)).code, "overloaded");
  assert.equal(await (await rig.target()).waitEnd(), "fin");
});

Deno.test("A break on either side resets the other", async () => {
  await using rig = await TargetRig.start();
  const one = rig.open("one");
  await one.established();
  const first = await rig.target();
  await first.reset();
  await one.says("close 0 reset");
  const two = rig.open("two");
  await two.established();
  two.up(encodeClose(two.epoch, 0, "reset"));
  await (await rig.target(1)).waitEnd();
  await rig.idle();
  assert.deepEqual(rig.ends, { reset: 2 });
});

Deno.test("Frames of another epoch, and for nobody, change nothing; a probe for nobody is answered gone", async () => {
  await using rig = await TargetRig.start();
  const session = rig.open("s");
  await session.established();
  const foreign = octets("12345678");
  session.up(dataFrame(0, "ZZZ", { epoch: foreign }));
  session.up(encodeClose(foreign, 0, "reset"));
  session.up(encodeEof(foreign, 0));
  session.up(octets("\x01"));
  session.up(octets("no frame at all"));
  session.up(encodeProbe(foreign, 3, 1, "edge-a"));
  const gone = rig.transport.all.at(-1)!;
  assert.equal(gone.subject, "from.proxy.responses.edge-a.s");
  assert.equal(brief(gone.frame!), "gone gone");
  rig.transport.deliver("sessions.upstream", "nobody", encodeWindow(foreign, 0, 9, 0));
  const headers = new TextDecoder().decode(sessionHeaders(SessionFrame.Data, "nobody"));
  const probe = encodeProbe(foreign, 3, 1, "edge-a");
  rig.transport.deliver("sessions.upstream", "nobody", probe, { headers });
  assert.equal(rig.transport.all.at(-1), gone, "a frame of the contract is none of natsway's");
  session.up(dataFrame(0, "fine", { epoch: session.epoch }));
  assert.equal(latin1(await (await rig.target()).readExactly(4)), "fine");
});

Deno.test("stop answers what is dialled and resets what is open", async () => {
  const rig = await TargetRig.start();
  const open = rig.open("open");
  await open.established();
  const held = await TargetRig.start({}, () => {}, new Promise(() => {}));
  held.open("dialled");
  await held.target();
  for (const one of [rig, held]) one.receiver.receiver.stop();
  await open.says("close 0 stopping");
  await (await rig.target()).waitEnd();
  const [frame] = await held.receiver.frames("dialled");
  assert.equal(JSON.parse(latin1(frame!.body)).code, "stopping");
  held.releaseDials();
  for (const one of [rig, held]) await one[Symbol.asyncDispose]();
});

Deno.test("The answer waits for the connection to NATS to come back, while its client waits", async () => {
  const gate = Promise.withResolvers<void>();
  await using rig = await TargetRig.start({}, () => {}, gate.promise);
  const session = rig.open("s");
  await rig.target();
  rig.transport.setConnected(false);
  gate.resolve();
  rig.transport.setConnected(true);
  await session.established();
});

Deno.test("An idle session ends after IDLE_TIMEOUT, with the reason for its requester", async () => {
  await using rig = await TargetRig.start({ idleTimeoutMs: 40 });
  const session = rig.open("s");
  await session.established();
  session.window(0, LIMIT);
  await session.says("close 0 idle_timeout");
  await (await rig.target()).waitEnd();
  await rig.idle();
  assert.deepEqual(rig.ends, { idle_timeout: 1 });
});

Deno.test("A requester of the contract gets the event without natsway's part, then its credit", async () => {
  await using rig = await TargetRig.start();
  const session = rig.open("r", { ruby: true, payload: { ingress_kind: "socks5" } });
  const event = await session.established();
  assert.deepEqual(Object.keys(event.json), [
    "type",
    "session_id",
    "bind_host",
    "bind_port",
    "ingress_kind",
    "receiver_service_id",
    "flow_kind",
  ]);
  assert.equal(event.json.flow_kind, "socks5_stream");
  assert.equal(decodeSessionEvent(event.payload)?.type, "session_established");
  const [credit] = rig.transport.to(DOWN);
  assert.equal(credit?.json.direction, "upstream");
  rig.transport.deliver("sessions.upstream", "r", "bytes");
  assert.equal(latin1(await (await rig.target()).readExactly(5)), "bytes");
  rig.transport.setConnected(false);
  await (await rig.target()).waitEnd();
  await within(rig.idle(), 5_000, "the end");
  assert.deepEqual(rig.ends, { nats_down: 1 });
  assert.ok(sessionEnvelope("x", 1).natsway, "the other tests are of natsway");
});
