import assert from "node:assert/strict";
import { request } from "../helpers/client.ts";
import { json, text } from "../helpers/http_message.ts";
import type { Natsway } from "../helpers/natsway.ts";
import { type Rig, startRig } from "../helpers/rig.ts";
import { DURABLE, STREAM, type StreamOperator, SUBJECTS } from "../helpers/stream_operator.ts";
import { pause } from "../helpers/wait.ts";
import { flowsGone } from "./flows.ts";
import { checkStream, OPEN_PROXY, openTunnel, sendStream } from "./tunnels.ts";

/** F42: from the disturbance to service as before. */
const HEALED_MS = 15_000;
const REQUESTER_ID = "edge-1";
const RECEIVER_ID = "rec-1";
/** Why a role without its stream is not ready. */
const NO_STREAM = new RegExp(`consumer ${DURABLE}\\S* of stream ${STREAM} .*no such stream`);
/** How long the light load pauses between requests. */
const LOAD_PAUSE_MS = 50;

function start(
  streamSubjects: readonly string[] | null = SUBJECTS,
  prepare: (operator: StreamOperator) => Promise<void> = () => Promise.resolve(),
): Promise<Rig> {
  return startRig({
    mode: "jetstream",
    streamSubjects,
    prepare,
    // What is lost with a stream must not hold the load for long.
    settings: { NATS_RESPONSE_TIMEOUT: "3" },
    requesterSettings: { ...OPEN_PROXY, SERVICE_ID: REQUESTER_ID },
    receiverSettings: { SERVICE_ID: RECEIVER_ID },
  });
}

/** Requests one after the other; what they end with is for the test. */
class LightLoad implements AsyncDisposable {
  #stopped = false;
  readonly #running: Promise<void>;
  #inARow = 0;
  /** Answers that were no 200, by what they were. */
  readonly failures = new Map<string, number>();

  constructor(rig: Rig) {
    this.#running = this.#run(rig);
  }

  /** Resolves once ten requests in a row have succeeded. @throws {Error} not within `ms` */
  async steady(ms: number): Promise<void> {
    const until = performance.now() + ms;
    this.#inARow = 0;
    while (this.#inARow < 10) {
      if (performance.now() > until) {
        throw new Error(`no service after ${ms} ms: ${JSON.stringify([...this.failures])}`);
      }
      await pause(LOAD_PAUSE_MS);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stopped = true;
    await this.#running;
  }

  async #run(rig: Rig): Promise<void> {
    for (let i = 0; !this.#stopped; i++) {
      const parts = i % 2 === 0 ? {} : { method: "POST", body: "x" };
      const response = await rig.request(`/load/${i}`, { ...parts, ms: 10_000 });
      if (response.status === 200) this.#inARow++;
      else {
        this.#inARow = 0;
        const what = `${response.status} ${json(response)["code"]}`;
        this.failures.set(what, (this.failures.get(what) ?? 0) + 1);
      }
      await pause(LOAD_PAUSE_MS);
    }
  }
}

async function readiness(role: Natsway): Promise<{ ready: boolean; reason: string }> {
  const response = await request(role.port, "/observability/ready");
  const body = json(response);
  assert.equal(response.status, body["ready"] === true ? 200 : 503);
  return { ready: body["ready"] === true, reason: String(body["reason"] ?? "") };
}

/** Waits until the role says that it is ready: its last consumer may need longer than its first. */
async function isReady(role: Natsway): Promise<void> {
  const until = performance.now() + HEALED_MS;
  for (;;) {
    const { ready, reason } = await readiness(role);
    if (ready) return;
    assert.ok(performance.now() < until, reason);
    await pause(LOAD_PAUSE_MS);
  }
}

/** Waits until the role says that it is not ready, for a reason like that, in its page and its log. */
async function saysWhy(role: Natsway, from: number, reason: RegExp): Promise<void> {
  const line = await role.event(
    (event) => /not in service/.test(event.message) && reason.test(String(event["error"])),
    { from, ms: HEALED_MS },
  );
  assert.equal(line["stream"], STREAM);
  // The page names one of the consumers; the last of them may have been looked for a moment later.
  const until = performance.now() + HEALED_MS;
  for (;;) {
    const page = await readiness(role);
    assert.equal(page.ready, false);
    if (reason.test(page.reason)) return;
    assert.ok(performance.now() < until, page.reason);
    await pause(LOAD_PAUSE_MS);
  }
}

/** A tunnel that lives through the row. */
async function tunnelThrough(rig: Rig, disturb: () => Promise<void>): Promise<void> {
  const BYTES = 4 * 1_048_576;
  const over = Promise.withResolvers<void>();
  rig.upstream.route("/through", async (_, connection) => {
    await checkStream(connection, 1, BYTES, { ms: 2 * HEALED_MS });
    await sendStream(connection, 2, BYTES);
    await connection.waitEnd(HEALED_MS);
    return "close";
  });
  await using socket = await openTunnel(rig.port, rig.upstream.port);
  await socket.write("GET /through HTTP/1.1\r\nHost: a.test\r\n\r\n");
  const sending = sendStream(socket, 1, BYTES, {
    before: (sent) => sent >= BYTES / 2 && sent < BYTES / 2 + 65_536 ? over.promise : undefined,
  });
  await disturb();
  over.resolve();
  await sending;
  await checkStream(socket, 2, BYTES, { ms: 2 * HEALED_MS });
}

/** What an operator or an accident does while work goes on. The roles find it out by themselves. */
const ROWS: Record<string, (rig: Rig) => Promise<void>> = {
  "the receivers' durable is deleted": (rig) => rig.operator.deleteConsumer(),
  "the receivers' durable is deleted and made anew by an operator": async (rig) => {
    await rig.operator.deleteConsumer();
    // A receiver may have been faster: then there is one already.
    await rig.operator.addDurable(5_000).catch(() => {});
  },
  "the requester's response consumer is deleted": (rig) =>
    rig.operator.deleteConsumer(`${DURABLE}-responses-${REQUESTER_ID}`),
  "the requester's session consumer is deleted": (rig) =>
    rig.operator.deleteConsumer(`${DURABLE}-sessions-downstream-${REQUESTER_ID}`),
  "the receiver's session, control and cancel consumers are deleted": async (rig) => {
    for (const plane of ["sessions-upstream", "control", "cancel", "cancel-pool"]) {
      await rig.operator.deleteConsumer(`${DURABLE}-${plane}-${RECEIVER_ID}`);
    }
  },
  "the stream is deleted and made anew": async (rig) => {
    await rig.operator.deleteStream();
    await rig.operator.addStream();
  },
  "nats-server is restarted with its store": (rig) => rig.nats.restart(),
  "nats-server is killed and comes back with its store": async (rig) => {
    await rig.nats.kill("SIGKILL");
    await rig.nats.restart();
  },
  "nats-server comes back without its store, and the stream is made anew": async (rig) => {
    await rig.nats.stop();
    await rig.nats.loseStore();
    await rig.nats.restart();
    await rig.operator.addStream();
  },
};

for (const [what, disturb] of Object.entries(ROWS)) {
  Deno.test(`F42 ${what}: in service again within 15 s, and a tunnel lives on`, async () => {
    await using rig = await start();
    await using load = new LightLoad(rig);
    await load.steady(HEALED_MS);
    await tunnelThrough(rig, async () => {
      await disturb(rig);
      await load.steady(HEALED_MS);
      for (const role of [rig.requester, rig.receiver]) await isReady(role);
    });
    // Nobody is told anything that is not so: only what the stream has lost times out.
    for (const failure of load.failures.keys()) {
      assert.match(failure, /^(503 nats_down|504 response_timeout|502 peer_lost)$/);
    }
    await load[Symbol.asyncDispose]();
    await flowsGone([rig.requester, rig.receiver]);
    assert.ok(rig.requester.running && rig.receiver.running);
  });
}

Deno.test("F42 a stream of memory is lost with a restart: not ready until it is made anew, then in service within 15 s", async () => {
  await using rig = await start(null, async (operator) => {
    await operator.addStream(SUBJECTS, { storage: "memory" });
  });
  assert.equal((await rig.request("/before")).status, 200);
  const marks = [rig.requester, rig.receiver].map((role) => [role, role.mark] as const);
  await rig.nats.restart();
  for (const [role, from] of marks) {
    await saysWhy(role, from, NO_STREAM);
  }
  await rig.operator.addStream(SUBJECTS, { storage: "memory" });
  await using load = new LightLoad(rig);
  await load.steady(HEALED_MS);
  for (const [role] of marks) await isReady(role);
});

Deno.test("F42 while the stream is away both roles are not ready and name stream and consumer; requests are refused at once", async () => {
  await using rig = await start();
  assert.equal((await rig.request("/before")).status, 200);
  const marks = [rig.requester, rig.receiver].map((role) => [role, role.mark] as const);
  await rig.operator.deleteStream();
  for (const [role, from] of marks) {
    await saysWhy(role, from, NO_STREAM);
  }
  const started = performance.now();
  const refused = await rig.request("/away");
  assert.equal(refused.status, 503);
  assert.equal(json(refused)["code"], "nats_down");
  assert.ok(performance.now() - started < 1_000, "not refused at once");
  const back = performance.now();
  await rig.operator.addStream();
  for (const [role, from] of marks) await role.event("ready", { from, ms: HEALED_MS });
  assert.equal(text(await rig.request("/after")), "GET /after");
  assert.ok(performance.now() - back < HEALED_MS);
  const line = rig.receiver.log.events.find((event) =>
    event.message === "JetStream consumer not in service" && event["consumer"] === DURABLE
  );
  assert.equal(line?.["stream"], STREAM);
});

Deno.test("both roles may be started before there is a stream, and serve within 15 s once there is", async () => {
  await using rig = await startRig({
    mode: "jetstream",
    streamSubjects: null,
    waitFor: "listening",
  });
  for (const role of [rig.requester, rig.receiver]) {
    await saysWhy(role, 0, NO_STREAM);
  }
  await rig.operator.addStream();
  for (const role of [rig.requester, rig.receiver]) await role.event("ready", { ms: HEALED_MS });
  assert.equal((await rig.request("/first")).status, 200);
});

Deno.test("a stream whose subjects hold nothing of the roles: not ready, naming both; in service once they do", async () => {
  await using rig = await startRig({
    mode: "jetstream",
    streamSubjects: ["other.>"],
    waitFor: "listening",
  });
  for (const role of [rig.requester, rig.receiver]) {
    await saysWhy(role, 0, /other\.>.*(to|from)\.proxy/);
  }
  await rig.operator.updateStream(SUBJECTS);
  for (const role of [rig.requester, rig.receiver]) await role.event("ready", { ms: HEALED_MS });
  assert.equal((await rig.request("/first")).status, 200);
});
