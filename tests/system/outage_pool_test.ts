import assert from "node:assert/strict";
import { backendSettings, startBackend } from "../helpers/backend.ts";
import { request } from "../helpers/client.ts";
import { json, text } from "../helpers/http_message.ts";
import { coreTest, MODE } from "../helpers/mode.ts";
import { freePort } from "../helpers/nats_server.ts";
import { type Natsway, startNatsway } from "../helpers/natsway.ts";
import { type Rig, startRig } from "../helpers/rig.ts";
import { startUpstream } from "../helpers/upstream.ts";
import { pause } from "../helpers/wait.ts";

/** With NATSWAY_TEST_FULL=1 the numbers of the case. */
const FULL = Deno.env.get("NATSWAY_TEST_FULL") === "1";
const OUTAGE_MS = FULL ? 60_000 : 3_000;
const RESTARTS = FULL ? 10 : 3;
const RESTART_PAUSE_MS = FULL ? 3_000 : 500;
/** From NATS being back to the first request that succeeds. */
const RECOVERY_MS = 5_000;
const AT_ONCE_MS = 1_000;

/** Asks until a request succeeds; until then only 503 may come. */
async function recovers(port: number): Promise<void> {
  const started = performance.now();
  for (;;) {
    const response = await request(port, "/again");
    if (response.status === 200) return;
    // What is published before the first receiver of a new stream has made its consumer is lost.
    const lost = MODE === "jetstream" && response.status === 504;
    assert.ok(lost || response.status === 503, text(response));
    const ms = performance.now() - started;
    assert.ok(ms < RECOVERY_MS, `after ${ms} ms still ${text(response)}`);
    await pause(50);
  }
}

async function readiness(role: Natsway): Promise<number> {
  return (await request(role.port, "/observability/ready")).status;
}

/** Each receiver alone serves: none is left out of the pool. */
async function eachServes(rig: Rig): Promise<void> {
  for (const receiver of rig.receivers) {
    const others = rig.receivers.filter((other) => other !== receiver);
    for (const other of others) other.kill("SIGSTOP");
    // What NATS gives to one that is stopped waits there; it must not be the only answer.
    const tries = Array.from({ length: 24 }, () => rig.request("/each", { ms: 20_000 }));
    const first = await Promise.any(tries.map(async (one) => {
      const response = await one;
      assert.equal(response.status, 200);
      return response;
    }));
    assert.equal(text(first), "GET /each");
    for (const other of others) other.kill("SIGCONT");
    await Promise.all(tries);
  }
}

for (const receivers of [1, 2] as const) {
  Deno.test(`F39 NATS stopped and started again, with receivers: ${receivers}`, async () => {
    await using rig = await startRig({ receivers });
    const roles = [rig.requester, ...rig.receivers];
    const marks = roles.map((role) => role.mark);
    assert.equal((await rig.request("/before")).status, 200);
    await rig.nats.stop();
    for (const [i, role] of roles.entries()) await role.event("not ready", { from: marks[i]! });
    const until = performance.now() + OUTAGE_MS;
    while (performance.now() < until) {
      const started = performance.now();
      const response = await rig.request("/during");
      assert.ok(performance.now() - started < AT_ONCE_MS, "not refused at once");
      assert.equal(response.status, 503);
      assert.equal(json(response)["code"], "nats_down");
      for (const role of roles) assert.equal(await readiness(role), 503);
      await pause(500);
    }
    await rig.nats.restart();
    await recovers(rig.port);
    for (const [i, role] of roles.entries()) {
      await role.event("ready", { from: marks[i]! });
      assert.equal(await readiness(role), 200);
    }
    await eachServes(rig);
  });

  Deno.test(`F39 NATS restarted ${RESTARTS} times, with receivers: ${receivers}`, async () => {
    await using rig = await startRig({ receivers });
    for (let i = 0; i < RESTARTS; i++) {
      await rig.nats.restart();
      await recovers(rig.port);
      await pause(RESTART_PAUSE_MS);
    }
    assert.ok([rig.requester, ...rig.receivers].every((role) => role.running));
    await eachServes(rig);
  });

  Deno.test(`F39 everything started before NATS exists, with receivers: ${receivers}`, async () => {
    const port = freePort();
    const settings = {
      NATS_URL: `nats://127.0.0.1:${port}`,
      NATS_RESPONSE_TIMEOUT: "1",
      ...backendSettings(),
    };
    await using upstream = await startUpstream();
    await using stack = new AsyncDisposableStack();
    const start = async (role: string, more: Record<string, string>) =>
      stack.use(await startNatsway(role, { ...settings, ...more }, { waitFor: "listening" }));
    const requester = await start("requester", {});
    const roles = [requester];
    for (let i = 0; i < receivers; i++) {
      roles.push(await start("receiver", { UPSTREAM_URL: upstream.url }));
    }
    assert.equal((await request(requester.port, "/early")).status, 503);
    for (const role of roles) assert.equal(await readiness(role), 503);
    await using _nats = await startBackend({ port });
    await recovers(requester.port);
    for (const role of roles) {
      await role.event("ready");
      assert.equal(await readiness(role), 200);
    }
  });
}

coreTest(
  "a stream keeps a request until somebody comes",
  "F37 no receiver: 503 within 2 s, for every method and size, naming what is missing",
  async () => {
    await using rig = await startRig({ receivers: 0 });
    for (
      const parts of [
        {},
        { method: "DELETE" },
        { method: "POST", body: "x" },
        { method: "POST", body: "x".repeat(200_000) },
      ]
    ) {
      const started = performance.now();
      const response = await rig.request("/f37", parts);
      assert.ok(performance.now() - started < 2_000, JSON.stringify(parts).slice(0, 60));
      assert.equal(response.status, 503);
      assert.equal(json(response)["code"], "no_receiver");
      assert.match(text(response), /receiver/i);
    }
  },
);
