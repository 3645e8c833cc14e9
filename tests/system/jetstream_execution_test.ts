import assert from "node:assert/strict";
import { json, text } from "../helpers/http_message.ts";
import { NatsClient } from "../helpers/nats_client.ts";
import { PEER_ID, PeerCall } from "../helpers/nats_peer.ts";
import type { LogEvent, Natsway } from "../helpers/natsway.ts";
import { type Rig, type RigOptions, startRig } from "../helpers/rig.ts";
import { DURABLE, STREAM } from "../helpers/stream_operator.ts";
import { answer } from "../helpers/upstream.ts";
import { pause } from "../helpers/wait.ts";
import { liveFlows } from "./flows.ts";
import { Settlements, stored } from "./settlements.ts";

/** With NATSWAY_TEST_FULL=1 the numbers of F41. */
const FULL = Deno.env.get("NATSWAY_TEST_FULL") === "1";
const ACK_WAIT_MS = FULL ? 5_000 : 3_000;
const POLL_MS = 20;

/** A bridge whose durable an operator has made, with a short ack_wait. */
function start(options: RigOptions = {}, durable: Record<string, unknown> = {}): Promise<Rig> {
  return startRig({
    mode: "jetstream",
    prepare: (operator) => operator.addDurable(ACK_WAIT_MS, durable),
    ...options,
  });
}

/** What counts where work must not be done twice. */
async function pool(rig: Rig): Promise<{ unsettled: number; redelivered: number }> {
  const { num_ack_pending, num_redelivered } = await rig.operator.consumer();
  return { unsettled: num_ack_pending, redelivered: num_redelivered };
}

/** Holds every request for `path` until `go` is called, then answers its number: 1 and up. */
function hold(rig: Rig, path: string): { go: () => void } {
  const gate = Promise.withResolvers<void>();
  rig.upstream.route(path, async (_, connection) => {
    const number = rig.upstream.requestsFor(path).length;
    await gate.promise;
    await connection.write(answer(`run ${number}`));
  });
  return { go: gate.resolve };
}

/** The receiver that works on the only request there is. */
async function ownerOf(rig: Rig): Promise<{ owner: Natsway; other: Natsway }> {
  const [one, two] = rig.receivers;
  assert.ok(one !== undefined && two !== undefined);
  return await liveFlows(one) === 1 ? { owner: one, other: two } : { owner: two, other: one };
}

const notRun = (event: LogEvent) =>
  event.message === "flow closed" && /^not run/.test(String(event["detail"] ?? event["error"]));

for (const method of ["POST", "GET"]) {
  Deno.test(`F41 a ${method} that takes three times ack_wait is run once, with two receivers`, async () => {
    await using rig = await start({ receivers: 2 });
    rig.upstream.route("/slow", async (_, connection) => {
      await pause(3 * ACK_WAIT_MS);
      await connection.write(answer("slow"));
    });
    const response = await rig.request("/slow", { method, body: "x", ms: 5 * ACK_WAIT_MS });
    assert.equal(response.status, 200);
    assert.equal(text(response), "slow");
    assert.equal(rig.upstream.requestsFor("/slow").length, 1);
    assert.deepEqual(await pool(rig), { unsettled: 0, redelivered: 0 });
  });
}

Deno.test("F41 kill -9 of the receiver that runs a POST: the client is told, nobody runs it again", async () => {
  await using rig = await start({
    receivers: 2,
    settings: { PEER_TIMEOUT: "3", NATS_RESPONSE_TIMEOUT: "5" },
  });
  const held = hold(rig, "/once");
  const response = rig.request("/once", { method: "POST", body: "x", ms: 20_000 });
  await rig.upstream.request("/once");
  const { owner, other } = await ownerOf(rig);
  owner.kill("SIGKILL");
  const { status } = await response;
  assert.ok(status === 502 || status === 504, `status ${status}`);
  // A redelivery would come after one ack_wait.
  await pause(2 * ACK_WAIT_MS);
  held.go();
  assert.equal(rig.upstream.requestsFor("/once").length, 1);
  assert.deepEqual(await pool(rig), { unsettled: 0, redelivered: 0 });
  assert.equal(other.log.events.filter((event) => event.message === "flow closed").length, 0);
  assert.equal((await rig.request("/after", { method: "POST", body: "x" })).status, 200);
});

Deno.test("F41 kill -9 of the receiver that runs a GET: another one runs it, and its answer arrives", async () => {
  await using rig = await start({ receivers: 2 });
  const held = hold(rig, "/again");
  const response = rig.request("/again", { ms: 30_000 });
  await rig.upstream.request("/again");
  const { owner } = await ownerOf(rig);
  owner.kill("SIGKILL");
  await rig.upstream.request("/again", { from: 1, ms: 3 * ACK_WAIT_MS + 5_000 });
  held.go();
  assert.equal(text(await response), "run 2");
  assert.equal((await rig.operator.consumer()).num_ack_pending, 0);
});

Deno.test("F41 a receiver that stands still between delivery and acknowledgement, for twice ack_wait: one POST", async () => {
  await using rig = await start({ settings: { PEER_TIMEOUT: "60" } });
  const stopped = rig.receiver;
  const held = hold(rig, "/stopped");
  // The pull that is open at the server when its process stops: the request goes there, if the pull
  // does not end before it comes. Then it is run at once by whom nothing has stopped.
  let response: ReturnType<Rig["request"]>;
  for (let tries = 1;; tries++) {
    stopped.kill("SIGSTOP");
    response = rig.request("/stopped", { method: "POST", body: "x", ms: 60_000 });
    const until = performance.now() + ACK_WAIT_MS / 3;
    while ((await pool(rig)).unsettled === 0 && performance.now() < until) await pause(POLL_MS);
    if ((await pool(rig)).unsettled === 1) break;
    assert.ok(tries < 5, "no request was delivered to the receiver that stands still");
    stopped.kill("SIGCONT");
    await rig.upstream.request("/stopped", { from: tries - 1 });
  }
  const before = rig.upstream.requestsFor("/stopped").length;
  const delivered = performance.now();
  await rig.addReceiver();
  await rig.upstream.request("/stopped", { from: before, ms: ACK_WAIT_MS + 10_000 });
  await pause(Math.max(0, delivered + 2 * ACK_WAIT_MS - performance.now()));
  const { mark } = stopped;
  stopped.kill("SIGCONT");
  const closed = await stopped.event(notRun, { from: mark });
  assert.equal(closed["target"], "/stopped");
  held.go();
  assert.equal((await response).status, 200);
  assert.equal(rig.upstream.requestsFor("/stopped").length, before + 1);
  assert.equal((await rig.operator.consumer()).num_ack_pending, 0);
  // What it had was taken from it; it goes on with what is its own.
  await rig.receivers[1]?.[Symbol.asyncDispose]();
  assert.equal((await rig.request("/own", { method: "POST", body: "x" })).status, 200);
});

/** Takes the only slot of the only receiver, so that it pulls nothing, until `go` is called. */
async function fill(rig: Rig): Promise<{ go: () => Promise<void> }> {
  const held = hold(rig, "/filling");
  const filling = rig.request("/filling", { method: "POST", body: "x", ms: 60_000 });
  await rig.upstream.request("/filling");
  return {
    go: async () => {
      held.go();
      assert.equal((await filling).status, 200);
    },
  };
}

Deno.test("requests and sessions that are older than their clients wait are acknowledged and not run", async () => {
  await using rig = await start({
    receiverSettings: { RECEIVER_MAX_INFLIGHT: "1", NATS_RESPONSE_TIMEOUT: "1" },
  });
  await using nats = await NatsClient.connect(rig.nats.port);
  const settlements = await Settlements.open(nats);
  const filled = await fill(rig);
  const session = { host: "127.0.0.1", port: rig.upstream.port, requester_service_id: PEER_ID };
  const calls = [
    (call: PeerCall) => call.envelope(),
    (call: PeerCall) =>
      call.envelope({ payload: { method: "POST", path: "/peer/post", headers: {}, body: "x" } }),
    (call: PeerCall) => call.envelope({ operation: "tcp_stream", payload: session }),
  ].map((make) => {
    const call = new PeerCall(nats);
    return { call, envelope: make(call) };
  });
  const seqs: number[] = [];
  for (const { call, envelope } of calls) seqs.push(await stored(nats, call, envelope));
  await pause(1_500);
  for (const seq of seqs) assert.deepEqual(settlements.of(seq), []);
  const connections = rig.upstream.connections.length;
  await filled.go();
  for (const seq of seqs) {
    await settlements.settled(seq, "+ACK 1");
    assert.deepEqual(settlements.of(seq), ["+ACK 1"]);
  }
  for (const { call } of calls) {
    const begun = call.events.filter(({ type }) =>
      type !== "response_error" && type !== "response_end"
    );
    assert.deepEqual(begun, [], "its client is told of a response");
  }
  assert.deepEqual(rig.upstream.requestsFor("/peer/"), []);
  assert.equal(rig.upstream.connections.length, connections);
  for (const { call } of calls) {
    const closed = await rig.receiver.flowClosed((event) => event["request_id"] === call.id);
    assert.match(String(closed["detail"]), /^not run/);
  }
});

Deno.test("a POST that nobody took in its time is not run by the receiver that comes then", async () => {
  await using rig = await start({
    receivers: 0,
    requesterSettings: { NATS_RESPONSE_TIMEOUT: "1" },
  });
  await using nats = await NatsClient.connect(rig.nats.port);
  const settlements = await Settlements.open(nats);
  const late = await rig.request("/late", { method: "POST", body: "x" });
  assert.equal(late.status, 504);
  const seq = await rig.operator.lastRequest();
  await rig.addReceiver();
  // While it does not know yet how old a request is it gives an unsafe one back.
  await settlements.settled(seq, "+ACK");
  assert.deepEqual(rig.upstream.requestsFor("/late"), []);
  assert.equal((await rig.request("/now", { method: "POST", body: "x" })).status, 200);
});

Deno.test("a request that waits in the stream is served by the receiver that comes in time", async () => {
  await using rig = await start({ receivers: 0 });
  const waiting = ["GET", "POST"].map((method) =>
    rig.request(`/waiting/${method}`, { method, body: "x", ms: 20_000 })
  );
  await rig.addReceiver();
  for (const response of await Promise.all(waiting)) assert.equal(response.status, 200);
});

Deno.test("a request that died with its receiver in every delivery is answered and removed from the stream", async () => {
  await using rig = await start({
    receiverSettings: { RECEIVER_MAX_INFLIGHT: "1" },
    prepare: (operator) => operator.addDurable(1_000),
  });
  await using nats = await NatsClient.connect(rig.nats.port);
  const filled = await fill(rig);
  const before = (await rig.operator.stream()).last_seq;
  const response = rig.request("/doomed", { ms: 30_000 });
  const inbox = `_INBOX.${crypto.randomUUID()}`;
  const taken = await nats.subscribe(inbox);
  let seq = 0;
  const pull = () =>
    nats.publish(
      `$JS.API.CONSUMER.MSG.NEXT.${STREAM}.${DURABLE}`,
      '{"batch":1,"expires":20000000000}',
      { reply: inbox },
    );
  for (let delivery = 1; delivery <= 3; delivery++) {
    await pull();
    const message = await taken.find(({ reply }) => reply.includes(`.${DURABLE}.${delivery}.`), {
      ms: 20_000,
      what: `delivery ${delivery}`,
    });
    seq = Number(message.reply.split(`.${DURABLE}.${delivery}.`)[1]?.split(".")[0]);
  }
  assert.ok(seq > before, `message ${seq} behind ${before}`);
  // The server notices when it is asked for one more.
  await pull();
  const refused = await response;
  assert.equal(refused.status, 502);
  assert.equal(json(refused)["code"], "peer_lost");
  const removed = await rig.receiver.event((event) => event["stream_seq"] === seq);
  assert.match(removed.message, /removed/);
  await filled.go();
  assert.deepEqual(rig.upstream.requestsFor("/doomed"), []);
  assert.equal((await rig.operator.consumer()).num_ack_pending, 0);
  await assert.rejects(rig.operator.message(seq), /no message found/);
});
