import assert from "node:assert/strict";
import { encodeCredit } from "../../lib/protocol/credit.ts";
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

function grant(rig: ReceiverRig, id: string, bytes: number): void {
  const credit = { requestId: id, direction: "response", bytes, serviceId: EDGE } as const;
  rig.transport.deliver("control", id, encodeCredit(credit, new Date()));
}

Deno.test("A long response is cut into frames that fit max_payload, numbered without a gap", async () => {
  const body = "abcdefgh".repeat(5_000);
  await using rig = await ReceiverRig.start(gives(answer(body)), { frameBytes: 1_000_000 });
  rig.transport.maxPayload = 3_000;
  rig.request(envelope("q", { natsway: natswayPeer({ max_msg: 3_000 }) }));
  await rig.answer("q");
  grant(rig, "q", 1_000_000);
  grant(rig, "q", 1_000_000);
  const frames = await rig.frames("q");
  let next = 0;
  for (const frame of frames) {
    assert.equal(frame.offset, next);
    next = frame.offset + frame.body.length + (frame.head === null ? 0 : 1);
  }
  for (const message of rig.answers("q")) assert.ok(message.payload.length <= 3_000);
  assert.equal(bodyOf(frames), body);
  assert.equal(frames.filter((frame) => frame.fin).length, 1);
});

Deno.test("A requester whose server takes less gets less", async () => {
  const body = "x".repeat(10_000);
  await using rig = await ReceiverRig.start(gives(answer(body)));
  rig.request(envelope("q", { natsway: natswayPeer({ max_msg: 2_000 }) }));
  await rig.answer("q");
  grant(rig, "q", 100_000);
  assert.equal(bodyOf(await rig.frames("q")), body);
  for (const message of rig.answers("q")) assert.ok(message.payload.length <= 2_000);
});

Deno.test("FRAME_BYTES bounds the body of one frame", async () => {
  const body = "x".repeat(10_000);
  await using rig = await ReceiverRig.start(gives(answer(body)), { frameBytes: 1_000 });
  rig.request(envelope("q"));
  await rig.answer("q");
  grant(rig, "q", 100_000);
  const frames = await rig.frames("q");
  assert.ok(frames.every((frame) => frame.body.length <= 1_000));
  assert.equal(bodyOf(frames), body);
});

Deno.test("Before credit no more goes than the first window, and then no more than was granted", async () => {
  const body = "abcdefghij".repeat(1_000);
  await using rig = await ReceiverRig.start(gives(answer(body)));
  rig.request(envelope("q", { natsway: natswayPeer({ window: 100 }) }));
  const sent = () =>
    rig.answers("q").reduce(
      (sum, one) => sum + (one.frame?.type === 1 ? one.frame.body.length : 0),
      0,
    );
  await rig.answer("q");
  assert.equal(sent(), 100);
  for (const [bytes, total] of [[50, 150], [1, 151], [1_000, 1_151]] as const) {
    const before = rig.answers("q").length;
    grant(rig, "q", bytes);
    await rig.answer("q", before + 1);
    assert.equal(sent(), total);
  }
  grant(rig, "q", 100_000);
  assert.equal(bodyOf(await rig.frames("q")), body);
});

Deno.test("Credit of another flow or direction counts for nothing", async () => {
  await using rig = await ReceiverRig.start(gives(answer("x".repeat(50))));
  rig.request(envelope("q", { natsway: natswayPeer({ window: 10 }) }));
  await rig.answer("q");
  const credit = { requestId: "q", direction: "upstream", bytes: 1_000, serviceId: EDGE } as const;
  rig.transport.deliver("control", "q", encodeCredit(credit, new Date()));
  rig.transport.deliver(
    "control",
    "other",
    encodeCredit({ ...credit, direction: "response" }, new Date()),
  );
  rig.transport.deliver("control", "q", "{}");
  assert.equal(rig.answers("q").length, 1);
  grant(rig, "q", 1_000);
  await rig.frames("q");
});

Deno.test("The end that comes after the last octet is a frame without body", async () => {
  await using rig = await ReceiverRig.start(
    gives("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"),
  );
  rig.request(envelope("q"));
  await rig.answer("q");
  grant(rig, "q", 1_000);
  await rig.upstream.connections[0]!.write("0\r\n\r\n");
  const frames = await rig.frames("q");
  assert.deepEqual(frames.map((one) => [one.offset, latin1(one.body), one.fin]), [
    [0, "abc", false],
    [4, "", true],
  ]);
  assert.equal(frames[0]?.head?.declaredLength, -1);
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

Deno.test("A failure ends the flow even where its text is cut", async () => {
  await using rig = await ReceiverRig.start(gives(answer("hello")));
  rig.request(
    envelope("q", { payload: { method: "G T", path: "/" }, natsway: natswayPeer({ window: 3 }) }),
  );
  const [head, close, ...more] = rig.answers("q").map((one) => one.frame!);
  assert.ok(head?.type === 1 && !head.fin && head.body.length === 3);
  assert.deepEqual(close, { type: 3, epoch: head.epoch, offset: 4, reason: "bad_request" });
  assert.equal(more.length, 0);
  assert.equal(rig.registry.size, 0);
});

Deno.test("An upstream that breaks off ends the flow with a close frame, never with the end", async () => {
  await using rig = await ReceiverRig.start(async (connection) => {
    await connection.readUntil("\r\n\r\n");
    await connection.write("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc");
  });
  rig.request(envelope("q"));
  const [head, close, ...more] = (await rig.whole("q")).map((one) => one.frame!);
  assert.ok(head?.type === 1 && !head.fin);
  assert.deepEqual(close, { type: 3, epoch: head.epoch, offset: 4, reason: "target_broken" });
  assert.equal(more.length, 0);
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

Deno.test("A slow link holds the upstream back: nothing is published beyond what is drained", async () => {
  const body = "x".repeat(100_000);
  await using rig = await ReceiverRig.start(gives(answer(body)), { frameBytes: 1_000 });
  rig.request(envelope("q", { natsway: natswayPeer({ window: 10 }) }));
  await rig.answer("q");
  const gate = Promise.withResolvers<void>();
  rig.transport.pendingBytes = 10_000_000;
  rig.transport.drain = () => gate.promise;
  grant(rig, "q", 1_000_000);
  await rig.answer("q", 2);
  await Promise.resolve();
  assert.equal(rig.answers("q").length, 2);
  rig.transport.pendingBytes = 0;
  gate.resolve();
  assert.equal(bodyOf(await rig.frames("q")), body);
});
