import assert from "node:assert/strict";
import { encodeResponseInfo } from "../../lib/protocol/response_info.ts";
import { pattern } from "../helpers/bytes.ts";
import type { MemoryClient } from "../helpers/unit_client.ts";
import { headFrame, RequesterRig } from "../helpers/unit_requester.ts";
import type { Published } from "../helpers/unit_transport.ts";

const KIB = 1024;
const POOL = "to.proxy.cancel._pool.";
const REQUESTS = "to.proxy.requests.";

function info(maxMsg: number): Uint8Array {
  const peer = { instance: `i-${maxMsg}`, features: ["raw"], maxMsg, ttlMs: 0, window: 0 };
  return encodeResponseInfo({ receiverServiceId: "worker-1", peer, code: null });
}

/** Hands in a POST with so large a body. */
function post(rig: RequesterRig, bodyBytes: number): MemoryClient {
  const bytes = pattern(bodyBytes);
  return rig.handle(`POST /up HTTP/1.1\r\nHost: a\r\nContent-Length: ${bodyBytes}\r\n\r\n`, {
    kind: "body",
    bytes,
  });
}

/** The n-th question to the pool. */
async function question(rig: RequesterRig, n = 1): Promise<Published> {
  await rig.transport.find(() => rig.transport.to(POOL).length >= n, `question ${n}`);
  return rig.transport.to(POOL)[n - 1] as Published;
}

/** Status and octets of the answer that a client has got. */
async function answered(client: MemoryClient): Promise<{ status: number; text: string }> {
  await client.ended;
  const text = await client.text();
  return { status: Number(text.split(" ")[1]), text };
}

function answer(rig: RequesterRig, hello: Published, payload: Uint8Array): void {
  rig.transport.deliver("responses", hello.json.request_id, payload);
}

Deno.test("a request up to 64 KiB is published without a question", async () => {
  using rig = new RequesterRig();
  post(rig, 32 * KIB);
  await rig.transport.find((one) => one.subject.startsWith(REQUESTS), "the request");
  assert.deepEqual(rig.transport.to(POOL), []);
});

Deno.test("a larger one waits for the answers, and the smallest limit in them counts", async () => {
  using rig = new RequesterRig();
  const client = post(rig, 200_000);
  const hello = await question(rig);
  assert.equal(hello.json.type, "hello");
  assert.equal(hello.reply, hello.json.reply_to);
  assert.equal(hello.subject, `${POOL}${hello.json.request_id}`);
  assert.deepEqual(rig.transport.to(REQUESTS), []);
  answer(rig, hello, info(1024 * KIB));
  answer(rig, hello, info(100 * KIB));
  assert.equal((await answered(client)).status, 413);
  assert.deepEqual(rig.transport.to(REQUESTS), []);
  // It is remembered: no second question, and what fits goes through.
  assert.equal((await answered(post(rig, 60_000))).status, 413);
  post(rig, 50_000);
  await rig.transport.find((one) => one.subject.startsWith(REQUESTS), "the request");
  assert.equal(rig.transport.to(POOL).length, 1);
});

Deno.test("where all receivers take large messages the request goes out after the answers", async () => {
  using rig = new RequesterRig();
  post(rig, 200_000);
  post(rig, 200_001);
  answer(rig, await question(rig), info(1024 * KIB));
  await rig.transport.find(() => rig.transport.to(REQUESTS).length === 2, "both requests");
  assert.equal(rig.transport.to(POOL).length, 1, "one question for both");
});

Deno.test("a head that is too large for the pool is 431", async () => {
  using rig = new RequesterRig();
  const client = rig.handle(`GET / HTTP/1.1\r\nHost: a\r\nX: ${"0".repeat(40_000)}\r\n\r\n`);
  answer(rig, await question(rig), info(64 * KIB));
  const { status, text } = await answered(client);
  assert.equal(status, 431);
  assert.match(text, /65536/);
  assert.equal(rig.end, "head_too_large");
});

Deno.test("without a natsway receiver the own server's limit holds, as the contract says", async () => {
  using rig = new RequesterRig();
  post(rig, 200_000);
  const hello = await question(rig);
  rig.transport.deliver("responses", hello.json.request_id, "", {
    headers: "NATS/1.0 503\r\n\r\n",
  });
  await rig.transport.find((one) => one.subject.startsWith(REQUESTS), "the request");
});

Deno.test("when somebody listens and nobody answers, nothing over 64 KiB is published", async () => {
  using rig = new RequesterRig();
  const client = post(rig, 200_000);
  await question(rig);
  assert.equal((await answered(client)).status, 413);
  assert.deepEqual(rig.transport.to(REQUESTS), []);
});

Deno.test("a limit in any first event counts at once", async () => {
  using rig = new RequesterRig();
  rig.answer(rig.send(), headFrame({ info: info(16 * KIB) }));
  const client = rig.handle(`GET / HTTP/1.1\r\nHost: a\r\nX: ${"0".repeat(10_000)}\r\n\r\n`);
  answer(rig, await question(rig), info(16 * KIB));
  assert.equal((await answered(client)).status, 431);
});

Deno.test("after a change of the connection the pool is asked again", async () => {
  using rig = new RequesterRig();
  post(rig, 200_000);
  answer(rig, await question(rig), info(1024 * KIB));
  await rig.transport.find((one) => one.subject.startsWith(REQUESTS), "the request");
  rig.transport.setConnected(false);
  rig.transport.setConnected(true);
  post(rig, 200_000);
  await question(rig, 2);
});

Deno.test("a client that leaves while the pool is asked costs no request", async () => {
  using rig = new RequesterRig();
  const client = post(rig, 200_000);
  const hello = await question(rig);
  client.response.gone();
  answer(rig, hello, info(1024 * KIB));
  post(rig, 200_001);
  await rig.transport.find((one) => one.subject.startsWith(REQUESTS), "the other request");
  assert.equal(rig.transport.to(REQUESTS).length, 1);
});
