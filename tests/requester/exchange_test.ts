import assert from "node:assert/strict";
import { MemoryBudget } from "../../lib/flow/memory_budget.ts";
import { octets } from "../helpers/bytes.ts";
import { dataFrame, headFrame, RequesterRig, type Sent } from "../helpers/unit_requester.ts";
import { within } from "../helpers/wait.ts";

const HEAD = "HTTP/1.1 200 OK\r\nDate: D\r\n";
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

Deno.test("Before the first event a broken frame is 502: the rest of that peer cannot be trusted", async () => {
  for (const bad of ["\x01", "\x01\x80" + "\0".repeat(30), "\x05" + "\0".repeat(40)]) {
    using rig = new RequesterRig();
    const sent = rig.send();
    rig.answer(sent, octets(bad));
    const text = await sent.client.text();
    assert.ok(text.startsWith("HTTP/1.1 502 Bad Gateway\r\n"), text);
    assert.equal(rig.transport.to(POOL).length, 1);
    assert.equal(rig.end, "target_broken");
  }
});

Deno.test("Whatever way a request ends, no window of it stays counted", async () => {
  const ends: ((rig: RequesterRig, sent: Sent) => unknown)[] = [
    (rig, sent) => rig.answer(sent, headFrame({ body: "whole" })),
    (rig, sent) => rig.answer(sent, headFrame({ info: octets("{}") })),
    (rig, sent) => rig.answer(sent, octets("\x01")),
    (rig, sent) => rig.answer(sent, { type: "response_start", status: 200 }),
    (_rig, sent) => sent.client.response.gone(),
    (rig) => rig.requester.stop(),
    (rig, sent) => {
      rig.answer(sent, headFrame({ fin: false, body: "abc" }));
      rig.answer(sent, dataFrame(4, "", { fin: true }));
    },
    (rig, sent) => {
      rig.answer(sent, headFrame({ fin: false, body: "abc" }));
      sent.client.response.gone();
    },
  ];
  for (const [index, end] of ends.entries()) {
    using rig = new RequesterRig();
    const sent = rig.send();
    assert.equal(rig.budget.usedBytes, 256 * 1024 - 8 * 1024, "held while it is on its way");
    end(rig, sent);
    rig.answer(sent, { type: "response_end" });
    await sent.client.ended;
    await sent.client.text();
    await Promise.resolve();
    assert.deepEqual([rig.budget.usedBytes, rig.budget.flows], [0, 0], `end ${index}`);
  }
});

Deno.test("Without memory for a lane the client gets 503 and the execution its cancel", async () => {
  using rig = new RequesterRig({ budget: new MemoryBudget({ totalBytes: 2 ** 20, maxFlows: 1 }) });
  bound(rig);
  const sent = rig.send();
  rig.answer(sent, headFrame({ fin: false, body: "abc" }));
  const text = await sent.client.text();
  assert.ok(text.startsWith("HTTP/1.1 503 Service Unavailable\r\n"), text);
  assert.match(text, /\r\nRetry-After: 1\r\n[^]*"code":"overloaded"/);
  const [cancel] = rig.transport.to(CANCEL);
  assert.equal(cancel?.subject, CANCEL + sent.id);
  assert.equal(cancel.json.cancel.epoch, "a1a2a3a4a5a6a7a8");
});
