import assert from "node:assert/strict";
import { installLaneTransport } from "../../lib/transport/lane_transport.ts";
import { startNats } from "../helpers/nats_server.ts";
import { EventLog, within } from "../helpers/wait.ts";
import { checkEcho } from "./echo.ts";
import { installPlainTransport, PlainTransport } from "./plain_transport.ts";
import { decode, encode, restartUnder, seeded, startLink, TestLink } from "./support.ts";

const random = seeded(Math.floor(Math.random() * 2 ** 32));
const ECHO = { count: 100, largestBytes: 100_000, random };

/** The transport that nats-core uses now, and the sids it knows. */
function inside({ link }: TestLink): { transport: unknown; sids: number[] } {
  const { transport, subscriptions } = link.connection.protocol;
  return { transport, sids: subscriptions.all().map((one) => one.getID()) };
}

for (const signal of ["SIGTERM", "SIGKILL"] as const) {
  Deno.test(`the link comes back after ${signal} of the server, with its subscriptions, under traffic`, async () => {
    await using server = await startNats();
    await using a = await startLink(server.url);
    await using b = await startLink(server.url);
    const answers = new EventLog<string>();
    b.link.subscribe({
      subject: "r.in",
      label: "in",
      deliver: (_token, data, reply) => b.link.publish(reply, [data]),
    });
    a.link.subscribe({
      subject: "r.out",
      label: "out",
      deliver: (_token, data) => answers.add(decode(data.subarray(0, 5))),
    });
    await Promise.all([a.link.flush(), b.link.flush()]);
    const before = inside(a);

    let phase = "early";
    let refused = 0;
    let running = true;
    const filler = new Uint8Array(20_000);
    const pump = (async () => {
      while (running) {
        for (let i = 0; i < 20; i++) {
          if (!a.link.publish("r.in", [encode(phase), filler], { reply: "r.out" })) refused++;
        }
        await new Promise((resolve) => setTimeout(resolve, 1));
      }
    })();
    await answers.find((text) => text === "early", { ms: 5000, what: "traffic before" });
    await server.kill(signal);
    await Promise.all([a.until(false), b.until(false)]);
    assert.equal(a.link.publish("r.in", []), false);
    assert.equal(a.link.pendingBytes, 0);
    assert.equal(a.link.status().status, "reconnecting");
    await a.link.drained();
    await assert.rejects(a.link.flush());
    await server.restart();
    await Promise.all([a.until(true), b.until(true)]);
    phase = "later";
    await answers.find((text) => text === "later", { ms: 10_000, what: "traffic after" });
    running = false;
    await pump;

    assert.ok(refused > 0, "publishes while down are refused");
    assert.notEqual(inside(a).transport, before.transport);
    assert.deepEqual(inside(a).sids.slice(0, 1), before.sids);
    assert.deepEqual(a.changes.events, [true, false, true]);
    assert.equal(a.link.status().reconnects, 1);
    await checkEcho(a.link, b.link, ECHO);
  });
}

Deno.test("an outage is two log lines, however many attempts it takes", async () => {
  await using server = await startNats();
  await using a = await startLink(server.url);
  await server.kill("SIGTERM");
  await a.until(false);
  await a.attempts(4);
  const [lost, trying, ...more] = a.logger.of("warning");
  assert.match(lost?.message ?? "", /lost the connection/);
  assert.match(String(trying?.fields.error), /refused/);
  assert.deepEqual(more, []);
  await server.restart();
  await a.until(true);
  assert.equal(a.logger.of("info").length, 2);
});

Deno.test("a stopped server is noticed by its silence, and taken again when it goes on", async () => {
  await using server = await startNats();
  await using a = await startLink(server.url, { pingIntervalMs: 100, connectTimeoutMs: 300 });
  await server.kill("SIGSTOP");
  await a.until(false, 3000);
  assert.equal(a.link.publish("x", []), false);
  const lost = await a.logger.lines.find(({ message }) => message.startsWith("lost"), {
    ms: 5000,
    what: "the loss in the log",
  });
  assert.match(String(lost.fields.error), /does not answer pings/);
  await a.logger.lines.find(({ message }) => message.startsWith("cannot connect"), {
    ms: 5000,
    what: "the reason of a failed attempt",
  });
  await server.kill("SIGCONT");
  await a.until(true);
  await a.link.flush();
});

Deno.test("a flush that waits rejects when the link goes down", async () => {
  await using server = await startNats();
  await using a = await startLink(server.url);
  await server.kill("SIGSTOP");
  const flush = a.link.flush();
  const rejected = assert.rejects(within(flush, 5000, "an answer"), /went down/);
  await server.kill("SIGKILL");
  await rejected;
});

Deno.test("a forced reconnect makes a new connection and keeps the subscriptions", async () => {
  await using server = await startNats();
  await using a = await startLink(server.url);
  await using b = await startLink(server.url);
  const { transport } = inside(a);
  const from = a.changes.events.length;
  await a.link.connection.reconnect();
  await a.changes.find((connected) => connected, { ms: 5000, what: "a reconnect", from });
  assert.notEqual(inside(a).transport, transport);
  await checkEcho(a.link, b.link, ECHO);
});

Deno.test("max_payload is read again at each connect", async () => {
  await using server = await startNats({ config: "max_payload: 4000" });
  await using a = await startLink(server.url);
  assert.ok(a.link.publish("x", [new Uint8Array(3000)]));
  server.configure("max_payload: 2000");
  await restartUnder(server, a);
  assert.equal(a.link.maxPayload, 2000);
  assert.throws(() => a.link.publish("x", [new Uint8Array(3000)]));
  await a.link.flush();
  assert.deepEqual(a.changes.events, [true, false, true]);
});

Deno.test("a client that closes for good is replaced, with its subscriptions and counters", async () => {
  await using server = await startNats();
  await using a = await startLink(server.url);
  const messages = new EventLog<string>();
  a.link.subscribe({
    subject: "x.*",
    label: "x",
    deliver: (token) => messages.add(token),
  });
  a.link.publish("x.1", []);
  await a.link.flush();
  const closed = a.link.connection;
  await closed.close();
  await a.until(true);
  assert.notEqual(a.link.connection, closed);
  a.link.publish("x.2", []);
  await a.link.flush();
  assert.deepEqual(messages.events, ["1", "2"]);
  assert.equal(a.link.status().sentMessages, 2);
  assert.equal(a.link.status().receivedMessages, 2);
});

Deno.test("a link works on when another client has replaced the transport factory", async () => {
  await using server = await startNats();
  await using a = await startLink(server.url);
  await using b = await startLink(server.url);
  installPlainTransport();
  try {
    const from = a.changes.events.length;
    await a.link.connection.reconnect();
    await a.logger.lines.find(({ message }) => message.startsWith("connected"), {
      ms: 5000,
      what: "a reconnect",
      from: a.logger.lines.events.length,
    });
    await a.changes.find((connected) => connected, { ms: 5000, what: "a reconnect", from });
    assert.ok(inside(a).transport instanceof PlainTransport);
    await checkEcho(a.link, b.link, ECHO);
  } finally {
    installLaneTransport();
  }
});
