import assert from "node:assert/strict";
import { latin1, octets, pattern } from "../helpers/bytes.ts";
import { jsonOf, NatsClient } from "../helpers/nats_client.ts";
import { newId, PeerCall } from "../helpers/nats_peer.ts";
import { type Rig, startRig } from "../helpers/rig.ts";
import { DURABLE, STREAM } from "../helpers/stream_operator.ts";
import { answer } from "../helpers/upstream.ts";
import { pause, within } from "../helpers/wait.ts";
import { flowsGone } from "./flows.ts";
import { Settlements, stored } from "./settlements.ts";
import { OPEN_PROXY } from "./tunnels.ts";
import { Witnesses } from "./witnesses.ts";

/** With NATSWAY_TEST_FULL=1 the default of the consumer. */
const FULL = Deno.env.get("NATSWAY_TEST_FULL") === "1";
const MAX_ACK_PENDING = FULL ? 200 : 20;
const TEN_MORE = 10;

/** Waits until nothing is unsettled. */
async function allSettled(rig: Rig, ms = 5_000): Promise<void> {
  const until = performance.now() + ms;
  for (;;) {
    const { num_ack_pending } = await rig.operator.consumer();
    if (num_ack_pending === 0) return;
    if (performance.now() > until) throw new Error(`num_ack_pending is ${num_ack_pending}`);
    await pause(50);
  }
}

Deno.test(`F43 ${MAX_ACK_PENDING} tunnels and streams, as many as may be unacknowledged, and ten more: a GET is answered`, async () => {
  await using rig = await startRig({
    mode: "jetstream",
    requesterSettings: OPEN_PROXY,
    prepare: (operator) => operator.addDurable(60_000, { max_ack_pending: MAX_ACK_PENDING }),
  });
  {
    await using witnesses = new Witnesses(rig.port, rig.upstream);
    for (let i = 0; i < MAX_ACK_PENDING + TEN_MORE; i++) {
      if (i % 2 === 0) await witnesses.idleTunnel();
      else await witnesses.stream();
    }
    await allSettled(rig);
    for (const method of ["GET", "POST"]) {
      assert.equal((await rig.request("/plain", { method, body: "x" })).status, 200);
    }
  }
  await flowsGone([rig.requester, rig.receiver]);
  await allSettled(rig);
  assert.equal((await rig.operator.consumer()).num_redelivered, 0);
});

/** Stands in poison so that a log line that shows what was in the message is found. */
const MARK = "POISON-7f3a";

/** F44, and what else no receiver of today can read. */
const POISON: Record<string, (call: PeerCall) => unknown> = {
  "16 random octets": () => crypto.getRandomValues(new Uint8Array(16)),
  "octets that are no text": () => Uint8Array.of(...octets(MARK), ...pattern(64)),
  "an empty object": () => ({}),
  "an array": () => [MARK],
  "an envelope of a future version": (call) => ({
    v: 99,
    type: "request.v99",
    id: call.id,
    target: { authority: `${MARK}.test` },
    natsway: { v: 99, instance: MARK },
  }),
  "a future envelope that names its reply": (call) =>
    call.envelope({ type: "request.v99", payload: { secret: MARK } }),
  "an operation of the future": (call) =>
    call.envelope({ operation: `fax-${MARK}`, payload: { secret: MARK } }),
};

Deno.test("F44 poison is terminated after one delivery, counted and logged without its content, and disturbs nothing", async () => {
  await using rig = await startRig({
    mode: "jetstream",
    receivers: 2,
    // Short enough that what is not settled would come again.
    prepare: (operator) => operator.addDurable(2_000),
  });
  await using nats = await NatsClient.connect(rig.nats.port);
  const settlements = await Settlements.open(nats);
  const terminated = await nats.subscribe(
    `$JS.EVENT.ADVISORY.CONSUMER.MSG_TERMINATED.${STREAM}.${DURABLE}`,
  );
  const stop = new AbortController();
  const load = (async () => {
    let served = 0;
    while (!stop.signal.aborted) {
      const method = served % 2 === 0 ? "GET" : "POST";
      const { status } = await rig.request(`/load/${served}`, { method, body: "x" });
      assert.equal(status, 200);
      served++;
    }
    return served;
  })();
  const seqs = new Map<string, number>();
  try {
    for (const [name, make] of Object.entries(POISON)) {
      const call = new PeerCall(nats);
      seqs.set(name, await stored(nats, call, make(call)));
    }
    for (const [name, seq] of seqs) {
      await settlements.settled(seq, "+TERM 1");
      const advisory = await terminated.find(
        (message) => jsonOf(message)["stream_seq"] === seq,
        { ms: 5_000, what: `the advisory for ${name}` },
      );
      assert.equal(jsonOf(advisory)["deliveries"], 1);
    }
    await pause(3_000);
    for (const [name, seq] of seqs) {
      assert.deepEqual(settlements.of(seq), ["+TERM 1"], name);
    }
  } finally {
    stop.abort();
  }
  assert.ok(await load > 0, "no load was running");
  assert.ok(rig.receivers.every((receiver) => receiver.running));
  const logs = rig.receivers.map((receiver) => receiver.stderr).join("");
  assert.doesNotMatch(logs, new RegExp(MARK));
  assert.doesNotMatch(logs, /Uncaught|unhandled/i);
  const dropped = rig.receivers.flatMap(({ log }) =>
    log.events.filter(({ message }) => message === "request message dropped")
  );
  assert.equal(dropped.length, seqs.size, logs);
  await allSettled(rig);
});

Deno.test("two receivers share what is to be done at once: none waits while the other has a free slot", async () => {
  const SLOTS = 4;
  await using rig = await startRig({
    mode: "jetstream",
    receivers: 2,
    receiverSettings: { RECEIVER_MAX_INFLIGHT: String(SLOTS) },
  });
  const go = Promise.withResolvers<void>();
  rig.upstream.route("/held/", async (_, connection) => {
    await go.promise;
    await connection.write(answer("held"));
  });
  const [one, two] = rig.receivers;
  assert.ok(one !== undefined && two !== undefined);
  // Half as many again as there are slots: the rest waits in the stream and is not refused.
  const all = Array.from({ length: 3 * SLOTS }, (_, i) =>
    rig.request(`/held/${i}`, {
      ...(i % 2 === 0 ? {} : { method: "POST", body: "x" }),
      ms: 30_000,
    }));
  await within(
    (async () => {
      while (rig.upstream.requestsFor("/held/").length < 2 * SLOTS) await pause(20);
    })(),
    10_000,
    "as many requests at the upstream as there are slots",
  );
  await pause(500);
  assert.equal(rig.upstream.requestsFor("/held/").length, 2 * SLOTS);
  assert.equal((await rig.operator.consumer()).num_pending, SLOTS);
  go.resolve();
  for (const response of await Promise.all(all)) assert.equal(response.status, 200);
  await allSettled(rig);
});

Deno.test("two receivers share what comes one by one, and a stopped one's share goes to the other", async () => {
  await using rig = await startRig({ mode: "jetstream", receivers: 2 });
  const ALL = 60;
  for (let i = 0; i < ALL; i++) assert.equal((await rig.request(`/turn/${i}`)).status, 200);
  const shares = rig.receivers.map(({ log }) =>
    log.events.filter(({ message }) => message === "flow closed").length
  );
  for (const share of shares) assert.ok(share >= ALL / 4, `shares ${shares} of ${ALL}`);
  await rig.receiver[Symbol.asyncDispose]();
  for (let i = 0; i < 10; i++) assert.equal((await rig.request(`/rest/${i}`)).status, 200);
});

Deno.test("the stream's answers go back to the requester that asked, among several", async () => {
  await using rig = await startRig({ mode: "jetstream" });
  await using nats = await NatsClient.connect(rig.nats.port);
  const calls = Array.from({ length: 20 }, () => new PeerCall(nats, newId()));
  await Promise.all(calls.map((call) => stored(nats, call, call.envelope())));
  for (const call of calls) {
    const [start, chunk] = await call.answered();
    assert.equal(start?.["request_id"], call.id);
    assert.equal(chunk?.["body"], `GET /peer/${call.id}`);
  }
  assert.equal(latin1((await rig.request("/own")).body), "GET /own");
});
