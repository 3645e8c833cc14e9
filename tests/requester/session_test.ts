import assert from "node:assert/strict";
import { encodeClose, encodeEof, encodeProbe, encodeWindow } from "../../lib/protocol/frames.ts";
import { MemoryBudget } from "../../lib/flow/memory_budget.ts";
import { SessionFrame, sessionHeaders } from "../../lib/protocol/session.ts";
import { octets } from "../helpers/bytes.ts";
import { dataFrame, EPOCH, FOREIGN, headFrame, RequesterRig } from "../helpers/unit_requester.ts";
import { established, SessionRig, UP_WINDOW } from "../helpers/unit_session.ts";
import { within } from "../helpers/wait.ts";

const WINDOW = 262_144;

Deno.test("A session is published once, as tcp_stream, and answered with the receiver's end of it", async () => {
  using rig = new RequesterRig();
  const session = new SessionRig(rig, { host: "2001:db8::1", port: 22 });
  const { message, id } = session;
  assert.equal(rig.transport.all.length, 1);
  assert.equal(message?.subject, `to.proxy.requests.edge-a.${id}`);
  assert.equal(message.reply, `from.proxy.responses.edge-a.${id}`);
  assert.equal(message.headers, null);
  assert.deepEqual(message.json, {
    type: "request",
    request_id: id,
    reply_to: `from.proxy.responses.edge-a.${id}`,
    operation: "tcp_stream",
    payload: {
      host: "2001:db8::1",
      port: 22,
      ingress_kind: "http_connect",
      method: "CONNECT",
      requester_service_id: "edge-a",
    },
    natsway: {
      v: 1,
      instance: "i-edge-a",
      features: ["raw"],
      max_msg: 1_048_576,
      ttl_ms: 60_000,
      window: WINDOW,
    },
  });
  session.establish();
  assert.deepEqual(session.client.told.events, ["established 10.3.0.9:41822"]);
  assert.deepEqual(session.said, [`window 0 of ${WINDOW}`]);
  const [flow] = rig.registry.live();
  assert.deepEqual(
    [flow?.kind, flow?.method, flow?.target, flow?.state, flow?.status, flow?.peer],
    ["tcp", "CONNECT", "[2001:db8::1]:22", "open", 200, "worker-1"],
  );
  session.client.socket.breakOff();
  await within(rig.registry.idle(), 5_000, "the end");
});

Deno.test("The way in stands in the request: SOCKS5 has a method of its own", () => {
  using rig = new RequesterRig();
  for (const [kind, method] of [["socks5", "SOCKS5_CONNECT"], ["forward", "CONNECT"]] as const) {
    const { payload } = new SessionRig(rig, { ingressKind: kind }).message!.json;
    assert.deepEqual([payload.ingress_kind, payload.method], [kind, method]);
  }
});

Deno.test("Bytes cross both ways, each end is said on its own, and the flow ends well", async () => {
  using rig = new RequesterRig();
  const session = new SessionRig(rig);
  const { socket } = session.client;
  session.establish();
  socket.send("ping");
  await session.says("data 0+4");
  session.downstream(dataFrame(0, "pong"));
  await socket.gets("pong");
  socket.sendEnd();
  await session.says("eof 4");
  assert.ok(!socket.log.events.includes("closeWrite"));
  session.downstream(dataFrame(4, " and more", { fin: true }));
  await socket.gets("pong and more");
  await socket.sees("closeWrite");
  assert.equal(rig.end, "");
  session.downstream(encodeWindow(EPOCH, 5, UP_WINDOW, 0));
  await within(rig.registry.idle(), 5_000, "the end");
  await socket.sees("close");
  assert.equal(rig.end, "ok");
  assert.ok(session.said.includes(`window 14 of ${WINDOW}`), "its end is acknowledged");
  assert.deepEqual(session.cancels, []);
  assert.equal(rig.budget.usedBytes, 0);
});

Deno.test("What the client sent early goes first, as far as the receiver's window", async () => {
  using rig = new RequesterRig();
  const session = new SessionRig(rig);
  const { socket } = session.client;
  socket.send("early bytes");
  await socket.reader.more();
  socket.send("later");
  session.establish();
  await session.says("data 0+11");
  await session.says("data 11+5");
});

Deno.test("Target bytes that overtake session_established are kept for it", async () => {
  using rig = new RequesterRig();
  const session = new SessionRig(rig);
  session.downstream(dataFrame(0, "banner"));
  session.downstream(dataFrame(0, "ZZZ", { epoch: FOREIGN }));
  session.establish();
  await session.client.socket.gets("banner");
});

Deno.test("session_established is answered at every repeat, and taken once", () => {
  using rig = new RequesterRig();
  const session = new SessionRig(rig);
  for (let i = 0; i < 3; i++) session.establish();
  assert.deepEqual(session.client.told.events, ["established 10.3.0.9:41822"]);
  assert.deepEqual(session.said, Array(3).fill(`window 0 of ${WINDOW}`));
});

Deno.test("A second execution is cancelled with its epoch; the session goes on with the first", async () => {
  using rig = new RequesterRig();
  const session = new SessionRig(rig);
  session.establish();
  session.establish({ epoch: FOREIGN, receiverServiceId: "worker-2" });
  session.establish({ epoch: FOREIGN, receiverServiceId: "a.>" });
  session.downstream(dataFrame(0, "ZZZ", { epoch: FOREIGN }));
  session.event(headFrame({ code: "target_refused", epoch: FOREIGN }));
  assert.deepEqual(session.cancels, ["worker-2 foreign_epoch b1b2b3b4b5b6b7b8"]);
  session.downstream(dataFrame(0, "fine"));
  await session.client.socket.gets("fine");
  assert.equal(session.client.told.events.length, 1);
});

Deno.test("A refusal comes as a head with its code and reason; no receiver is told anything", () => {
  const rows: [string | null, string, string][] = [
    ["target_refused", '{"error":"Connection to db.lan:5432 refused"}', "target_refused"],
    ["target_denied", '{"error":"denied"}', "target_denied"],
    ["overloaded", "{}", "overloaded"],
    ["a-later-code", '{"error":"x"}', "target_broken"],
    [null, "not JSON", "target_broken"],
  ];
  for (const [code, body, expected] of rows) {
    using rig = new RequesterRig();
    const session = new SessionRig(rig);
    session.event(headFrame({ status: 502, code, body }));
    assert.deepEqual(session.client.told.events, [`failed ${expected}`]);
    const { error = null } = body.startsWith("{") ? JSON.parse(body) : {};
    assert.equal(session.client.message, error ?? `The receiver refused the session: ${expected}`);
    assert.equal(rig.end, expected);
    assert.equal(rig.transport.all.length, 1);
    assert.deepEqual([rig.budget.usedBytes, rig.budget.flows], [0, 0]);
    session.establish({ epoch: FOREIGN });
    assert.deepEqual(session.cancels, ["worker-1 foreign_epoch b1b2b3b4b5b6b7b8"]);
    assert.equal(session.client.told.events.length, 1, "what comes late reaches nobody");
  }
});

Deno.test("A refusal's text is bounded, and the log line has code, status and receiver", () => {
  using rig = new RequesterRig();
  const session = new SessionRig(rig);
  const body = JSON.stringify({ error: "x".repeat(9_000) });
  session.event(headFrame({ status: 403, code: "target_denied", body }));
  assert.equal(session.client.message.length, 512);
  const line = rig.logger.lines.find((one) => one.message === "flow closed");
  const { code, status, peer, kind, target } = line!.fields;
  assert.deepEqual(
    { code, status, peer, kind, target },
    { code: "target_denied", status: 403, peer: "worker-1", kind: "tcp", target: "db.lan:5432" },
  );
});

Deno.test("Another event than session_established is a failure that names it", () => {
  const rows: [object, string, string][] = [
    [{ type: "response_start", status: 502 }, "target_broken", "response_start"],
    [{ type: "response_error", error: "x" }, "target_broken", "response_error"],
    [{ type: "request_ready" }, "target_broken", "request_ready"],
  ];
  for (const [event, code, name] of rows) {
    using rig = new RequesterRig();
    const session = new SessionRig(rig);
    session.event(event);
    assert.deepEqual(session.client.told.events, [`failed ${code}`]);
    const text = `Session failed: Expected session_established, got ${name}`;
    assert.equal(session.client.message, text);
    assert.equal(rig.budget.flows, 0);
  }
});

Deno.test("A receiver whose SERVICE_ID can stand in no subject is refused, and the pool is told", () => {
  for (const form of [{}, { natsway: null }]) {
    using rig = new RequesterRig();
    const session = new SessionRig(rig);
    session.establish({ receiverServiceId: "a.>", ...form });
    assert.deepEqual(session.client.told.events, ["failed target_broken"]);
    assert.deepEqual(session.cancels, ["_pool target_broken any"]);
    assert.equal(rig.budget.flows, 0);
  }
});

Deno.test("Broken and unknown messages are dropped, and the session goes on", () => {
  using rig = new RequesterRig();
  const session = new SessionRig(rig);
  for (const bad of ["\x01", "\x01\x80" + "\0".repeat(30), "\x05" + "\0".repeat(40), "{", "[]"]) {
    session.event(octets(bad));
  }
  session.establish();
  assert.deepEqual(session.client.told.events, ["established 10.3.0.9:41822"]);
  for (const bad of ["\x01", "\x07" + "\0".repeat(40), "{}"]) session.downstream(octets(bad));
  assert.equal(rig.end, "");
});

Deno.test("One no-responders is a question to the pool; a second one means that nobody is there", async () => {
  for (const answers of [1, 2]) {
    using rig = new RequesterRig();
    const session = new SessionRig(rig);
    const nobody = () =>
      rig.transport.deliver("responses", session.id, "", { headers: "NATS/1.0 503\r\n\r\n" });
    rig.transport.flushed = () => {
      if (answers === 2) nobody();
      return Promise.resolve();
    };
    nobody();
    assert.equal(await session.client.failure(), answers === 2 ? "no_receiver" : "overloaded");
    assert.deepEqual(session.cancels, ["_pool no_receiver any"]);
  }
});

Deno.test("No first event in NATS_RESPONSE_TIMEOUT is response_timeout, and the pool is told", async () => {
  using rig = new RequesterRig({ responseTimeoutMs: 30 });
  const session = new SessionRig(rig);
  assert.equal(await session.client.failure(), "response_timeout");
  const text = "Session establishment timeout: no answer within 0.03 s";
  assert.equal(session.client.message, text);
  assert.deepEqual(session.cancels, ["_pool response_timeout any"]);
  assert.equal(rig.transport.all.length, 2);
  assert.equal(rig.end, "response_timeout");
  session.establish();
  assert.ok(session.cancels.includes("worker-1 foreign_epoch a1a2a3a4a5a6a7a8"));
});

Deno.test("A client that leaves while it waits is told nothing, the pool that it has left", () => {
  using rig = new RequesterRig();
  const session = new SessionRig(rig);
  session.handle.abandon();
  session.handle.abandon();
  assert.equal(rig.end, "canceled");
  assert.deepEqual(session.cancels, ["_pool canceled any"]);
  session.establish();
  assert.deepEqual(session.cancels.slice(1), ["worker-1 foreign_epoch a1a2a3a4a5a6a7a8"]);
  assert.deepEqual(session.client.told.events, []);
  assert.equal(rig.budget.flows, 0);
});

Deno.test("A client that is found to have left at the success ends the target's connection", () => {
  using rig = new RequesterRig();
  const session = new SessionRig(rig);
  session.client.gone = true;
  session.establish();
  assert.equal(session.said.at(-1), "close 0 canceled");
  assert.equal(rig.end, "canceled");
  assert.deepEqual(session.client.told.events, ["established 10.3.0.9:41822"]);
});

Deno.test("A client that breaks off resets the target; one whose target does so is reset", async () => {
  using rig = new RequesterRig();
  const left = new SessionRig(rig);
  left.establish();
  left.client.socket.breakOff();
  await left.says("close 0 reset");
  await left.client.socket.sees("reset");
  const lost = new SessionRig(rig);
  lost.establish();
  lost.downstream(encodeClose(EPOCH, 0, "reset"));
  await lost.client.socket.sees("reset");
  assert.deepEqual([...rig.registry.ends()], [["reset", 2]]);
  lost.handle.abandon();
  assert.equal(lost.said.at(-1), `window 1 of ${WINDOW}`, "the close is acknowledged");
});

Deno.test("Without a connection, or beyond MAX_FLOWS and memory, nothing is published", async () => {
  const down = new RequesterRig();
  down.transport.setConnected(false);
  const full = new RequesterRig({ maxFlows: 0 });
  const budget = new MemoryBudget({ totalBytes: 2 ** 20, maxFlows: 0 });
  const poor = new RequesterRig({ budget });
  const rows = [[down, "nats_down"], [full, "overloaded"], [poor, "overloaded"]] as const;
  for (const [rig, code] of rows) {
    const session = new SessionRig(rig);
    assert.equal(session.toldTooEarly, 0);
    assert.equal(await session.client.failure(), code);
    assert.equal(rig.transport.all.length, 0);
    assert.equal(rig.end, code);
    assert.equal(rig.registry.size, 0);
    rig[Symbol.dispose]();
  }
});

Deno.test("A link that stays lost for PEER_TIMEOUT ends sessions with nats_down, waiting or open", async () => {
  using rig = new RequesterRig({ peerTimeoutMs: 60 });
  const waiting = new SessionRig(rig);
  const open = new SessionRig(rig);
  open.establish();
  rig.transport.setConnected(false);
  assert.equal(await waiting.client.failure(), "nats_down");
  await open.client.socket.sees("reset");
  assert.deepEqual([...rig.registry.ends()], [["nats_down", 2]]);
});

Deno.test("A lost link costs an open session nothing: what was lost is sent again", async () => {
  using rig = new RequesterRig();
  const session = new SessionRig(rig);
  const { socket } = session.client;
  session.establish();
  socket.send("lost");
  await session.says("data 0+4");
  rig.transport.setConnected(false);
  socket.send(" kept");
  rig.transport.setConnected(true);
  await session.says("data 4+5");
  await session.says("probe 9 #1");
  session.downstream(encodeWindow(EPOCH, 0, UP_WINDOW, 1, true));
  await session.says("data 0+9");
  session.downstream(dataFrame(0, "answer"));
  await socket.gets("answer");
});

Deno.test("stop tells who waits and resets what is open, at both ends", async () => {
  const rig = new RequesterRig();
  const waiting = new SessionRig(rig);
  const open = new SessionRig(rig);
  open.establish();
  rig.requester.stop();
  assert.equal(await waiting.client.failure(), "stopping");
  assert.deepEqual(waiting.cancels.filter((one) => one.startsWith("_pool")), [
    "_pool stopping any",
  ]);
  await open.client.socket.sees("reset");
  assert.equal(open.said.at(-1), "close 0 stopping");
  assert.equal(rig.registry.size, 0);
});

Deno.test("An idle session ends after IDLE_TIMEOUT; 0 leaves it alone", async () => {
  using rig = new RequesterRig({ idleTimeoutMs: 40 });
  const session = new SessionRig(rig);
  session.establish();
  await session.client.socket.sees("reset");
  assert.equal(rig.end, "idle_timeout");
  assert.equal(session.said.at(-1), "close 0 idle_timeout");
});

Deno.test("A session that nobody has is answered as any unknown flow: gone, or a cancel of that epoch", () => {
  using rig = new RequesterRig();
  rig.transport.deliver("sessions.downstream", "nobody", encodeProbe(EPOCH, 9, 1, "worker-1"));
  rig.transport.deliver("sessions.downstream", "nobody", encodeEof(EPOCH, 9));
  rig.transport.deliver("responses", "nobody", established("nobody"));
  const [gone, cancel, ...more] = rig.transport.all;
  assert.deepEqual(gone?.frame, { type: 6, epoch: EPOCH, reason: "gone" });
  assert.equal(cancel?.subject, "to.proxy.cancel.worker-1.nobody");
  assert.equal(cancel.json.cancel.epoch, "a1a2a3a4a5a6a7a8");
  assert.equal(more.length, 0);
  rig.transport.deliver("responses", "nobody", established("nobody", { natsway: null }));
  const late = rig.transport.all.at(-1)!;
  assert.equal(late.subject, "to.proxy.cancel.worker-1.nobody");
  assert.equal("epoch" in late.json.cancel, false, "a nats-proxy that was too late has none");
});

Deno.test("A frame of the contract is none of natsway's, whatever its first octet", () => {
  using rig = new RequesterRig();
  const session = new SessionRig(rig);
  session.establish();
  const before = rig.transport.all.length;
  const probe = encodeProbe(EPOCH, 9, 1, "worker-1");
  const headers = new TextDecoder().decode(
    sessionHeaders(SessionFrame.DataDownstream, session.id),
  );
  for (const id of [session.id, "nobody"]) {
    rig.transport.deliver("sessions.downstream", id, probe, { headers });
  }
  assert.equal(rig.transport.all.length, before);
});

Deno.test("With a nats-proxy the session has the contract's form: credit first, then raw bytes", async () => {
  using rig = new RequesterRig();
  const session = new SessionRig(rig);
  session.establish({ natsway: null });
  assert.deepEqual(session.client.told.events, ["established 10.3.0.9:41822"]);
  const subject = `to.proxy.sessions.upstream.worker-1.${session.id}`;
  const [credit] = rig.transport.to(subject);
  assert.deepEqual(
    [credit?.json.type, credit?.json.direction, credit?.json.bytes],
    ["flow_credit", "downstream", 1_048_576],
  );
  assert.equal(rig.budget.flows, 0, "no lane is held for it");
  rig.transport.setConnected(false);
  await session.client.socket.sees("reset");
  assert.equal(rig.end, "nats_down");
});
