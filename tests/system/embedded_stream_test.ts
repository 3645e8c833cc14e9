import { jetstreamManager, type StreamInfo } from "@nats-io/jetstream";
import type { NatsConnection } from "@nats-io/nats-core";
import assert from "node:assert/strict";
import { runNatsway, type Settings, startNatsway, TEST_SETTINGS } from "../helpers/natsway.ts";
import { startNats } from "../helpers/nats_server.ts";
import { startLink } from "../transport/support.ts";
import { ownServer, ownServerUrl, tempFolder } from "./own_server.ts";

const STREAM: Settings = {
  NATS_MODE: "jetstream",
  UPSTREAM_URL: "http://127.0.0.1:9",
  NATS_REQUEST_SUBJECT_ROOT: "proxy",
  NATS_RESPONSE_SUBJECT_ROOT: "proxy",
};

/** The streams on a server. */
async function streamsAt(url: string): Promise<StreamInfo[]> {
  await using test = await startLink(url);
  const manager = await jetstreamManager(test.link.connection as NatsConnection);
  return await Array.fromAsync(manager.streams.list());
}

/** The streams that a natsway with these settings leaves on its own server. */
async function streamsOf(role: string, settings: Settings): Promise<StreamInfo[]> {
  await using natsway = await startNatsway(role, settings, { waitFor: "listening" });
  return await streamsAt(await ownServerUrl(natsway));
}

Deno.test("the stream is made with all three: embedded server, receiver, NATS_MODE=jetstream", async () => {
  await using folder = await tempFolder();
  const [info, ...more] = await streamsOf("receiver", {
    ...await ownServer(folder.path),
    ...STREAM,
    NATS_STREAM: "orders",
    STREAM_MAX_AGE: "60",
    STREAM_MAX_BYTES: "1000000",
  });
  assert.equal(more.length, 0);
  const { name, subjects, max_age, max_bytes, storage } = info!.config;
  assert.deepEqual(
    { name, subjects, max_age, max_bytes, storage },
    { name: "orders", subjects: ["proxy.>"], max_age: 60e9, max_bytes: 1_000_000, storage: "file" },
  );
});

Deno.test("NATS_MODE=auto makes no stream", async () => {
  await using folder = await tempFolder();
  const settings = { ...await ownServer(folder.path), ...STREAM, NATS_MODE: "auto" };
  assert.deepEqual(await streamsOf("receiver", settings), []);
});

Deno.test("a requester makes no stream, with JetStream on its own server too", async () => {
  await using folder = await tempFolder();
  const settings = {
    ...await ownServer(folder.path),
    ...STREAM,
    UPSTREAM_URL: "",
    EMBEDDED_NATS_JETSTREAM_ENABLED: "true",
    LEAF_REMOTE_HOST: "127.0.0.1",
    LEAF_REMOTE_PORT: "9",
    LEAF_REMOTE_USER: "u",
    LEAF_REMOTE_PASSWORD: "p",
  };
  assert.deepEqual(await streamsOf("requester", settings), []);
});

Deno.test("without an embedded server no stream is made", async () => {
  await using folder = await tempFolder();
  const config = `jetstream { store_dir: ${JSON.stringify(folder.path)} }`;
  await using server = await startNats({ config });
  await using _natsway = await startNatsway("receiver", { ...STREAM, NATS_URL: server.url }, {
    waitFor: "listening",
  });
  assert.deepEqual(await streamsAt(server.url), []);
});

Deno.test("F47 the same start again changes nothing; another age is set; other subjects end the start with 3", async () => {
  await using folder = await tempFolder();
  const settings = { ...await ownServer(folder.path), ...STREAM };
  const [first] = await streamsOf("receiver", settings);
  const [second] = await streamsOf("receiver", settings);
  assert.deepEqual(second!.config, first!.config);
  assert.equal(second!.created, first!.created);
  const [third] = await streamsOf("receiver", { ...settings, STREAM_MAX_AGE: "77" });
  assert.equal(third!.config.max_age, 77e9);
  const result = await runNatsway(["receiver"], {
    ...TEST_SETTINGS,
    ...settings,
    NATS_RESPONSE_SUBJECT_ROOT: "other",
  });
  assert.equal(result.code, 3, result.stderr);
  const line = result.stderr.split("\n").filter((text) => text.startsWith("natsway: "));
  assert.equal(line.length, 1, result.stderr);
  assert.match(line[0]!, /stream proxy has the subjects proxy\.>, but .* other\.>, proxy\.>/);
});

Deno.test("a memory stream is made again when the server has died", async () => {
  await using folder = await tempFolder();
  const settings = { ...await ownServer(folder.path), ...STREAM, STREAM_STORAGE: "memory" };
  await using natsway = await startNatsway("receiver", settings, { waitFor: "listening" });
  const url = await ownServerUrl(natsway);
  const from = natsway.mark;
  const { pid } = await natsway.event("embedded nats-server runs");
  Deno.kill(Number(pid), "SIGKILL");
  await natsway.event("stream created", { from, ms: 15_000 });
  assert.deepEqual((await streamsAt(url)).map(({ config }) => config.name), ["proxy"]);
});

Deno.test("a root that nats-proxy cannot use in a stream is warned of", async () => {
  await using folder = await tempFolder();
  const settings = {
    ...await ownServer(folder.path),
    ...STREAM,
    NATS_REQUEST_SUBJECT_ROOT: "to.proxy",
  };
  await using natsway = await startNatsway("receiver", settings, { waitFor: "listening" });
  const warnings = natsway.log.events.filter((event) =>
    /nats-proxy cannot use/.test(event.message)
  );
  assert.equal(warnings.length, 1);
  assert.match(warnings[0]!.message, /^NATS_REQUEST_SUBJECT_ROOT to\.proxy /);
});
