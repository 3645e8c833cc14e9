import assert from "node:assert/strict";
import { encodeClose, encodeProbe } from "../../lib/protocol/frames.ts";
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
const CONTROL = "to.proxy.control.worker-1.";
const CANCEL = "to.proxy.cancel.worker-1.";
const POOL = "to.proxy.cancel._pool.";

/** A flow that is bound to `worker-1`, with `abc` of its body taken. */
function bound(rig: RequesterRig): Sent {
  const sent = rig.send();
  rig.answer(sent, headFrame({ fin: false, body: "abc" }));
  return sent;
}

Deno.test("A whole response in one frame is written and ends the flow, without credit or cancel", async () => {
  using rig = new RequesterRig();
  const sent = rig.send();
  rig.answer(sent, headFrame({ fields: "Date: D\r\nX: y\r\n", body: "hello" }));
  assert.equal(await sent.client.text(), `${HEAD}X: y\r\nContent-Length: 5\r\n\r\nhello`);
  assert.equal(sent.client.end, "keep");
  assert.equal(rig.transport.all.length, 1);
  assert.equal(rig.end, "ok");
  assert.equal(rig.registry.size, 0);
});

Deno.test("A longer response gets its credit with the head, and its pieces are written in order", async () => {
  using rig = new RequesterRig();
  const sent = bound(rig);
  const [credit, ...more] = rig.transport.to(CONTROL);
  assert.equal(more.length, 0);
  assert.equal(credit?.subject, CONTROL + sent.id);
  assert.deepEqual({ ...credit.json, timestamp: "" }, {
    type: "flow_credit",
    request_id: sent.id,
    direction: "response",
    bytes: 1_048_576,
    service_id: "edge-a",
    timestamp: "",
  });
  assert.equal(
    credit.headers,
    `NATS/1.0\r\nNats-Session-Id: ${sent.id}\r\nNats-Frame-Type: response_credit\r\n\r\n`,
  );
  rig.answer(sent, dataFrame(4, "de"));
  rig.answer(sent, dataFrame(6, "f", { fin: true }));
  assert.equal(
    await sent.client.text(),
    `${HEAD}Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n1\r\nf\r\n0\r\n\r\n`,
  );
  assert.equal(rig.end, "ok");
});

Deno.test("Credit follows what the client's socket takes: one that reads nothing gets no more", async () => {
  using rig = new RequesterRig();
  const sent = rig.send();
  sent.client.hold();
  rig.answer(sent, headFrame({ fin: false }));
  const piece = "x".repeat(32_768);
  for (let i = 0; i < 32; i++) rig.answer(sent, dataFrame(1 + i * 32_768, piece));
  await Promise.resolve();
  assert.equal(rig.transport.to(CONTROL).length, 1, "the first grant alone");
  sent.client.release();
  await sent.client.text();
  const granted = rig.transport.to(CONTROL).slice(1).map((one) => one.json.bytes);
  assert.equal(granted.reduce((sum, bytes) => sum + bytes, 0), 1_048_576);
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
  assert.equal(
    await sent.client.text(),
    `${HEAD}Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n1\r\nf\r\n0\r\n\r\n`,
  );
  assert.equal(rig.end, "ok");
});

Deno.test("A repeat that ends with the message ends it, if only the end was lost", async () => {
  using rig = new RequesterRig();
  const sent = bound(rig);
  rig.answer(sent, dataFrame(1, "abc", { fin: true }));
  assert.ok((await sent.client.text()).endsWith("3\r\nabc\r\n0\r\n\r\n"));
  assert.equal(rig.end, "ok");
});

Deno.test("A gap breaks the message off and cancels that execution", async () => {
  using rig = new RequesterRig();
  const sent = bound(rig);
  rig.answer(sent, dataFrame(5, "e"));
  assert.equal(await sent.client.ended, "broken");
  assert.ok((await sent.client.text()).endsWith("3\r\nabc\r\n"));
  const [cancel] = rig.transport.to(CANCEL);
  assert.equal(cancel?.subject, CANCEL + sent.id);
  assert.equal(cancel.json.cancel.epoch, "a1a2a3a4a5a6a7a8");
  assert.equal(cancel.json.cancel.reason, "gap");
  assert.equal(rig.end, "gap");
  rig.answer(sent, dataFrame(4, "d"));
  assert.equal(rig.transport.to(CANCEL).length, 1, "what comes late is nobody's");
});

Deno.test("A body over its declared length breaks the message off", async () => {
  using rig = new RequesterRig();
  const sent = rig.send();
  const fields = "Date: D\r\nContent-Length: 4\r\n";
  rig.answer(sent, headFrame({ fin: false, declaredLength: 4, fields, body: "abcde" }));
  assert.equal(await sent.client.ended, "broken");
  assert.equal(await sent.client.text(), `${HEAD}Content-Length: 4\r\n\r\n`);
  assert.equal(rig.transport.to(CANCEL).length, 1);
  assert.equal(rig.transport.to(CONTROL).length, 0, "no credit for what has ended");
  assert.equal(rig.end, "target_broken");
});

Deno.test("Two executions are never spliced: foreign frames are dropped, their owner is cancelled", async () => {
  using rig = new RequesterRig();
  const sent = bound(rig);
  rig.answer(sent, dataFrame(4, "XXX", { epoch: FOREIGN }));
  rig.answer(sent, encodeClose(FOREIGN, 4, "gap"));
  assert.equal(rig.transport.to("to.proxy.cancel.").length, 0, "its owner is not known yet");
  const other = { epoch: FOREIGN, serviceId: "worker-2" };
  rig.answer(sent, headFrame({ ...other, fin: false, body: "XXX" }));
  rig.answer(sent, encodeProbe(FOREIGN, 4, 1, "worker-2"));
  const cancels = rig.transport.to("to.proxy.cancel.");
  assert.deepEqual(cancels.map((one) => one.subject), [
    `to.proxy.cancel.worker-2.${sent.id}`,
    `to.proxy.cancel.worker-2.${sent.id}`,
  ]);
  assert.equal(cancels[0]?.json.cancel.epoch, "b1b2b3b4b5b6b7b8");
  rig.answer(sent, { type: "response_start", status: 500 });
  rig.answer(sent, { type: "response_chunk", body: "XXX" });
  rig.answer(sent, { type: "response_end" });
  rig.answer(sent, dataFrame(4, "", { fin: true }));
  assert.ok((await sent.client.text()).endsWith("3\r\nabc\r\n0\r\n\r\n"));
  assert.equal(rig.end, "ok");
});

Deno.test("A foreign execution that is whole in its first frame needs no cancel", () => {
  using rig = new RequesterRig();
  const sent = bound(rig);
  rig.answer(sent, headFrame({ epoch: FOREIGN, serviceId: "worker-2", body: "XXX" }));
  assert.equal(rig.transport.to("to.proxy.cancel.").length, 0);
});

Deno.test("The owner's close breaks the message off with its code", async () => {
  using rig = new RequesterRig();
  const sent = bound(rig);
  rig.answer(sent, encodeClose(EPOCH, 4, "target_broken"));
  assert.equal(await sent.client.ended, "broken");
  assert.equal(rig.end, "target_broken");
  const other = bound(rig);
  rig.answer(other, encodeClose(EPOCH, 4, "no-such-code"));
  assert.equal(rig.registry.ends().get("internal"), 1);
});

Deno.test("A failure that the receiver answers keeps its status, body and code", async () => {
  using rig = new RequesterRig();
  const sent = rig.send();
  const body = '{"error":"Connection refused","code":"target_refused"}';
  const fields = `Date: D\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n`;
  const declaredLength = body.length;
  rig.answer(
    sent,
    headFrame({ status: 502, fields, body, declaredLength, code: "target_refused" }),
  );
  const text = await sent.client.text();
  assert.ok(text.startsWith("HTTP/1.1 502 Bad Gateway\r\n") && text.endsWith(body), text);
  assert.equal(rig.end, "target_refused");
});

Deno.test("A probe is answered with the window; before the first event, with nothing", () => {
  using rig = new RequesterRig();
  const sent = rig.send();
  rig.answer(sent, encodeProbe(EPOCH, 4, 1, "worker-1"));
  assert.equal(rig.transport.to(CONTROL).length, 0);
  rig.answer(sent, headFrame({ fin: false, body: "abc" }));
  rig.answer(sent, encodeProbe(EPOCH, 4, 7, "worker-1"));
  const frame = rig.transport.to(CONTROL).at(-1)?.frame;
  assert.deepEqual(frame, { type: 5, epoch: EPOCH, next: 4, limit: 4, serial: 7, resend: false });
});

Deno.test("A probe that shows a loss ends the flow visibly", async () => {
  using rig = new RequesterRig();
  const sent = bound(rig);
  rig.answer(sent, encodeProbe(EPOCH, 9, 1, "worker-1"));
  assert.equal(await sent.client.ended, "broken");
  assert.equal(rig.end, "gap");
});

Deno.test("A probe for an unknown flow is answered gone, other messages with nothing", () => {
  using rig = new RequesterRig();
  rig.transport.deliver("responses", "nobody", encodeProbe(EPOCH, 9, 1, "worker-1"));
  const [close] = rig.transport.all;
  assert.equal(close?.subject, "to.proxy.control.worker-1.nobody");
  assert.deepEqual(close.frame, { type: 3, epoch: EPOCH, offset: 0, reason: "gone" });
  rig.transport.deliver("responses", "nobody", headFrame({}));
  rig.transport.deliver("responses", "nobody", '{"type":"response_end"}');
  rig.transport.deliver("responses", "nobody", encodeProbe(EPOCH, 9, 1, "a.>"));
  rig.transport.deliver("responses", "nobody", octets("\x04\x00"));
  assert.equal(rig.transport.all.length, 1);
});

Deno.test("Broken frames are logged and dropped; the flow goes on", () => {
  using rig = new RequesterRig();
  const sent = rig.send();
  for (const bad of ["\x01", "\x01\x80" + "\0".repeat(30), "\x05" + "\0".repeat(40)]) {
    rig.answer(sent, octets(bad));
  }
  assert.equal(rig.logger.lines.filter((line) => line.message === "bad frame").length, 3);
  rig.answer(sent, headFrame({ body: "fine" }));
  assert.equal(rig.end, "ok");
});

Deno.test("A head that no client can be sent gets 502, and every execution is cancelled", async () => {
  const rows = [
    headFrame({ fields: "no colon\r\n" }),
    headFrame({ fields: "A: b" }),
    headFrame({ fields: "A: b\r\n\r\n" }),
    headFrame({ fields: "A b: c\r\n" }),
    headFrame({ info: octets("{}") }),
    headFrame({ status: 101, fin: false }),
  ];
  for (const row of rows) {
    using rig = new RequesterRig();
    const sent = rig.send();
    rig.answer(sent, row);
    const text = await sent.client.text();
    assert.ok(text.startsWith("HTTP/1.1 502 Bad Gateway\r\n"), text);
    assert.equal(rig.transport.to(POOL).length, 1);
    assert.equal(rig.end, "target_broken");
  }
});

Deno.test("An interim head is not the first event", async () => {
  using rig = new RequesterRig();
  const sent = rig.send();
  rig.answer(sent, headFrame({ status: 103, fields: "Link: x\r\n" }));
  assert.equal(sent.client.response.started, false);
  rig.answer(sent, headFrame({ body: "real" }));
  assert.match(await sent.client.text(), /^HTTP\/1\.1 200 OK\r\n/);
});

Deno.test("A peer whose service id can stand in no subject harms nobody", async () => {
  for (const serviceId of ["a b", "a.>", "*", "x\r\ny", "."]) {
    using rig = new RequesterRig();
    const sent = rig.send();
    rig.answer(sent, headFrame({ fin: false, body: "abc", serviceId }));
    rig.answer(sent, encodeProbe(EPOCH, 4, 1, "worker-1"));
    rig.answer(sent, headFrame({ fin: false, epoch: FOREIGN, serviceId }));
    assert.equal(rig.transport.all.length, 1, serviceId);
    sent.client.response.gone();
    const [cancel] = rig.transport.to(POOL);
    assert.equal(cancel?.json.cancel.epoch, "a1a2a3a4a5a6a7a8", serviceId);
    assert.equal(await sent.client.ended, "broken");
  }
});

Deno.test("A client that leaves before the owner is known cancels in the pool, for every execution", () => {
  using rig = new RequesterRig();
  const sent = rig.send();
  sent.client.response.gone();
  const [cancel] = rig.transport.to(POOL);
  assert.equal(cancel?.subject, POOL + sent.id);
  assert.deepEqual({ ...cancel.json.cancel, timestamp: "" }, {
    request_id: sent.id,
    service_id: "edge-a",
    reason: "downstream_disconnect",
    timestamp: "",
  });
  assert.equal(cancel.reply, null);
  assert.equal(rig.end, "canceled");
});

Deno.test("A client that leaves later cancels its owner's execution, once", () => {
  using rig = new RequesterRig();
  const sent = bound(rig);
  sent.client.response.gone();
  sent.client.response.gone();
  const cancels = rig.transport.to("to.proxy.cancel.");
  assert.deepEqual(cancels.map((one) => one.subject), [CANCEL + sent.id]);
  assert.equal(cancels[0]?.json.cancel.epoch, "a1a2a3a4a5a6a7a8");
  assert.equal(rig.end, "canceled");
});

Deno.test("A lost link ends what is bound; what waits may still be answered", async () => {
  using rig = new RequesterRig();
  const open = bound(rig);
  const waiting = rig.send();
  rig.transport.setConnected(false);
  assert.equal(await open.client.ended, "broken");
  assert.equal(waiting.client.end, null);
  assert.equal(rig.registry.ends().get("nats_down"), 1);
  rig.transport.setConnected(true);
  rig.answer(waiting, headFrame({ body: "late" }));
  assert.equal(await waiting.client.ended, "keep");
});

Deno.test("One no-responders is a question to the pool; a second one means that nobody is there", async () => {
  using rig = new RequesterRig();
  const sent = rig.send();
  rig.transport.flushed = () => {
    rig.noResponders(sent);
    return Promise.resolve();
  };
  rig.noResponders(sent);
  const [question] = rig.transport.to(POOL);
  assert.equal(question?.reply, sent.replyTo);
  await sent.client.ended;
  const text = await sent.client.text();
  assert.ok(text.startsWith("HTTP/1.1 503 Service Unavailable\r\n"), text);
  assert.match(text, /"code":"no_receiver"/);
  assert.ok(!text.includes("Retry-After"));
  assert.equal(rig.transport.to(POOL).length, 1);
});

Deno.test("A pool that hears the question is saturated: 503 with Retry-After", async () => {
  using rig = new RequesterRig();
  const sent = rig.send();
  rig.noResponders(sent);
  await sent.client.ended;
  const text = await sent.client.text();
  assert.match(text, /\r\nRetry-After: 1\r\n/);
  assert.match(text, /"code":"overloaded"/);
});

Deno.test("An answer that comes while the pool is asked counts", async () => {
  using rig = new RequesterRig();
  const sent = rig.send();
  const asked = Promise.withResolvers<void>();
  rig.transport.flushed = () => asked.promise;
  rig.noResponders(sent);
  rig.answer(sent, headFrame({ fin: false, body: "abc" }));
  asked.resolve();
  await asked.promise;
  await Promise.resolve();
  rig.answer(sent, dataFrame(4, "", { fin: true }));
  assert.equal(await sent.client.ended, "keep");
  assert.equal(rig.end, "ok");
});

Deno.test("A link that is lost while the pool is asked is told as such", async () => {
  using rig = new RequesterRig();
  const sent = rig.send();
  rig.transport.flushed = () => Promise.reject(new Error("down"));
  rig.noResponders(sent);
  await sent.client.ended;
  assert.match(await sent.client.text(), /"code":"nats_down"/);
});

Deno.test("No first event in time is 504, and the pool is told", async () => {
  using rig = new RequesterRig({ responseTimeoutMs: 30 });
  const sent = rig.send();
  await within(sent.client.ended, 5_000, "the 504");
  const text = await sent.client.text();
  assert.ok(text.startsWith("HTTP/1.1 504 Gateway Timeout\r\n"), text);
  assert.match(text, /"message":"No response from bridge within 0.03s"/);
  assert.equal(rig.transport.to(POOL)[0]?.json.cancel.reason, "response_timeout");
  assert.equal(rig.end, "response_timeout");
});

Deno.test("A natsway peer that falls silent for PEER_TIMEOUT is lost; what is heard starts anew", async () => {
  using rig = new RequesterRig({ peerTimeoutMs: 150, responseTimeoutMs: 20 });
  const sent = bound(rig);
  const started = performance.now();
  for (let i = 0; i < 3; i++) {
    await new Promise((resolve) => setTimeout(resolve, 60));
    rig.answer(sent, encodeProbe(EPOCH, 4, i, "worker-1"));
  }
  assert.equal(await within(sent.client.ended, 5_000, "the end"), "broken");
  assert.ok(performance.now() - started > 300);
  assert.equal(rig.end, "peer_lost");
  assert.equal(rig.transport.to(CANCEL).length, 1);
});

Deno.test("stop breaks off what is under way and answers what waits", async () => {
  const rig = new RequesterRig();
  const open = bound(rig);
  const waiting = rig.send();
  rig.requester.stop();
  assert.equal(await open.client.ended, "broken");
  assert.match(await waiting.client.text(), /^HTTP\/1\.1 503 /);
  assert.equal(rig.transport.to(CANCEL).length, 1);
  assert.deepEqual(rig.transport.to(POOL).map((one) => one.subject), [POOL + waiting.id]);
  assert.equal(rig.registry.size, 0);
});
