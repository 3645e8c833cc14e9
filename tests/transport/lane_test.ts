import assert from "node:assert/strict";
import { MessageTooLargeError } from "../../lib/errors.ts";
import { encodeNatsHeaders, natsHeader, natsStatus } from "../../lib/protocol/nats_headers.ts";
import type { NatsLink } from "../../lib/transport/link.ts";
import { startNats } from "../helpers/nats_server.ts";
import { EventLog } from "../helpers/wait.ts";
import { checkEcho } from "./echo.ts";
import {
  ChoppingProxy,
  decode,
  encode,
  restartUnder,
  seeded,
  startLink,
  TestLink,
} from "./support.ts";

const seed = Math.floor(Math.random() * 2 ** 32);
const random = seeded(seed);

/** Messages of `subject` as text, by the lane. */
function listen(link: NatsLink, subject: string): EventLog<string> {
  const messages = new EventLog<string>();
  link.subscribe({
    subject,
    label: subject,
    deliver: (_token, data) => messages.add(decode(data)),
  });
  return messages;
}

Deno.test("the lane carries every byte, with ordinary traffic between", async () => {
  await using server = await startNats();
  await using a = await startLink(server.url);
  await using b = await startLink(server.url);
  await checkEcho(a.link, b.link, { count: 500, largestBytes: 300_000, random });
});

for (const [largest, count, largestBytes] of [[7, 200, 3000], [3000, 300, 200_000]] as const) {
  Deno.test(`the lane works when TCP cuts every ${largest} bytes, both ways (seed ${seed})`, async () => {
    await using server = await startNats();
    await using proxy = new ChoppingProxy(server.port, largest, random);
    await using a = await startLink(proxy.url);
    await using b = await startLink(proxy.url);
    await checkEcho(a.link, b.link, { count, largestBytes, random });
    assert.ok(proxy.pieces > 1000);
  });
}

Deno.test("messages of the lane and ordinary ones keep their order in both directions", async () => {
  await using server = await startNats();
  await using a = await startLink(server.url);
  await using b = await startLink(server.url);
  const seen: string[] = [];
  b.link.subscribe({
    subject: "order.lane",
    label: "lane",
    deliver: (_token, data) => seen.push(`lane ${data[0]}`),
  });
  b.link.connection.subscribe("order.core", {
    callback: (_error, message) => void seen.push(`core ${message.data[0]}`),
  });
  await b.link.flush();
  const sent: string[] = [];
  for (let i = 0; i < 250; i++) {
    const lane = random() < 0.5;
    if (lane) assert.ok(a.link.publish("order.lane", [Uint8Array.of(i)]));
    else a.link.connection.publish("order.core", Uint8Array.of(i));
    sent.push(`${lane ? "lane" : "core"} ${i}`);
    if (i % 17 === 0) await null;
  }
  await a.link.flush();
  await b.link.flush();
  assert.deepEqual(seen, sent);
});

Deno.test("a publish does not overtake a subscription of the same turn", async () => {
  await using server = await startNats();
  await using a = await startLink(server.url);
  const core = new EventLog<string>();
  a.link.connection.subscribe("turn.core", {
    callback: (_error, message) => core.add(decode(message.data)),
  });
  assert.ok(a.link.publish("turn.core", [encode("1")]));
  const lane = listen(a.link, "turn.lane");
  assert.ok(a.link.publish("turn.lane", [encode("2")]));
  await a.link.flush();
  assert.deepEqual([core.events, lane.events], [["1"], ["2"]]);
});

Deno.test("a publish is copied: parts, headers and reply arrive, the buffers may be reused", async () => {
  await using server = await startNats();
  await using a = await startLink(server.url);
  const seen: unknown[] = [];
  a.link.subscribe({
    subject: "copy.>",
    label: "copy",
    deliver: (token, data, reply, headers) =>
      seen.push([token, decode(data), reply, headers && natsHeader(headers, "X-Name")]),
  });
  const part = encode("abc");
  const headers = encodeNatsHeaders([["X-Name", "ü"]]);
  assert.ok(a.link.publish("copy.t1", [part, part, new Uint8Array(0)], { reply: "r.1", headers }));
  part.fill(0);
  headers.fill(0);
  assert.ok(a.link.publish("copy.t2", []));
  assert.ok(a.link.publish("copy.zürich", [], { headers: encodeNatsHeaders([]) }));
  await a.link.flush();
  assert.deepEqual(seen, [
    ["t1", "abcabc", "r.1", "ü"],
    ["t2", "", "", null],
    ["zürich", "", "", null],
  ]);
});

Deno.test("lane and ordinary messages are counted alike", async () => {
  await using server = await startNats();
  await using a = await startLink(server.url);
  listen(a.link, "count.lane");
  a.link.connection.subscribe("count.core", { callback: () => {} });
  const before = a.link.status();
  a.link.publish("count.lane", [new Uint8Array(10)]);
  a.link.connection.publish("count.core", new Uint8Array(10));
  await a.link.flush();
  const after = a.link.status();
  assert.equal(after.sentMessages - before.sentMessages, 2);
  assert.equal(after.sentBytes - before.sentBytes, 20);
  assert.equal(after.receivedMessages - before.receivedMessages, 2);
  assert.equal(after.receivedBytes - before.receivedBytes, 20);
});

Deno.test("no responders reaches the handler of the reply subject as status 503", async () => {
  await using server = await startNats();
  await using a = await startLink(server.url);
  const seen: unknown[] = [];
  a.link.subscribe({
    subject: "reply.*",
    label: "reply",
    deliver: (token, data, _reply, headers) =>
      seen.push([token, data.length, headers && natsStatus(headers)]),
  });
  a.link.publish("nobody.here", [encode("x")], { reply: "reply.id7" });
  await a.link.flush();
  assert.deepEqual(seen, [["id7", 0, 503]]);
});

Deno.test("a message over max_payload throws and sends nothing; the link lives", async () => {
  await using server = await startNats({ config: "max_payload: 1000" });
  await using a = await startLink(server.url);
  assert.equal(a.link.maxPayload, 1000);
  const messages = listen(a.link, "size.>");
  const headers = encodeNatsHeaders([["a", "b"]]);
  assert.throws(
    () => a.link.publish("size.x", [new Uint8Array(600), new Uint8Array(401)]),
    (error) =>
      error instanceof MessageTooLargeError && error.bytes === 1001 && error.limit === 1000,
  );
  assert.throws(
    () => a.link.publish("size.x", [new Uint8Array(1001 - headers.length)], { headers }),
    MessageTooLargeError,
  );
  assert.ok(a.link.publish("size.x", [new Uint8Array(1000 - headers.length)], { headers }));
  assert.ok(a.link.publish("size.x", [new Uint8Array(1000)]));
  await a.link.flush();
  assert.equal(messages.events.length, 2);
});

Deno.test("a subject that cannot be published to throws, also as reply; the link lives", async () => {
  await using server = await startNats();
  await using a = await startLink(server.url);
  const bad = ["", " ", "a b", "a\tb", "a\r\nPUB x 0", "a\u0000b", "a\u007fb", ".a", "a.", "a..b"];
  for (const subject of [...bad, "*", ">", "a.*", "a.>", "a.*.b"]) {
    assert.throws(() => a.link.publish(subject, []), TypeError, JSON.stringify(subject));
    if (subject === "") continue;
    assert.throws(() => a.link.publish("ok", [], { reply: subject }), TypeError);
  }
  assert.ok(a.link.publish("a*b.c>", []), "a star within a token is an ordinary octet");
  await a.link.flush();
});

Deno.test("a refused subscription is logged with its subject, shown, and forgotten when allowed", async () => {
  const permissions = (deny: string) =>
    `authorization { users = [ { user: u, password: p, permissions: { subscribe: { deny: "${deny}" } } } ] }`;
  await using server = await startNats({ config: permissions("secret.>") });
  await using a = await startLink(server.url, { auth: { kind: "user", user: "u", password: "p" } });
  const messages = listen(a.link, "secret.a");
  listen(a.link, "open.a");
  await a.link.flush();
  assert.deepEqual(a.link.status().planesDenied, ["secret.a"]);
  assert.match(a.link.status().lastError ?? "", /secret\.a/);
  assert.deepEqual(a.logger.of("error").map(({ fields }) => fields.subject), ["secret.a"]);
  assert.equal(a.link.connected, true);

  server.configure(permissions("other.>"));
  await restartUnder(server, a);
  await a.link.flush();
  assert.deepEqual(a.link.status().planesDenied, []);
  a.link.publish("secret.a", [encode("now")]);
  await a.link.flush();
  assert.deepEqual(messages.events, ["now"]);
});

Deno.test("a refused subscription is asked for again without a reconnect", async () => {
  const permissions = (deny: string) =>
    `authorization { users = [ { user: u, password: p, permissions: { subscribe: { deny: "${deny}" } } } ] }`;
  await using server = await startNats({ config: permissions("secret.>") });
  await using a = await startLink(server.url, {
    auth: { kind: "user", user: "u", password: "p" },
    retryDeniedMs: 20,
  });
  const messages = listen(a.link, "secret.a");
  await a.logger.lines.find(({ level }) => level === "error", { ms: 5000, what: "the refusal" });
  server.configure(permissions("other.>"));
  await server.reload();
  await a.logger.lines.find(({ message }) => message.endsWith("subscribe now"), {
    ms: 5000,
    what: "the permission",
  });
  assert.deepEqual(a.link.status().planesDenied, []);
  a.link.publish("secret.a", [encode("now")]);
  await a.link.flush();
  assert.deepEqual(messages.events, ["now"]);
  assert.equal(a.logger.of("error").length, 1, "not for each attempt");
});

Deno.test("a refused publish is logged once for each plane, not for each message", async () => {
  await using server = await startNats({
    config:
      `authorization { users = [ { user: u, password: p, permissions: { publish: { deny: "no.>" } } } ] }`,
  });
  await using a = await startLink(server.url, { auth: { kind: "user", user: "u", password: "p" } });
  const events = a.link.connection.status();
  for (let i = 0; i < 20; i++) a.link.publish(`no.plane.${i}`, []);
  let refusals = 0;
  for await (const event of events) if (event.type === "error" && ++refusals === 20) break;
  await a.link.flush();
  assert.deepEqual(a.logger.of("error").map(({ fields }) => fields.subject), ["no.plane.0"]);
  assert.match(a.link.status().lastError ?? "", /no\.plane\.19/);
});

Deno.test("draining a subscription delivers what is on its way, then nothing", async () => {
  await using server = await startNats();
  await using a = await startLink(server.url);
  await using b = await startLink(server.url);
  let count = 0;
  const subscription = b.link.subscribe({ subject: "d.x", label: "d", deliver: () => count++ });
  await b.link.flush();
  for (let i = 0; i < 5000; i++) a.link.publish("d.x", [new Uint8Array(500)]);
  await a.link.flush();
  await subscription.drain();
  assert.equal(count, 5000);
  a.link.publish("d.x", [new Uint8Array(1)]);
  await a.link.flush();
  await b.link.flush();
  assert.equal(count, 5000);
});

Deno.test("a handler that throws is logged and does not end the reading", async () => {
  await using server = await startNats();
  await using a = await startLink(server.url);
  let count = 0;
  a.link.subscribe({
    subject: "th.x",
    label: "th",
    deliver: () => {
      count++;
      throw new Error("boom");
    },
  });
  for (let i = 0; i < 3; i++) a.link.publish("th.x", []);
  await a.link.flush();
  assert.equal(count, 3);
  assert.deepEqual(a.logger.of("error").map(({ fields }) => fields.error), ["boom"]);
});

Deno.test("pings of the server and of the client pass on an idle link", async () => {
  await using server = await startNats({ config: 'ping_interval: "100ms"\nping_max: 2' });
  await using a = await startLink(server.url, { pingIntervalMs: 50 });
  const pings: string[] = [];
  for await (const event of a.link.connection.status()) {
    pings.push(event.type);
    if (pings.length === 20) break;
  }
  assert.deepEqual(new Set(pings), new Set(["ping"]));
  assert.equal(a.link.connected, true);
  assert.equal(a.changes.events.length, 1);
  assert.ok((a.link.status().roundTripMs ?? 0) > 0);
});

Deno.test("close() delivers all that was published before it, then refuses", async () => {
  await using server = await startNats();
  await using a = await startLink(server.url);
  await using c = new TestLink(server.url);
  await c.until(true);
  const messages = listen(a.link, "dr.x");
  await a.link.flush();
  for (let i = 0; i < 2000; i++) c.link.publish("dr.x", [new Uint8Array(1000)]);
  await c.link.close();
  await a.link.flush();
  assert.equal(messages.events.length, 2000);
  assert.equal(c.link.publish("dr.x", []), false);
  assert.equal(c.link.status().status, "closed");
  assert.deepEqual(c.changes.events, [true, false]);
  await assert.rejects(c.link.flush());
  await c.link.drained();
});

Deno.test("a stalled server bounds the output: senders wait, and the hard cap refuses", async () => {
  await using server = await startNats();
  await using a = await startLink(server.url, { pingIntervalMs: 60_000 });
  await server.kill("SIGSTOP");
  const part = new Uint8Array(512 * 1024);
  let accepted = 0;
  while (a.link.publish("stall.x", [part])) accepted++;
  const { pendingBytes } = a.link;
  assert.ok(pendingBytes >= 64 * 1024 * 1024, `${pendingBytes} bytes wait`);
  assert.ok(pendingBytes < 66 * 1024 * 1024, `${pendingBytes} bytes wait`);
  let drained = false;
  const waiting = a.link.drained().then(() => drained = true);
  await new Promise((resolve) => setTimeout(resolve, 50));
  assert.equal(drained, false);
  await server.kill("SIGCONT");
  await waiting;
  assert.ok(a.link.pendingBytes <= 2 * 1024 * 1024);
  await a.link.flush();
  assert.equal(a.link.status().sentMessages, accepted);
});
