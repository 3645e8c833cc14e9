import assert from "node:assert/strict";
import { pattern, sha256 } from "../helpers/bytes.ts";
import { json, text } from "../helpers/http_message.ts";
import { type Rig, startRig } from "../helpers/rig.ts";
import { answer } from "../helpers/upstream.ts";

const KIB = 1024;
const SMALL = 64 * KIB;
const LARGE = 1024 * KIB;
const BODY_BYTES = 5 * LARGE;
const HEAD_BYTES = 70 * KIB;
const BESIDE = 10;

function routes({ upstream }: Rig): void {
  const body = pattern(BODY_BYTES);
  upstream.route("/with-length", (_, connection) => connection.write(answer(body)));
  upstream.route("/without-length", async (_, connection) => {
    await connection.write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
    for (let at = 0; at < body.length; at += 100_000) {
      const piece = body.subarray(at, at + 100_000);
      await connection.write(`${piece.length.toString(16)}\r\n`);
      await connection.write(piece);
      await connection.write("\r\n");
    }
    await connection.write("0\r\n\r\n");
  });
  upstream.route("/until-close", async (_, connection) => {
    await connection.write("HTTP/1.1 200 OK\r\n\r\n");
    await connection.write(body);
    return "close";
  });
  upstream.route(
    "/long-head",
    (_, connection) =>
      connection.write(answer("ok", { fields: [`X-Long: ${"0".repeat(HEAD_BYTES)}`] })),
  );
}

/** Answers of `path`, whole and octet by octet. */
async function assertBody(rig: Rig, path: string): Promise<void> {
  const response = await rig.request(path, { ms: 30_000, collect: false });
  assert.equal(response.status, 200);
  assert.equal(response.complete, true);
  assert.equal(response.bodyBytes, BODY_BYTES);
  assert.equal(response.bodySha256, sha256(pattern(BODY_BYTES)), path);
}

/** The servers' and the processes' word that no connection was ever lost. */
async function assertConnected(rig: Rig): Promise<void> {
  assert.doesNotMatch(rig.nats.log, /maximum payload|slow consumer|protocol (error|violation)/i);
  for (const role of [rig.requester, ...rig.receivers]) {
    assert.ok(!role.log.events.some((event) => event.message === "not ready"), role.described(""));
  }
  const page = json(await rig.request("/observability/nats"));
  assert.equal((page["connection"] as Record<string, unknown>)["reconnects"], 0);
}

for (const receivers of [1, 2] as const) {
  for (const [name, maxPayload] of [["1 MiB", LARGE], ["64 KiB", SMALL]] as const) {
    Deno.test(`F38 max_payload ${name}: bodies whole, large heads refused, with receivers: ${receivers}`, async () => {
      await using rig = await startRig({
        receivers,
        natsConfig: `max_payload: ${maxPayload}\n`,
        // So that max_payload is the bound, not the head limit.
        settings: { MAX_HEADER_BYTES: String(128 * KIB) },
      });
      routes(rig);
      let going = true;
      let served = 0;
      const beside = Promise.all(Array.from({ length: BESIDE }, async () => {
        while (going) {
          const response = await rig.request("/beside");
          assert.equal(response.status, 200, text(response));
          served++;
        }
      }));
      try {
        for (const path of ["/with-length", "/without-length", "/until-close"]) {
          await assertBody(rig, path);
        }
        const longRequest = await rig.request("/long", {
          fields: [`X-Long: ${"0".repeat(HEAD_BYTES)}`],
        });
        const longAnswer = await rig.request("/long-head");
        if (maxPayload === SMALL) {
          assert.equal(longRequest.status, 431, text(longRequest));
          assert.match(text(longRequest), /max_payload of 65536/);
          assert.equal(longAnswer.status, 502, text(longAnswer));
          assert.match(text(longAnswer), /max_payload \(65536\)/);
          assert.deepEqual(rig.upstream.requestsFor("/long").map((seen) => seen.target), [
            "/long-head",
          ]);
        } else {
          assert.equal(longRequest.status, 200, text(longRequest));
          assert.equal(longAnswer.status, 200, text(longAnswer));
        }
      } finally {
        going = false;
        await beside;
      }
      assert.ok(served >= BESIDE, `${served} requests beside`);
      await assertConnected(rig);
    });
  }
}
