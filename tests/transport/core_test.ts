import assert from "node:assert/strict";
import { natsStatus } from "../../lib/protocol/nats_headers.ts";
import { connectCore, type CoreSubjects, type CoreTransport } from "../../lib/transport/core.ts";
import type { LinkOptions } from "../../lib/transport/link.ts";
import type { Delivery, Plane } from "../../lib/transport/types.ts";
import { startNats } from "../helpers/nats_server.ts";
import { EventLog } from "../helpers/wait.ts";
import { decode, encode, RecordingLogger, serversOf } from "./support.ts";

const SUBJECTS: CoreSubjects = {
  requests: "to.proxy.requests.>",
  queueGroup: "pool",
  responses: ["from.proxy.responses.me.>", "proxy.responses.me.>"],
  sessionsDownstream: ["from.proxy.sessions.downstream.me.>"],
  sessionsUpstream: ["to.proxy.sessions.upstream.me.>"],
  control: ["to.proxy.control.me.>"],
  cancel: ["to.proxy.cancel.me.>"],
  poolCancel: "to.proxy.cancel._pool.>",
};

class Rig implements AsyncDisposable {
  readonly logger = new RecordingLogger();
  readonly transport: CoreTransport;
  readonly connected: Promise<void>;

  constructor(url: string, options: Partial<LinkOptions> = {}) {
    this.transport = connectCore({
      servers: serversOf(url),
      subjects: SUBJECTS,
      logger: this.logger,
      ...options,
    });
    const { promise, resolve } = Promise.withResolvers<void>();
    this.connected = promise;
    this.transport.onConnection((connected) => connected && resolve());
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.transport.close();
  }
}

Deno.test("each plane is one subscription for each of its subjects, dispatched by the last token", async () => {
  await using server = await startNats();
  await using rig = new Rig(server.url);
  const { transport } = rig;
  const seen: string[] = [];
  const planes: Plane[] = [
    "responses",
    "sessions.downstream",
    "sessions.upstream",
    "control",
    "cancel",
  ];
  for (const plane of planes) {
    transport.consumePlane(
      plane,
      ({ token, data }) => seen.push(`${plane} ${token} ${decode(data)}`),
    );
  }
  transport.consumePoolCancels(({ token }) => seen.push(`pool ${token}`));
  await rig.connected;
  assert.equal(transport.link.connection.protocol.subscriptions.size(), 7);
  for (
    const subject of [
      "from.proxy.responses.me.id1",
      "proxy.responses.me.id2",
      "from.proxy.sessions.downstream.me.id3",
      "to.proxy.sessions.upstream.me.id4",
      "to.proxy.control.me.id5",
      "to.proxy.cancel.me.id6",
      "to.proxy.cancel._pool.id7",
      "proxy.responses.other.id8",
    ]
  ) {
    transport.publish(subject, [encode("x")]);
  }
  await transport.flush();
  assert.deepEqual(seen, [
    "responses id1 x",
    "responses id2 x",
    "sessions.downstream id3 x",
    "sessions.upstream id4 x",
    "control id5 x",
    "cancel id6 x",
    "pool id7",
  ]);
});

Deno.test("requests are shared by the queue group, and settling them does nothing in Core", async () => {
  await using server = await startNats();
  await using a = new Rig(server.url);
  await using b = new Rig(server.url);
  await using requester = new Rig(server.url);
  const got = new Map<string, number>();
  let count = 0;
  for (const rig of [a, b]) {
    rig.transport.consumeRequests((delivery: Delivery) => {
      got.set(delivery.token, (got.get(delivery.token) ?? 0) + 1);
      delivery.working();
      delivery.nak(10);
      delivery.term("no");
      delivery.ack();
      if (rig === a) count++;
    });
    await rig.connected;
    await rig.transport.flush();
  }
  await requester.connected;
  for (let i = 0; i < 1000; i++) {
    requester.transport.publish(`to.proxy.requests.me.id${i}`, [encode("{}")]);
  }
  await Promise.all([requester, a, b].map(({ transport }) => transport.flush()));
  await Promise.all([a, b].map(({ transport }) => transport.flush()));
  assert.equal(got.size, 1000);
  assert.ok([...got.values()].every((times) => times === 1));
  assert.ok(count > 300 && count < 700, `${count} of 1000 went to one of two`);
});

Deno.test("a receiver that leaves the queue group still gets what is on its way, and can join again", async () => {
  await using server = await startNats();
  await using receiver = new Rig(server.url);
  await using requester = new Rig(server.url);
  const got = new EventLog<string>();
  const none = new EventLog<string>();
  const consumer = receiver.transport.consumeRequests(({ token }) => got.add(token));
  requester.transport.consumePlane("responses", ({ token, headers }) => {
    if (headers !== null && natsStatus(headers) === 503) none.add(token);
  });
  await Promise.all([receiver.connected, requester.connected]);
  await receiver.transport.flush();
  const send = (id: string) =>
    requester.transport.publish(`to.proxy.requests.me.${id}`, [encode("{}")], {
      reply: `from.proxy.responses.me.${id}`,
    });

  for (let round = 0; round < 5; round++) {
    for (let i = 0; i < 200; i++) send(`early-${round}-${i}`);
    await requester.transport.flush();
    await consumer.pause();
    assert.equal(got.events.length + none.events.length, (round + 1) * 201 - 1);
    assert.equal(none.events.length, round, "what was sent before it left is not lost");
    send(`away-${round}`);
    await requester.transport.flush();
    assert.equal(none.events.length, round + 1, "nobody listens while it is away");
    await consumer.pause();
    consumer.resume();
    consumer.resume();
    await receiver.transport.flush();
  }
  assert.equal(got.events.length, 1000);

  // Many changes in one turn end where the last one says.
  void consumer.pause();
  consumer.resume();
  void consumer.pause();
  consumer.resume();
  await receiver.transport.flush();
  send("last");
  await requester.transport.flush();
  await receiver.transport.flush();
  assert.equal(got.events.at(-1), "last");
  assert.equal(got.events.length, 1001);
});

Deno.test("a receiver that has left does not come back with a reconnect", async () => {
  await using server = await startNats();
  await using receiver = new Rig(server.url);
  const consumer = receiver.transport.consumeRequests(() => {});
  await receiver.connected;
  const subscribed = () => receiver.transport.link.connection.protocol.subscriptions.size();
  assert.equal(subscribed(), 1);
  await consumer.pause();
  assert.equal(subscribed(), 0);
  const back = Promise.withResolvers<void>();
  receiver.transport.onConnection((connected) => connected && back.resolve());
  await server.restart();
  await back.promise;
  assert.equal(subscribed(), 0);
  consumer.resume();
  assert.equal(subscribed(), 1);

  // Also when it leaves while the link is down.
  await server.kill("SIGKILL");
  await consumer.pause();
  assert.equal(subscribed(), 0);
});

Deno.test("status tells the backend, the server and what is refused", async () => {
  await using server = await startNats({
    config: `authorization { users = [ { user: u, password: p, permissions: {
      subscribe: { deny: ["to.proxy.requests.>", "proxy.responses.>"] } } } ] }`,
  });
  await using rig = new Rig(server.url, { auth: { kind: "user", user: "u", password: "p" } });
  assert.deepEqual([rig.transport.connected, rig.transport.status().status], [false, "connecting"]);
  rig.transport.consumeRequests(() => {});
  rig.transport.consumePlane("responses", () => {});
  rig.transport.consumePlane("cancel", () => {});
  await rig.connected;
  await rig.transport.flush();
  const status = rig.transport.status();
  assert.deepEqual(status.planesDenied, ["requests", "responses"]);
  assert.equal(status.backend, "core");
  assert.equal(status.backendReason, "NATS_MODE=core");
  assert.equal(status.server, `127.0.0.1:${server.port}`);
  assert.match(server.log, new RegExp(`Version: +${status.serverInfo?.version}\n`));
  assert.equal(status.connected, true);
  assert.equal(rig.logger.of("error").length, 2);
});

Deno.test("close sends what is pending, and is bounded when the server does not answer", async () => {
  await using server = await startNats();
  await using rig = new Rig(server.url);
  await rig.connected;
  await server.kill("SIGSTOP");
  rig.transport.publish("x", [new Uint8Array(100)]);
  const start = performance.now();
  await rig.transport.close();
  const ms = performance.now() - start;
  assert.ok(ms > 1500 && ms < 4000, `close took ${ms} ms`);
  assert.equal(rig.transport.status().status, "closed");
  await rig.transport.close();
});
