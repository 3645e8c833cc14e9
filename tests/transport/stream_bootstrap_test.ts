import { jetstreamManager, type StreamConfig } from "@nats-io/jetstream";
import type { NatsConnection } from "@nats-io/nats-core";
import assert from "node:assert/strict";
import { StartError } from "../../lib/errors.ts";
import {
  type BootstrapOptions,
  bootstrapStream,
  type StreamPlan,
} from "../../lib/transport/stream_bootstrap.ts";
import { freePort, type NatsServer, startNats } from "../helpers/nats_server.ts";
import { pause, within } from "../helpers/wait.ts";
import { RecordingLogger, serversOf, startLink } from "./support.ts";

const PLAN: StreamPlan = {
  name: "proxy",
  subjects: ["to.proxy.>", "from.proxy.>"],
  maxAgeMs: 300_000,
  maxBytes: 64 * 2 ** 20,
  replicas: 1,
  storage: "file",
};

/** nats-server keeps messages in files of at most this size, and removes a file as a whole. */
const BLOCK_BYTES = 8 * 2 ** 20;

/** A server with JetStream, its store and a manager of its own. */
async function startRig() {
  const storeDir = await Deno.makeTempDir({ prefix: "natsway-test-" });
  const server = await startNats({
    config: `jetstream { store_dir: ${JSON.stringify(storeDir)} }`,
  });
  const test = await startLink(server.url);
  const manager = await jetstreamManager(test.link.connection as NatsConnection);
  return {
    storeDir,
    server,
    manager,
    test,
    config: async (): Promise<StreamConfig> => (await manager.streams.info("proxy")).config,
    async [Symbol.asyncDispose]() {
      await test[Symbol.asyncDispose]();
      await server[Symbol.asyncDispose]();
      await Deno.remove(storeDir, { recursive: true });
    },
  };
}

function bootstrap(
  server: Pick<NatsServer, "url">,
  plan: Partial<StreamPlan> = {},
  options: Partial<BootstrapOptions> = {},
): ReturnType<typeof bootstrapStream> {
  return bootstrapStream({
    link: { servers: serversOf(server.url) },
    apiPrefix: "$JS.API",
    plan: { ...PLAN, ...plan },
    retries: 50,
    pauseMs: 100,
    logger: new RecordingLogger(),
    signal: new AbortController().signal,
    ...options,
  });
}

/** The message of the StartError, which must be one line. */
async function refusal(work: Promise<unknown>): Promise<string> {
  try {
    await work;
  } catch (error) {
    assert.ok(error instanceof StartError, String(error));
    assert.ok(!error.message.includes("\n"), error.message);
    return error.message;
  }
  assert.fail("nothing was refused");
}

Deno.test("F47 an absent stream is created as planned; the same plan again changes nothing", async () => {
  await using rig = await startRig();
  assert.equal(await bootstrap(rig.server), "created");
  const before = await rig.config();
  assert.deepEqual(before.subjects, PLAN.subjects);
  assert.equal(before.max_age, 300_000_000_000);
  assert.equal(before.max_bytes, PLAN.maxBytes);
  assert.equal(before.num_replicas, 1);
  assert.deepEqual([before.storage, before.discard, before.retention], ["file", "old", "limits"]);
  assert.deepEqual([before.max_msgs, before.max_msg_size], [-1, -1]);
  assert.equal(await bootstrap(rig.server), "unchanged");
  assert.deepEqual(await rig.config(), before);
});

Deno.test("F47 many that start at once on an empty server all come up, with one stream", async () => {
  await using rig = await startRig();
  const results = await Promise.all(Array.from({ length: 6 }, () => bootstrap(rig.server)));
  assert.ok(results.every((result) => result === "created" || result === "unchanged"));
  assert.deepEqual(await Array.fromAsync(rig.manager.streams.names()), ["proxy"]);
  // Two that differ: both come up, and the stream has the limits of one of them.
  await rig.manager.streams.delete("proxy");
  await Promise.all([bootstrap(rig.server), bootstrap(rig.server, { maxAgeMs: 60_000 })]);
  assert.ok([60e9, 300e9].includes((await rig.config()).max_age));
});

Deno.test("F47 changed limits are set, also an age below the duplicate window, and messages stay", async () => {
  await using rig = await startRig();
  await bootstrap(rig.server);
  await rig.test.link.connection.request("to.proxy.x", "kept");
  const logger = new RecordingLogger();
  const plan = { maxAgeMs: 60_000, maxBytes: 2 ** 20 };
  assert.equal(await bootstrap(rig.server, plan, { logger }), "updated");
  const { config, state } = await rig.manager.streams.info("proxy");
  assert.deepEqual([config.max_age, config.max_bytes], [60e9, 2 ** 20]);
  assert.equal(state.messages, 1);
  assert.match(logger.text, /max_age from 300 s to 60 s, max_bytes from 67108864 to 1048576/);
  assert.equal(await bootstrap(rig.server), "updated");
  assert.equal((await rig.config()).max_age, 300e9);
});

Deno.test("F47 a change that the server refuses fails the start with field, old and new value", async () => {
  await using rig = await startRig();
  await bootstrap(rig.server);
  const message = await refusal(bootstrap(rig.server, { storage: "memory" }));
  assert.match(message, /stream proxy cannot be changed \(storage from file to memory\): /);
  assert.match(message, /Set STREAM_STORAGE back, or delete the stream/);
  assert.equal((await rig.config()).storage, "file");
});

Deno.test("F47 other subjects fail the start with both named, and the stream stays as it is", async () => {
  await using rig = await startRig();
  await bootstrap(rig.server);
  const message = await refusal(bootstrap(rig.server, { subjects: ["proxy.>"] }));
  assert.match(
    message,
    /stream proxy has the subjects from\.proxy\.>, to\.proxy\.>, but .* proxy\.>/,
  );
  assert.deepEqual((await rig.config()).subjects, PLAN.subjects);
  const reversed = [...PLAN.subjects].reverse();
  assert.equal(await bootstrap(rig.server, { subjects: reversed }), "unchanged");
});

Deno.test("a stream of nats-proxy, without limits, gets them", async () => {
  await using rig = await startRig();
  await rig.manager.streams.add({ name: "proxy", subjects: [...PLAN.subjects] });
  assert.equal(await bootstrap(rig.server), "updated");
  const { max_age, max_bytes } = await rig.config();
  assert.deepEqual([max_age, max_bytes], [300e9, PLAN.maxBytes]);
});

Deno.test("another stream on the subjects, and replicas without a cluster, fail the start", async () => {
  await using rig = await startRig();
  await rig.manager.streams.add({ name: "other", subjects: ["to.proxy.requests.>"] });
  assert.match(
    await refusal(bootstrap(rig.server)),
    /stream proxy cannot be created: other takes the subjects to\.proxy\.>/,
  );
  const message = await refusal(bootstrap(rig.server, { subjects: ["a.>"], replicas: 3 }));
  assert.match(message, /set up at nats:\/\/127\.0\.0\.1:\d+: the server refuses: .*replicas/i);
});

Deno.test("a server that comes late is waited for, one that does not come is named", async () => {
  const port = freePort();
  const url = `nats://127.0.0.1:${port}`;
  const message = await refusal(bootstrap({ url }, {}, { retries: 3, pauseMs: 50 }));
  assert.match(message, new RegExp(`at ${url}: not ready within 0\\.15 s: `));
  const late = bootstrap({ url });
  const storeDir = await Deno.makeTempDir({ prefix: "natsway-test-" });
  const config = `jetstream { store_dir: ${JSON.stringify(storeDir)} }`;
  {
    await using _server = await startNats({ port, config });
    assert.equal(await within(late, 10_000, "the stream"), "created");
  }
  await Deno.remove(storeDir, { recursive: true });
});

Deno.test("a server without JetStream fails the start when the time is over", async () => {
  await using server = await startNats();
  const message = await refusal(bootstrap(server, {}, { retries: 3, pauseMs: 50 }));
  assert.match(message, /not ready within 0\.15 s: .*jetstream/i);
});

Deno.test("a wait for the server ends with the abort's reason", async () => {
  const abort = new AbortController();
  const url = `nats://127.0.0.1:${freePort()}`;
  const waiting = bootstrap({ url }, {}, { signal: abort.signal });
  abort.abort(new Error("enough"));
  await assert.rejects(within(waiting, 5000, "the end"), /^Error: enough$/);
});

Deno.test("F48 the store stays at the size limit, goes on taking messages, and forgets after the age", async () => {
  await using rig = await startRig();
  const maxBytes = 4 * 2 ** 20;
  await bootstrap(rig.server, { maxBytes, maxAgeMs: 2000 });
  const body = new Uint8Array(32 * 1024);
  const { connection } = rig.test.link;
  for (let i = 0; i < 600; i++) {
    const answer = await connection.request("from.proxy.responses.a.b", body);
    assert.ok(!answer.string().includes("error"), answer.string());
  }
  const { state } = await rig.manager.streams.info("proxy");
  assert.equal(state.last_seq, 600);
  assert.ok(state.bytes <= maxBytes, `${state.bytes}`);
  assert.ok(state.messages >= 100, `${state.messages}`);
  const du = await new Deno.Command("du", { args: ["-sb", rig.storeDir] }).output();
  const onDisk = Number(new TextDecoder().decode(du.stdout).split("\t")[0]);
  assert.ok(onDisk < maxBytes + BLOCK_BYTES, `${onDisk} bytes on disk`);
  const deadline = performance.now() + 10_000;
  while ((await rig.manager.streams.info("proxy")).state.messages > 0) {
    assert.ok(performance.now() < deadline, "old messages are still there");
    await pause(100);
  }
});
