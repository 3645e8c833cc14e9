import assert from "node:assert/strict";
import { caseFile } from "../helpers/bytes.ts";
import { RawClient, requestOctets } from "../helpers/client.ts";
import { text } from "../helpers/http_message.ts";
import { startRig } from "../helpers/rig.ts";
import { pause } from "../helpers/wait.ts";

/** With NATSWAY_TEST_FULL=1 the default limits and the pauses of the case. */
const FULL = Deno.env.get("NATSWAY_TEST_FULL") === "1";
const CONNECTIONS = 500;
const HEADER_TIMEOUT_MS = FULL ? 10_000 : 3_000;
const KEEPALIVE_TIMEOUT_MS = FULL ? 75_000 : 4_000;
const DRIP_MS = FULL ? 5_000 : 500;
/** Room for a busy machine: 1000 connections end at nearly the same time. */
const SLACK_MS = 4_000;
/** A normal request beside them. */
const SERVED_MS = 5_000;

for (const receivers of [1, 2] as const) {
  Deno.test(`F60 ${CONNECTIONS} heads that trickle in and ${CONNECTIONS} idle connections are closed in time, with receivers: ${receivers}`, async () => {
    const settings = FULL ? {} : {
      HEADER_TIMEOUT: String(HEADER_TIMEOUT_MS / 1000),
      KEEPALIVE_TIMEOUT: String(KEEPALIVE_TIMEOUT_MS / 1000),
    };
    await using rig = await startRig({ receivers, requesterSettings: settings });
    let going = true;
    let served = 0;
    const normal = (async () => {
      while (going) {
        const started = performance.now();
        assert.equal((await rig.request(`/normal/${served}`)).status, 200);
        const ms = performance.now() - started;
        assert.ok(ms < SERVED_MS, `a normal request took ${ms} ms`);
        served++;
        await pause(50);
      }
    })();
    const idle = closedInTime(CONNECTIONS, KEEPALIVE_TIMEOUT_MS, async () => {
      const client = await rig.connect();
      const response = await client.exchange(requestOctets("/idle"), { ms: 30_000 });
      assert.equal(text(response), "GET /idle");
      return { client, startedMs: performance.now(), drip: false };
    });
    const slow = closedInTime(CONNECTIONS, HEADER_TIMEOUT_MS, async () => {
      const client = await rig.connect();
      const startedMs = performance.now();
      await client.send(caseFile("F60-partial-head.http"));
      return { client, startedMs, drip: true };
    });
    try {
      for (const transcript of await slow) assert.match(transcript, /^(HTTP\/1\.1 408 |$)/);
      for (const transcript of await idle) {
        assert.ok(transcript.endsWith("GET /idle"), "octets behind the whole exchange");
      }
    } finally {
      going = false;
      await normal;
    }
    assert.ok(served >= 10, `${served} normal requests`);
    assert.deepEqual(rig.upstream.requestsFor("/f60"), []);
  });
}

interface Opened {
  readonly client: RawClient;
  readonly startedMs: number;
  /** An octet more every DRIP_MS. */
  readonly drip: boolean;
}

/** Opens connections, waits until all of them have been closed, `ms` after their start, each. */
async function closedInTime(
  count: number,
  ms: number,
  open: () => Promise<Opened>,
): Promise<string[]> {
  const one = async (): Promise<string> => {
    const { client, startedMs, drip } = await open();
    await using _ = client;
    let closed = false;
    const dripping = (async () => {
      while (drip && !closed) {
        await pause(DRIP_MS);
        if (!closed) await client.send("x").catch(() => {});
      }
    })();
    await client.socket.waitEnd(ms + 2 * SLACK_MS);
    const tookMs = performance.now() - startedMs;
    closed = true;
    await dripping;
    assert.ok(tookMs > ms - 500, `closed after ${tookMs} ms already`);
    assert.ok(tookMs < ms + SLACK_MS, `closed after ${tookMs} ms only`);
    return new TextDecoder().decode(client.socket.transcript);
  };
  return await Promise.all(Array.from({ length: count }, one));
}
