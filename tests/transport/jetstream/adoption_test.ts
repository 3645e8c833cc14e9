import assert from "node:assert/strict";
import { planePatterns } from "../../../lib/protocol/subjects.ts";
import { request, TestReceiver } from "./receiver_rig.ts";
import { within } from "../../helpers/wait.ts";
import { JsServer, SECOND_NS, STREAM } from "./support.ts";

const DEFAULT_ROOTS = { request: "to.proxy", response: "from.proxy" };

Deno.test("an existing durable is adopted with its own limits, named in a warning, and not touched", async () => {
  await using js = await JsServer.start();
  await js.addDurable(5000, { max_deliver: 2 });
  const before = await js.manager.consumers.info(STREAM, "nats-proxy");
  await using receiver = new TestReceiver(js.server.url, "worker");
  await receiver.until(null);
  await request(js, "a");
  const first = await receiver.take("a");
  first.nak(0);
  const second = await receiver.take("a", 1);
  assert.equal(second.lastDelivery, true, "max_deliver is that of the durable");
  second.ack();
  const [warning] = receiver.logger.of("warning");
  assert.match(String(warning?.fields.detail), /ack_wait 5000000000 instead of 60000000000/);
  assert.match(String(warning?.fields.detail), /max_deliver 2 instead of 3/);
  const after = await js.manager.consumers.info(STREAM, "nats-proxy");
  assert.deepEqual(after.config, before.config);
  assert.equal(after.created, before.created);
});

Deno.test("a durable that takes other requests is a start error that names both, and stays", async () => {
  await using js = await JsServer.start();
  await js.addDurable(60_000, { filter_subject: "proxy.other.>" });
  await using receiver = new TestReceiver(js.server.url, "worker");
  const error = await within(receiver.transport.failed, 10_000, "the start error");
  assert.equal(error.name, "StartError");
  assert.match(error.message, /nats-proxy of stream proxy.*proxy\.other\.>.*proxy\.requests\.>/);
  assert.match(receiver.notReady ?? "", /proxy\.other\.>/);
  const { config } = await js.manager.consumers.info(STREAM, "nats-proxy");
  assert.equal(config.filter_subject, "proxy.other.>");
});

Deno.test("a stream without the prefixes is filtered without them", async () => {
  await using js = await JsServer.start();
  const subjects = { requests: "to.proxy.requests.>", ...planePatterns(DEFAULT_ROOTS, "worker") };
  await using receiver = new TestReceiver(js.server.url, "worker", { subjects });
  receiver.transport.consumePlane("sessions.upstream", () => {});
  await receiver.until(null);
  const filter = async (name: string) =>
    (await js.manager.consumers.info(STREAM, name)).config.filter_subject;
  assert.equal(await filter("nats-proxy"), "proxy.requests.>");
  assert.equal(
    await filter("nats-proxy-sessions-upstream-worker"),
    "proxy.sessions.upstream.worker.>",
  );
});

Deno.test("a stream with the prefixes is filtered with them", async () => {
  await using js = await JsServer.start({ subjects: ["to.proxy.>", "from.proxy.>"] });
  const subjects = { requests: "to.proxy.requests.>", ...planePatterns(DEFAULT_ROOTS, "worker") };
  await using receiver = new TestReceiver(js.server.url, "worker", { subjects });
  await receiver.until(null);
  const { config } = await js.manager.consumers.info(STREAM, "nats-proxy");
  assert.equal(config.filter_subject, "to.proxy.requests.>");
});

Deno.test("a filter that would match nothing keeps the receiver not ready, naming both forms, and makes no consumer", async () => {
  await using js = await JsServer.start({ subjects: ["else.>"] });
  const subjects = { requests: "to.proxy.requests.>", ...planePatterns(DEFAULT_ROOTS, "worker") };
  await using receiver = new TestReceiver(js.server.url, "worker", { subjects });
  await receiver.until(/else\.>.*to\.proxy\.requests\.> or proxy\.requests\.>/);
  await assert.rejects(js.manager.consumers.info(STREAM, "nats-proxy"));
  await js.manager.streams.update(STREAM, { subjects: ["proxy.>"] });
  await receiver.until(null);
});

Deno.test("a durable made by a Ruby peer for subjects that the stream has not is not silently pulled from", async () => {
  await using js = await JsServer.start();
  await js.addDurable(60_000, { filter_subject: "proxy.requests.>" });
  await js.manager.streams.update(STREAM, { subjects: ["to.proxy.>", "from.proxy.>"] });
  const subjects = { requests: "to.proxy.requests.>", ...planePatterns(DEFAULT_ROOTS, "worker") };
  await using receiver = new TestReceiver(js.server.url, "worker", { subjects });
  await receiver.until(/filter proxy\.requests\.>.*to\.proxy\.>, from\.proxy\.> takes nothing/);
});

Deno.test("a consumer of this process with an old filter is replaced", async () => {
  await using js = await JsServer.start();
  await js.manager.consumers.add(STREAM, {
    name: "nats-proxy-control-worker",
    ack_policy: "explicit",
    filter_subject: "proxy.old.>",
    inactive_threshold: 90 * SECOND_NS,
  });
  await using receiver = new TestReceiver(js.server.url, "worker");
  receiver.transport.consumePlane("control", () => {});
  await receiver.until(null);
  const { config } = await js.manager.consumers.info(STREAM, "nats-proxy-control-worker");
  assert.equal(config.filter_subject, "proxy.control.worker.>");
  assert.equal(config.inactive_threshold, 90 * SECOND_NS);
});

Deno.test("the pool's cancels reach each receiver", async () => {
  await using js = await JsServer.start();
  await using one = new TestReceiver(js.server.url, "one");
  await using two = new TestReceiver(js.server.url, "two");
  const seen = [one, two].map((receiver) => {
    const cancelled = Promise.withResolvers<string>();
    receiver.transport.consumePoolCancels(({ token }) => cancelled.resolve(token));
    return cancelled.promise;
  });
  await Promise.all([one.until(null), two.until(null)]);
  assert.ok(one.transport.publish("proxy.cancel._pool.id1", []));
  assert.deepEqual(await within(Promise.all(seen), 5000, "both cancels"), ["id1", "id1"]);
  await js.manager.consumers.info(STREAM, "nats-proxy-cancel-pool-one");
});
