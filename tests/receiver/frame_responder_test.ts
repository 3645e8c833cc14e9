import assert from "node:assert/strict";
import { MemoryBudget } from "../../lib/flow/memory_budget.ts";
import { encodeCredit } from "../../lib/protocol/credit.ts";
import { encodeWindow } from "../../lib/protocol/frames.ts";
import { brief } from "../flow/lane_rig.ts";
import { latin1, octets } from "../helpers/bytes.ts";
import {
  bodyOf,
  EDGE,
  envelope,
  infoOf,
  natswayPeer,
  ReceiverRig,
} from "../helpers/unit_receiver.ts";
import { answer, type Script } from "../helpers/upstream.ts";

/** An upstream that gives these octets to each request, then holds the connection. */
function gives(...pieces: readonly (string | Uint8Array)[]): Script {
  return async (connection) => {
    await connection.readUntil("\r\n\r\n");
    for (const piece of pieces) await connection.write(piece);
    await connection.waitEnd(60_000);
  };
}

Deno.test("A long response is cut into frames that fit max_payload, numbered without a gap", async () => {
  const body = "abcdefgh".repeat(5_000);
  await using rig = await ReceiverRig.start(gives(answer(body)), { frameBytes: 1_000_000 });
  rig.transport.maxPayload = 3_000;
  rig.request(envelope("q", { natsway: natswayPeer({ max_msg: 3_000 }) }));
  const frames = await rig.takes("q");
  let next = 0;
  for (const frame of frames) {
    assert.equal(frame.offset, next);
    next = frame.offset + frame.body.length + (frame.head === null ? 0 : 1);
  }
  for (const message of rig.answers("q")) assert.ok(message.payload.length <= 3_000);
  assert.equal(bodyOf(frames), body);
  assert.equal(frames.filter((frame) => frame.fin).length, 1);
  await rig.idle();
  assert.deepEqual(rig.ends, { ok: 1 });
  assert.deepEqual([rig.budget.usedBytes, rig.budget.flows], [0, 0]);
});

Deno.test("A requester whose server takes less gets less", async () => {
  const body = "x".repeat(10_000);
  await using rig = await ReceiverRig.start(gives(answer(body)));
  rig.request(envelope("q", { natsway: natswayPeer({ max_msg: 2_000 }) }));
  assert.equal(bodyOf(await rig.takes("q")), body);
  for (const message of rig.answers("q")) assert.ok(message.payload.length <= 2_000);
});

Deno.test("FRAME_BYTES bounds the body of one frame", async () => {
  const body = "x".repeat(10_000);
  await using rig = await ReceiverRig.start(gives(answer(body)), { frameBytes: 1_000 });
  rig.request(envelope("q"));
  const frames = await rig.takes("q");
  assert.ok(frames.every((frame) => frame.body.length <= 1_000));
  assert.equal(bodyOf(frames), body);
});

Deno.test("No more goes than the envelope's window, and then no more than the limit of the last one", async () => {
  const body = "abcdefghij".repeat(1_000);
  await using rig = await ReceiverRig.start(gives(answer(body)));
  rig.request(envelope("q", { natsway: natswayPeer({ window: 100 }) }));
  const sent = () =>
    rig.answers("q").reduce(
      (sum, one) => sum + (one.frame?.type === 1 ? one.frame.body.length : 0),
      0,
    );
  await rig.answer("q");
  assert.equal(sent(), 99, "the head takes one number");
  for (const limit of [150, 151, 1_151]) {
    const before = rig.answers("q").length;
    rig.window("q", 1 + sent(), limit);
    await rig.answer("q", before + 1);
    assert.equal(sent(), limit - 1);
    rig.window("q", 1, limit - 40);
    assert.equal(rig.answers("q").length, before + 1, "a smaller limit takes nothing back");
  }
  rig.window("q", 1_151, 100_000);
  assert.equal(bodyOf(await rig.frames("q")), body);
});

Deno.test("Incremental credit, and windows of another flow or epoch, count for nothing", async () => {
  await using rig = await ReceiverRig.start(gives(answer("x".repeat(50))));
  rig.request(envelope("q", { natsway: natswayPeer({ window: 10 }) }));
  await rig.answer("q");
  const credit = { requestId: "q", direction: "response", bytes: 1_000, serviceId: EDGE } as const;
  rig.transport.deliver("control", "q", encodeCredit(credit, new Date()));
  rig.transport.deliver("control", "q", "{}");
  rig.window("q", 10, 1_000, { epoch: octets("12345678") });
  const { epoch } = rig.answers("q")[0]!.frame!;
  rig.transport.deliver("control", "other", encodeWindow(epoch, 10, 1_000, 0));
  assert.equal(rig.answers("q").length, 1);
  rig.window("q", 10, 1_000);
  await rig.frames("q");
});

Deno.test("The end that comes after the last octet is an eof of its own", async () => {
  await using rig = await ReceiverRig.start(
    gives("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"),
  );
  rig.request(envelope("q"));
  const { frame } = await rig.answer("q");
  rig.window("q", 4, 1_000);
  await rig.upstream.connections[0]!.write("0\r\n\r\n");
  assert.deepEqual((await rig.whole("q")).map((one) => brief(one.frame!)), ["head 0+3", "eof 4"]);
  assert.equal(frame?.type === 1 && frame.head?.declaredLength, -1);
  rig.window("q", 5, 1_000);
  await rig.idle();
  assert.deepEqual(rig.ends, { ok: 1 });
});

Deno.test("The head leaves at once, whatever it may hold: a body that comes later is no part of it", async () => {
  await using rig = await ReceiverRig.start(
    gives("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 4\r\n\r\n"),
  );
  rig.request(envelope("q", { natsway: natswayPeer({ window: 0 }) }));
  assert.equal(brief((await rig.answer("q")).frame!), "head 0+0");
  rig.window("q", 1, 100);
  await rig.upstream.connections[0]!.write("ab");
  assert.equal(brief((await rig.answer("q", 2)).frame!), "data 1+2");
  await rig.upstream.connections[0]!.write("cd");
  assert.equal(brief((await rig.answer("q", 3)).frame!), "data 3+2 fin");
});

Deno.test("A head that nobody answers is repeated with what it held, and answered once is never again", async () => {
  await using rig = await ReceiverRig.start(
    gives("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nabc"),
    { peerTimeoutMs: 600 },
  );
  rig.request(envelope("q"));
  const first = await rig.answer("q");
  const again = await rig.answer("q", 2);
  assert.deepEqual(again.payload, first.payload);
  rig.window("q", 4, 1_000);
  await rig.upstream.connections[0]!.write("def");
  await rig.frames("q");
  assert.equal(brief(rig.answers("q").at(-1)!.frame!), "data 4+3 fin");
});

Deno.test("What was lost on its way is sent again, as it was, once the requester asks", async () => {
  await using rig = await ReceiverRig.start(gives(answer("abcdef")), { frameBytes: 2 });
  rig.request(envelope("q", { natsway: natswayPeer({ window: 100 }) }));
  await rig.frames("q");
  const sent = () => rig.answers("q").map((one) => brief(one.frame!));
  assert.deepEqual(sent(), ["head 0+2", "data 3+2", "data 5+2 fin"]);
  rig.window("q", 3, 100, { resend: true });
  assert.deepEqual(sent().slice(3), ["data 3+2", "data 5+2 fin", "probe 8 #1"]);
  rig.window("q", 8, 100, { serial: 1 });
  await rig.idle();
  assert.deepEqual(rig.ends, { ok: 1 });
});

Deno.test("A reason of the upstream's own crosses, the usual one is left out", async () => {
  await using rig = await ReceiverRig.start(
    gives("HTTP/1.1 200 Tr\xe8s bien\r\nContent-Length: 0\r\n\r\n"),
  );
  rig.request(envelope("q"));
  const [frame] = await rig.frames("q");
  assert.equal(latin1(frame!.head!.reason), "Tr\xe8s bien");
  await using usual = await ReceiverRig.start(
    gives("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"),
  );
  usual.request(envelope("q"));
  const [plain] = await usual.frames("q");
  assert.equal(plain?.head?.reason.length, 0);
});

Deno.test("Hop-by-hop and nominated fields end at the receiver; the rest crosses as it came", async () => {
  await using rig = await ReceiverRig.start(gives(
    "HTTP/1.1 200 OK\r\nX-a:1\r\nConnection: x-hop, keep-alive\r\nX-Hop: 1\r\nKeep-Alive: timeout=5\r\n" +
      "Upgrade: h2c\r\nSet-Cookie: a\r\nset-cookie: \xe9\r\nContent-Length: 0\r\n\r\n",
  ));
  rig.request(envelope("q"));
  const [frame] = await rig.frames("q");
  assert.equal(
    latin1(frame!.head!.fields),
    "X-a:1\r\nSet-Cookie: a\r\nset-cookie: \xe9\r\nContent-Length: 0\r\n",
  );
});

Deno.test("A head that does not fit a message is head_too_large, in the answer and in the log", async () => {
  await using rig = await ReceiverRig.start(
    gives(answer("x", { fields: [`X: ${"y".repeat(2_000)}`] })),
  );
  rig.request(envelope("q", { natsway: natswayPeer({ max_msg: 1_500 }) }));
  const [frame] = await rig.frames("q");
  assert.equal(frame?.head?.status, 502);
  assert.equal(infoOf(frame).code, "head_too_large");
  await rig.idle();
  assert.deepEqual(rig.ends, { head_too_large: 1 });
});

Deno.test("A requester that takes hardly anything gets nothing, and nothing breaks", async () => {
  await using rig = await ReceiverRig.start(gives(answer("hello")));
  for (const max of [1, 17, 18, 100]) {
    rig.request(envelope(`q${max}`, { natsway: natswayPeer({ max_msg: max }) }));
    await rig.idle();
    assert.equal(rig.answers(`q${max}`).length, 0);
  }
  assert.deepEqual(rig.ends, { head_too_large: 4 });
});

Deno.test("A failure is one message, whatever the window: it is as short as a head", async () => {
  await using rig = await ReceiverRig.start(gives(answer("hello")));
  rig.request(
    envelope("q", { payload: { method: "G T", path: "/" }, natsway: natswayPeer({ window: 0 }) }),
  );
  const [head, ...more] = rig.answers("q").map((one) => one.frame!);
  assert.ok(head?.type === 1 && head.fin);
  assert.equal(JSON.parse(latin1(head.body)).code, "bad_request");
  assert.equal(more.length, 0);
  assert.equal(rig.registry.size, 0);
});

Deno.test("Without memory for a lane the answer is overloaded, and the upstream is let go", async () => {
  await using rig = await ReceiverRig.start(
    gives("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nabc"),
    { budget: new MemoryBudget({ totalBytes: 2 ** 20, maxFlows: 0 }) },
  );
  rig.request(envelope("q"));
  const [frame] = await rig.frames("q");
  assert.equal(frame?.head?.status, 503);
  assert.match(latin1(frame.head.fields), /Retry-After: 1\r\n/);
  assert.equal(infoOf(frame).code, "overloaded");
  await rig.upstream.connections[0]!.waitEnd();
  await rig.idle();
  assert.deepEqual(rig.ends, { overloaded: 1 });
});

Deno.test("An upstream that breaks off ends the flow with a close frame, never with the end", async () => {
  await using rig = await ReceiverRig.start(async (connection) => {
    await connection.readUntil("\r\n\r\n");
    await connection.write("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc");
  });
  rig.request(envelope("q"));
  const sent = (await rig.whole("q")).map((one) => brief(one.frame!));
  assert.deepEqual(sent, ["head 0+3", "close 4 target_broken"]);
  rig.window("q", 5, 1_000);
  await rig.idle();
  assert.deepEqual(rig.ends, { target_broken: 1 });
  assert.equal(rig.answers("q").length, 2);
});

Deno.test("Failures before the head are answers with their code and status", async () => {
  const rows: [Script, number, string][] = [
    [async (connection) => void await connection.readUntil("\r\n\r\n"), 502, "target_broken"],
    [gives("garbage\r\n\r\n"), 502, "target_broken"],
    [gives("HTTP/1.1 101 Switching Protocols\r\n\r\n"), 502, "target_broken"],
    [gives(`HTTP/1.1 200 OK\r\nX: ${"y".repeat(70_000)}\r\n\r\n`), 502, "head_too_large"],
    [gives("HTTP/1.1 103 Early Hints\r\n\r\n".repeat(20)), 502, "target_broken"],
  ];
  for (const [script, status, code] of rows) {
    await using rig = await ReceiverRig.start(script);
    rig.request(envelope("q"));
    const [frame] = await rig.frames("q");
    assert.equal(frame?.head?.status, status, code);
    assert.equal(infoOf(frame).code, code);
  }
});

Deno.test("No head in UPSTREAM_TIMEOUT is target_timeout, and the call is given up", async () => {
  await using rig = await ReceiverRig.start(gives(), { upstreamTimeoutMs: 50 });
  rig.request(envelope("q"));
  const [frame] = await rig.frames("q");
  assert.equal(frame?.head?.status, 504);
  assert.equal(infoOf(frame).code, "target_timeout");
  await rig.upstream.connections[0]!.waitEnd();
});

Deno.test("Interim responses do not cross yet; the final one does", async () => {
  await using rig = await ReceiverRig.start(
    gives("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n", answer("ok")),
  );
  rig.request(envelope("q"));
  const frames = await rig.frames("q");
  assert.equal(frames.length, 1);
  assert.equal(frames[0]?.head?.status, 200);
});

Deno.test("Octets behind the upstream's answer are no part of it, and the connection is not used again", async () => {
  await using rig = await ReceiverRig.start(
    gives(octets("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\n\r\n")),
  );
  rig.request(envelope("q1"));
  assert.equal(bodyOf(await rig.frames("q1")), "ok");
  await rig.idle();
  rig.request(envelope("q2"));
  await rig.frames("q2");
  assert.equal(rig.upstream.connections.length, 2);
});

Deno.test("A slow link holds the upstream back: nothing is published until it is drained", async () => {
  const body = "x".repeat(100_000);
  await using rig = await ReceiverRig.start(gives(answer(body)), { frameBytes: 1_000 });
  rig.request(envelope("q", { natsway: natswayPeer({ window: 10 }) }));
  await rig.answer("q");
  const gate = Promise.withResolvers<void>();
  rig.transport.congested = true;
  rig.transport.drain = () => gate.promise;
  rig.window("q", 10, 1_000_000);
  await Promise.resolve();
  assert.equal(rig.answers("q").length, 1);
  rig.transport.congested = false;
  gate.resolve();
  assert.equal(bodyOf(await rig.takes("q")), body);
});
