import assert from "node:assert/strict";
import { encodeClose, encodeEof, encodeGone, encodeProbe } from "../../lib/protocol/frames.ts";
import { brief } from "../flow/lane_rig.ts";
import { octets } from "../helpers/bytes.ts";
import {
  dataFrame,
  EPOCH,
  FOREIGN,
  headFrame,
  RequesterRig,
  type Sent,
} from "../helpers/unit_requester.ts";
import { within } from "../helpers/wait.ts";

const HEAD = "HTTP/1.1 200 OK\r\nDate: D\r\n";
const CHUNKED = `${HEAD}Transfer-Encoding: chunked\r\n\r\n`;
const CONTROL = "to.proxy.control.worker-1.";
const CANCEL = "to.proxy.cancel.worker-1.";
/** The first window, in octets. */
const WINDOW = 262_144;

/** A flow that is bound to `worker-1`, with `abc` of its body taken. */
function bound(rig: RequesterRig): Sent {
  const sent = rig.send();
  rig.answer(sent, headFrame({ fin: false, body: "abc" }));
  return sent;
}

/** What the requester said to `worker-1` in the lane, in short. */
function said(rig: RequesterRig): string[] {
  return rig.transport.to(CONTROL).map((one) => brief(one.frame!));
}

/** The largest limit that the requester has named. */
function limitOf(rig: RequesterRig): number {
  const limits = rig.transport.to(CONTROL).map(({ frame }) => frame?.type === 5 ? frame.limit : 0);
  return Math.max(...limits);
}

Deno.test("A longer response is answered with a window at once, and its pieces are written in order", async () => {
  using rig = new RequesterRig();
  const sent = bound(rig);
  assert.deepEqual(said(rig), [`window 0 of ${WINDOW}`]);
  assert.equal(rig.transport.to(CONTROL)[0]?.subject, CONTROL + sent.id);
  rig.answer(sent, dataFrame(4, "de"));
  rig.answer(sent, dataFrame(6, "f", { fin: true }));
  assert.equal(await sent.client.text(), `${CHUNKED}3\r\nabc\r\n2\r\nde\r\n1\r\nf\r\n0\r\n\r\n`);
  assert.equal(rig.end, "ok");
  assert.equal(said(rig).at(-1), `window 8 of ${WINDOW}`, "the end is acknowledged");
  assert.equal(rig.transport.to("to.proxy.cancel.").length, 0);
});

Deno.test("An end with trailers is an end: the trailers are left out", async () => {
  using rig = new RequesterRig();
  const sent = bound(rig);
  rig.answer(sent, encodeEof(EPOCH, 4, octets("X-Sum: 1\r\n")));
  assert.equal(await sent.client.text(), `${CHUNKED}3\r\nabc\r\n0\r\n\r\n`);
  assert.equal(rig.end, "ok");
});

Deno.test("The window follows what the client's socket takes: one that reads nothing gets no more", async () => {
  using rig = new RequesterRig();
  const sent = rig.send();
  sent.client.hold();
  rig.answer(sent, headFrame({ fin: false }));
  const piece = "x".repeat(32_768);
  for (let i = 0; i < 7; i++) rig.answer(sent, dataFrame(1 + i * 32_768, piece));
  await Promise.resolve();
  assert.equal(limitOf(rig), WINDOW);
  sent.client.release();
  await sent.client.text();
  assert.ok(limitOf(rig) > WINDOW, "more is granted as soon as it has been taken");
  assert.ok(limitOf(rig) <= 1 + 7 * 32_768 + 4 * 2 ** 20);
});

Deno.test("What goes beyond the window is left alone, and the flow goes on where it was", async () => {
  using rig = new RequesterRig();
  const sent = rig.send();
  sent.client.hold();
  rig.answer(sent, headFrame({ fin: false, body: "abc" }));
  const piece = "x".repeat(500_000);
  for (let i = 0; i < 40; i++) rig.answer(sent, dataFrame(4 + i * piece.length, piece));
  assert.ok(
    sent.client.response.pendingBytes < WINDOW + 1_000,
    "memory is not the peer's to spend",
  );
  assert.equal(rig.end, "");
  sent.client.release();
  await sent.client.text();
  rig.answer(sent, dataFrame(WINDOW, "the rest", { fin: true }));
  assert.ok((await sent.client.text()).endsWith("\r\n8\r\nthe rest\r\n0\r\n\r\n"));
  assert.equal(rig.end, "ok");
});

Deno.test("A repeated frame is dropped and a straddling one cut to what is new", async () => {
  using rig = new RequesterRig();
  const sent = bound(rig);
  rig.answer(sent, headFrame({ fin: false, body: "abc" }));
  rig.answer(sent, dataFrame(1, "abc"));
  rig.answer(sent, dataFrame(2, "bc"));
  rig.answer(sent, dataFrame(2, "bcde"));
  rig.answer(sent, dataFrame(1, "abcdef"));
  rig.answer(sent, dataFrame(4, "def", { fin: true }));
  assert.equal(await sent.client.text(), `${CHUNKED}3\r\nabc\r\n2\r\nde\r\n1\r\nf\r\n0\r\n\r\n`);
  assert.equal(rig.end, "ok");
});

Deno.test("A repeat that ends with the message ends it, if only the end was lost", async () => {
  using rig = new RequesterRig();
  const sent = bound(rig);
  rig.answer(sent, dataFrame(1, "abc", { fin: true }));
  assert.ok((await sent.client.text()).endsWith("3\r\nabc\r\n0\r\n\r\n"));
  assert.equal(rig.end, "ok");
});

Deno.test("Every repeat of the head is answered with a window: the first answer may be lost", () => {
  using rig = new RequesterRig();
  const sent = bound(rig);
  for (let i = 0; i < 3; i++) rig.answer(sent, headFrame({ fin: false, body: "abc" }));
  assert.deepEqual(said(rig).slice(1), Array(3).fill(`window 4 of ${WINDOW}`));
});

Deno.test("A gap is asked for once, and the message goes on when it is filled", async () => {
  using rig = new RequesterRig();
  const sent = bound(rig);
  rig.answer(sent, dataFrame(5, "e"));
  rig.answer(sent, dataFrame(6, "f", { fin: true }));
  assert.deepEqual(said(rig).slice(1), [`window 4 of ${WINDOW} resend`]);
  rig.answer(sent, dataFrame(4, "def", { fin: true }));
  assert.ok((await sent.client.text()).endsWith("3\r\nabc\r\n3\r\ndef\r\n0\r\n\r\n"));
  assert.equal(rig.end, "ok");
});

Deno.test("A probe that shows a loss is answered with resend", () => {
  using rig = new RequesterRig();
  const sent = bound(rig);
  rig.answer(sent, encodeProbe(EPOCH, 9, 3, "worker-1"));
  assert.equal(said(rig).at(-1), `window 4 of ${WINDOW} #3 resend`);
  assert.equal(sent.client.end, null);
});

Deno.test("A probe is answered with the window; before the first event, with nothing", () => {
  using rig = new RequesterRig();
  const sent = rig.send();
  rig.answer(sent, encodeProbe(EPOCH, 4, 1, "worker-1"));
  assert.equal(rig.transport.to(CONTROL).length, 0);
  rig.answer(sent, headFrame({ fin: false, body: "abc" }));
  rig.answer(sent, encodeProbe(EPOCH, 4, 7, "worker-1"));
  assert.equal(said(rig).at(-1), `window 4 of ${WINDOW} #7`);
});

Deno.test("A probe for an unknown flow is answered gone, a first event with a cancel, the rest with nothing", () => {
  using rig = new RequesterRig();
  rig.transport.deliver("responses", "nobody", encodeProbe(EPOCH, 9, 1, "worker-1"));
  const [gone, ...none] = rig.transport.all;
  assert.equal(gone?.subject, "to.proxy.control.worker-1.nobody");
  assert.deepEqual(gone.frame, { type: 6, epoch: EPOCH, reason: "gone" });
  assert.equal(none.length, 0);
  rig.transport.deliver("responses", "nobody", headFrame({}));
  rig.transport.deliver("responses", "nobody", headFrame({ status: 103, fin: false }));
  rig.transport.deliver("responses", "nobody", dataFrame(4, "abc"));
  rig.transport.deliver("responses", "nobody", '{"type":"response_end"}');
  rig.transport.deliver("responses", "nobody", encodeProbe(EPOCH, 9, 1, "a.>"));
  rig.transport.deliver("responses", "nobody", octets("\x04\x00"));
  rig.transport.deliver("responses", "nobody", headFrame({ fin: false, serviceId: "a.>" }));
  assert.equal(rig.transport.all.length, 1);
  rig.transport.deliver("responses", "nobody", headFrame({ fin: false }));
  const cancel = rig.transport.all.at(-1)!;
  assert.equal(cancel.subject, "to.proxy.cancel.worker-1.nobody");
  assert.equal(cancel.json.cancel.epoch, "a1a2a3a4a5a6a7a8");
});

Deno.test("What a flow that ended well is asked again is answered as before: a lost last window is no failure", async () => {
  using rig = new RequesterRig();
  const sent = bound(rig);
  rig.answer(sent, dataFrame(4, "", { fin: true }));
  await sent.client.text();
  await Promise.resolve();
  rig.answer(sent, encodeProbe(EPOCH, 5, 2, "worker-1"));
  assert.equal(said(rig).at(-1), "window 5 of 5 #2");
  rig.answer(sent, headFrame({ fin: false, body: "abc" }));
  assert.equal(said(rig).at(-1), "window 5 of 5");
  assert.equal(rig.transport.to("to.proxy.cancel.").length, 0);
});

Deno.test("Broken frames are dropped where a lane goes on without them", async () => {
  using rig = new RequesterRig();
  const sent = bound(rig);
  for (const bad of ["\x01", "\x01\x80" + "\0".repeat(30), "\x05" + "\0".repeat(40)]) {
    rig.answer(sent, octets(bad));
  }
  rig.answer(sent, dataFrame(4, "fine", { fin: true }));
  assert.ok((await sent.client.text()).endsWith("\r\nfine\r\n0\r\n\r\n"));
  assert.equal(rig.end, "ok");
});

Deno.test("A body over its declared length breaks the message off and cancels that execution", async () => {
  using rig = new RequesterRig();
  const sent = rig.send();
  const fields = "Date: D\r\nContent-Length: 4\r\n";
  rig.answer(sent, headFrame({ fin: false, declaredLength: 4, fields, body: "abcde" }));
  assert.equal(await sent.client.ended, "broken");
  assert.equal(await sent.client.text(), `${HEAD}Content-Length: 4\r\n\r\n`);
  const [cancel, ...more] = rig.transport.to(CANCEL);
  assert.equal(cancel?.subject, CANCEL + sent.id);
  assert.equal(cancel.json.cancel.epoch, "a1a2a3a4a5a6a7a8");
  assert.equal(cancel.json.cancel.reason, "target_broken");
  assert.equal(more.length, 0);
  assert.equal(rig.end, "target_broken");
  rig.answer(sent, dataFrame(6, "f"));
  assert.equal(rig.transport.to(CANCEL).length, 1, "what comes late is nobody's");
});

Deno.test("A body that ends before its declared length is broken off, not ended", async () => {
  using rig = new RequesterRig();
  const sent = rig.send();
  const fields = "Date: D\r\nContent-Length: 9\r\n";
  rig.answer(sent, headFrame({ fin: false, declaredLength: 9, fields, body: "abc" }));
  rig.answer(sent, dataFrame(4, "d", { fin: true }));
  assert.equal(await sent.client.ended, "broken");
  await within(rig.registry.idle(), 5_000, "the flow's end");
  assert.equal(rig.end, "target_broken");
});

Deno.test("Two executions are never spliced: foreign frames are dropped, their owner is told", async () => {
  using rig = new RequesterRig();
  const sent = bound(rig);
  const toOthers = () => rig.transport.all.filter((one) => one.subject.includes(".worker-2."));
  rig.answer(sent, dataFrame(4, "ZZZ", { epoch: FOREIGN }));
  rig.answer(sent, encodeClose(FOREIGN, 4, "gap"));
  rig.answer(sent, encodeGone(FOREIGN, "gap"));
  assert.equal(toOthers().length, 0, "its owner is not known yet");
  const other = { epoch: FOREIGN, serviceId: "worker-2" };
  rig.answer(sent, headFrame({ ...other, fin: false, body: "ZZZ" }));
  rig.answer(sent, encodeProbe(FOREIGN, 4, 1, "worker-2"));
  const [cancel, gone, ...more] = toOthers();
  assert.equal(cancel?.subject, `to.proxy.cancel.worker-2.${sent.id}`);
  assert.equal(cancel.json.cancel.epoch, "b1b2b3b4b5b6b7b8");
  assert.equal(gone?.subject, `to.proxy.control.worker-2.${sent.id}`);
  assert.deepEqual(gone.frame, { type: 6, epoch: FOREIGN, reason: "gone" });
  assert.equal(more.length, 0);
  rig.answer(sent, { type: "response_start", status: 500 });
  rig.answer(sent, { type: "response_chunk", body: "ZZZ" });
  rig.answer(sent, { type: "response_end" });
  rig.answer(sent, dataFrame(4, "", { fin: true }));
  assert.ok((await sent.client.text()).endsWith("3\r\nabc\r\n0\r\n\r\n"));
  assert.equal(rig.end, "ok");
});

Deno.test("A foreign execution that is whole in its first frame needs no cancel", () => {
  using rig = new RequesterRig();
  const sent = bound(rig);
  rig.answer(sent, headFrame({ epoch: FOREIGN, serviceId: "worker-2", body: "ZZZ" }));
  assert.equal(rig.transport.to("to.proxy.cancel.").length, 0);
});

Deno.test("The owner's close and its gone break the message off with their code", async () => {
  const rows: [Uint8Array, string][] = [
    [encodeClose(EPOCH, 4, "target_broken"), "target_broken"],
    [encodeClose(EPOCH, 4, "no-such-code"), "canceled"],
    [encodeGone(EPOCH, "gap"), "gap"],
    [encodeGone(EPOCH, "gone"), "peer_lost"],
  ];
  for (const [frame, code] of rows) {
    using rig = new RequesterRig();
    const sent = bound(rig);
    rig.answer(sent, frame);
    assert.equal(await sent.client.ended, "broken");
    assert.ok((await sent.client.text()).endsWith("3\r\nabc\r\n"));
    assert.equal(rig.end, code);
    assert.equal(rig.transport.to("to.proxy.cancel.").length, 0, "it knows");
  }
});

Deno.test("A close waits for its place: what was lost before it is asked for first", async () => {
  using rig = new RequesterRig();
  const sent = bound(rig);
  rig.answer(sent, encodeClose(EPOCH, 6, "target_broken"));
  assert.equal(sent.client.end, null);
  assert.equal(said(rig).at(-1), `window 4 of ${WINDOW} resend`);
  rig.answer(sent, dataFrame(4, "de"));
  rig.answer(sent, encodeClose(EPOCH, 6, "target_broken"));
  assert.equal(await sent.client.ended, "broken");
  assert.ok((await sent.client.text()).endsWith("3\r\nabc\r\n2\r\nde\r\n"));
});

Deno.test("Event streams get the failure in-band, on a line of its own, and are broken off behind it", async () => {
  const text = JSON.stringify({ error: "The response was broken off: target_broken" });
  const rows: [string, string, string][] = [
    ["text/event-stream", "data: 1\n\n", `event: error\ndata: ${text}\n\n`],
    ["text/event-stream; charset=utf-8", "data: 1", `\nevent: error\ndata: ${text}\n\n`],
    ["application/x-ndjson", "{}\n", `${text}\n`],
    ["application/x-ndjson", "{", `\n${text}\n`],
    ["text/plain", "abc", ""],
    ["text/event-stream\r\nContent-Encoding: gzip", "abc", ""],
  ];
  for (const [type, body, expected] of rows) {
    using rig = new RequesterRig();
    const sent = rig.send();
    rig.answer(sent, headFrame({ fin: false, fields: `Content-Type: ${type}\r\n`, body }));
    rig.answer(sent, encodeClose(EPOCH, 1 + body.length, "target_broken"));
    assert.equal(await sent.client.ended, "broken");
    const size = expected.length.toString(16);
    const chunk = expected === "" ? "" : `${size}\r\n${expected}\r\n`;
    const whole = await sent.client.text();
    assert.ok(whole.endsWith(`\r\n${body}\r\n${chunk}`), whole);
    assert.equal(rig.end, "target_broken");
  }
});

Deno.test("A failure is never put into a body of declared length", async () => {
  using rig = new RequesterRig();
  const sent = rig.send();
  const fields = "Content-Type: text/event-stream\r\nContent-Length: 100\r\n";
  rig.answer(sent, headFrame({ fin: false, declaredLength: 100, fields, body: "data: 1\n\n" }));
  rig.answer(sent, encodeClose(EPOCH, 10, "target_broken"));
  assert.equal(await sent.client.ended, "broken");
  assert.ok((await sent.client.text()).endsWith("\r\n\r\ndata: 1\n\n"));
});

Deno.test("A client that leaves cancels its owner's execution; a repeat of it is cancelled too", async () => {
  using rig = new RequesterRig();
  const sent = bound(rig);
  sent.client.response.gone();
  assert.equal(await sent.client.ended, "broken");
  rig.answer(sent, headFrame({ fin: false, body: "abc" }));
  const cancels = rig.transport.to("to.proxy.cancel.");
  assert.deepEqual(cancels.map((one) => one.subject), [CANCEL + sent.id, CANCEL + sent.id]);
  rig.answer(sent, encodeProbe(EPOCH, 4, 1, "worker-1"));
  assert.equal(said(rig).at(-1), "gone downstream_disconnect");
});

Deno.test("A receiver whose service id can stand in no subject is given up at once", async () => {
  for (const serviceId of ["a b", "a.>", "*", "x\r\ny", "."]) {
    using rig = new RequesterRig();
    const sent = rig.send();
    rig.answer(sent, headFrame({ fin: false, body: "abc", serviceId }));
    assert.equal(rig.end, "target_broken", serviceId);
    assert.match(await sent.client.text(), /^HTTP\/1\.1 502 /);
    const subjects = rig.transport.all.slice(1).map((one) => one.subject);
    assert.deepEqual(subjects, [`to.proxy.cancel._pool.${sent.id}`], serviceId);
  }
});

Deno.test("A lost link ends no lane; what the peer sends again is taken when it is back", async () => {
  using rig = new RequesterRig();
  const open = bound(rig);
  const waiting = rig.send();
  rig.transport.setConnected(false);
  assert.equal(open.client.end, null);
  assert.equal(waiting.client.end, null);
  rig.transport.setConnected(true);
  rig.answer(open, dataFrame(1, "abcd", { fin: true }));
  assert.equal(await open.client.ended, "keep");
  rig.answer(waiting, headFrame({ body: "late" }));
  assert.equal(await waiting.client.ended, "keep");
  await within(rig.registry.idle(), 5_000, "both ends");
  assert.deepEqual([...rig.registry.ends()], [["ok", 2]]);
});

Deno.test("A link that stays lost for PEER_TIMEOUT ends the flow with nats_down", async () => {
  using rig = new RequesterRig({ peerTimeoutMs: 60 });
  const sent = bound(rig);
  const before = rig.transport.all.length;
  rig.transport.setConnected(false);
  assert.equal(await within(sent.client.ended, 5_000, "the end"), "broken");
  assert.equal(rig.end, "nats_down");
  assert.equal(rig.transport.all.length, before);
});

Deno.test("A natsway peer that answers no probe for PEER_TIMEOUT is lost, and told so", async () => {
  using rig = new RequesterRig({ peerTimeoutMs: 150, responseTimeoutMs: 20 });
  const sent = bound(rig);
  const probe = await rig.transport.find((one) => one.frame?.type === 4, "a probe");
  assert.equal(probe.subject, CONTROL + sent.id);
  assert.equal(probe.reply, sent.replyTo);
  assert.equal(brief(probe.frame!), "probe 0 #1", "this side sends nothing");
  assert.equal(await within(sent.client.ended, 5_000, "the end"), "broken");
  assert.equal(said(rig).at(-1), "gone peer_lost");
  assert.equal(rig.end, "peer_lost");
});
