import assert from "node:assert/strict";
import { backendSettings, startBackend } from "../helpers/backend.ts";
import { request, requestOctets } from "../helpers/client.ts";
import { json, one, text } from "../helpers/http_message.ts";
import { coreTest, MODE } from "../helpers/mode.ts";
import { freePort } from "../helpers/nats_server.ts";
import { type Natsway, startNatsway } from "../helpers/natsway.ts";
import { startRig } from "../helpers/rig.ts";
import { startUpstream } from "../helpers/upstream.ts";
import { pause } from "../helpers/wait.ts";

/** With NATSWAY_TEST_FULL=1 the rows run for their own durations (tests/cases/README.md). */
const FULL = Deno.env.get("NATSWAY_TEST_FULL") === "1";
/** F39: how long NATS stays away. */
const OUTAGE_MS = FULL ? 60_000 : 6_000;
const RESTARTS = FULL ? 10 : 3;
const RESTART_PAUSE_MS = FULL ? 3_000 : 1_000;
/** F39: from NATS being back to the first request that succeeds. */
const RECOVERY_MS = 5_000;
/** What is published before the first receiver of a new stream has made its consumer is lost. */
const LOSES = MODE === "jetstream";
/** "At once", with room for a busy machine. */
const AT_ONCE_MS = 1_000;

/** Expects 503 with this code, at once. */
async function refusedWith(port: number, code: string, ms = AT_ONCE_MS): Promise<void> {
  const started = performance.now();
  const response = await request(port, "/refused");
  const took = performance.now() - started;
  assert.equal(response.status, 503);
  assert.equal(one(response, "content-type")?.split(";")[0], "application/json");
  const body = json(response);
  assert.equal(body["code"], code, text(response));
  assert.equal(body["error"], "Service Unavailable");
  assert.ok(took < ms, `answered after ${took} ms`);
}

async function readiness(natsway: Natsway): Promise<{ status: number; body: unknown }> {
  const response = await request(natsway.port, "/observability/ready");
  return { status: response.status, body: json(response) };
}

/** Asks until a request succeeds; fails when that takes longer than `ms`. */
async function succeedsWithin(port: number, ms: number): Promise<void> {
  const started = performance.now();
  let last = "";
  while (performance.now() - started < ms) {
    const response = await request(port, "/again");
    if (response.status === 200) return;
    last = `${response.status} ${text(response)}`;
    assert.ok(response.status === 503 || (response.status === 504 && LOSES), last);
    await pause(50);
  }
  throw new Error(`no success within ${ms} ms, last answer ${last}`);
}

Deno.test("F39 both roles may be started before NATS exists and serve once it does", async () => {
  const port = freePort();
  await using upstream = await startUpstream();
  const url = `nats://127.0.0.1:${port}`;
  const settings = { NATS_URL: url, NATS_RESPONSE_TIMEOUT: "1", ...backendSettings() };
  await using requester = await startNatsway("requester", settings, { waitFor: "listening" });
  await using receiver = await startNatsway(
    "receiver",
    { ...settings, UPSTREAM_URL: upstream.url },
    { waitFor: "listening" },
  );
  await refusedWith(requester.port, "nats_down");
  for (const role of [requester, receiver]) {
    const ready = await readiness(role);
    assert.equal(ready.status, 503, role.role);
    const reason = (ready.body as Record<string, unknown>)["reason"];
    assert.ok(typeof reason === "string" && reason !== "", JSON.stringify(ready.body));
  }
  await using _nats = await startBackend({ port });
  await succeedsWithin(requester.port, RECOVERY_MS);
  await requester.event("ready");
  await receiver.event("ready");
  assert.equal((await readiness(requester)).status, 200);
  assert.equal((await readiness(receiver)).status, 200);
});

coreTest(
  "a stream keeps a request until somebody comes",
  "F37 a request is refused at once while no receiver is there, and served when one comes",
  async () => {
    await using rig = await startRig({ receivers: 0 });
    await refusedWith(rig.port, "no_receiver", 2_000);
    await using _receiver = await startNatsway("receiver", rig.receiverSettings);
    const response = await rig.request("/now");
    assert.equal(text(response), "GET /now");
  },
);

Deno.test("F39 while NATS is away requests are refused at once; when it is back they succeed", async () => {
  await using rig = await startRig();
  assert.equal((await rig.request("/before")).status, 200);
  const marks = { requester: rig.requester.mark, receiver: rig.receiver.mark };
  await rig.nats.stop();
  await rig.requester.event("not ready", { from: marks.requester });
  await rig.receiver.event("not ready", { from: marks.receiver });
  const until = performance.now() + OUTAGE_MS;
  while (performance.now() < until) {
    await refusedWith(rig.port, "nats_down");
    assert.equal((await readiness(rig.requester)).status, 503);
    assert.equal((await readiness(rig.receiver)).status, 503);
    await pause(500);
  }
  await rig.nats.restart();
  await succeedsWithin(rig.port, RECOVERY_MS);
  await rig.requester.event("ready", { from: marks.requester });
  assert.equal((await readiness(rig.requester)).status, 200);
});

Deno.test("F39 NATS restarted again and again: each time requests succeed within the bound", async () => {
  await using rig = await startRig({ receivers: 2 });
  for (let i = 0; i < RESTARTS; i++) {
    await rig.nats.restart();
    await succeedsWithin(rig.port, RECOVERY_MS);
    await pause(RESTART_PAUSE_MS);
  }
  assert.ok(rig.requester.running && rig.receivers.every((receiver) => receiver.running));
  // Both receivers are back in the pool: stopping either must not matter.
  await rig.receiver[Symbol.asyncDispose]();
  assert.equal((await rig.request("/other")).status, 200);
});

Deno.test("with several NATS URLs the first that answers is used", async () => {
  const dead = freePort();
  await using rig = await startRig({ receivers: 0 });
  const urls = `nats://127.0.0.1:${dead},${rig.nats.url}`;
  await using requester = await startNatsway("requester", {
    ...rig.requesterSettings,
    NATS_URL: urls,
  });
  await using _receiver = await startNatsway("receiver", {
    ...rig.receiverSettings,
    NATS_URL: urls,
  });
  const response = await request(requester.port, "/several");
  assert.equal(text(response), "GET /several");
});

Deno.test("with a ws:// URL the bridge runs over WebSocket", async () => {
  const port = freePort();
  await using rig = await startRig({
    natsConfig: `websocket { listen: "127.0.0.1:${port}", no_tls: true }`,
    settings: { NATS_URL: `ws://127.0.0.1:${port}` },
  });
  assert.equal(text(await rig.request("/ws")), "GET /ws");
  const connected = await rig.requester.event("connected to NATS");
  assert.equal(connected["server"], `127.0.0.1:${port}`);
});

Deno.test(`NATS_MODE=auto resolves to what the server has: ${MODE}`, async () => {
  await using rig = await startRig({ settings: { NATS_MODE: "auto" } });
  assert.equal((await rig.request("/auto")).status, 200);
  const nats = json(await rig.request("/observability/nats"));
  assert.equal(nats["backend"], MODE);
});

Deno.test("a request that runs while NATS goes away for longer than PEER_TIMEOUT ends visibly, never as a clean end", async () => {
  await using rig = await startRig({ settings: { PEER_TIMEOUT: "3" } });
  rig.upstream.route("/half", async (_, connection) => {
    await connection.write("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n0123456789");
    await connection.waitEnd(60_000);
  });
  await using client = await rig.connect();
  await client.send(requestOctets("/half"));
  await client.socket.readUntil("0123456789");
  await rig.nats.stop();
  const end = await client.socket.waitEnd(15_000);
  assert.ok(end === "fin" || end === "reset");
  assert.equal(client.socket.receivedBytes, client.socket.transcript.length);
  const closed = await rig.requester.flowClosed((event) => event["code"] !== "ok");
  assert.equal(closed["code"], "nats_down");
  assert.ok(rig.requester.running);
});
