import assert from "node:assert/strict";
import { request } from "../helpers/client.ts";
import { runNatsway, type Settings, startNatsway, TEST_SETTINGS } from "../helpers/natsway.ts";
import { pause } from "../helpers/wait.ts";
import { startUpstream } from "../helpers/upstream.ts";
import { loggedNumber, ownServer, ownServerUrl, tempFolder } from "./own_server.ts";

const LEAF_PORT = /^Listening for leafnode connections on 127\.0\.0\.1:(\d+)$/;
const NEW_CREDENTIALS = /EMBEDDED_NATS_LEAF_USER=(\S+) EMBEDDED_NATS_LEAF_PASSWORD=(\S+)/;

Deno.test("a requester with its own server is a leaf of the receiver's, and requests cross both", async () => {
  await using hubFolder = await tempFolder();
  await using leafFolder = await tempFolder();
  await using upstream = await startUpstream();
  const password = 'p@ss "w/o" %41 #$x';
  await using receiver = await startNatsway("receiver", {
    ...await ownServer(hubFolder.path),
    UPSTREAM_URL: upstream.url,
    EMBEDDED_NATS_LEAF_USER: "edge:1",
    EMBEDDED_NATS_LEAF_PASSWORD: password,
  });
  const port = await loggedNumber(receiver, LEAF_PORT);
  await using requester = await startNatsway("requester", {
    ...await ownServer(leafFolder.path),
    LEAF_REMOTE_HOST: "127.0.0.1",
    LEAF_REMOTE_PORT: String(port),
    LEAF_REMOTE_USER: "edge:1",
    LEAF_REMOTE_PASSWORD: password,
  });
  await requester.event((event) => /Leafnode connection created/.test(event.message));
  // The receiver's subscription crosses the leaf a moment after the leaf is there.
  let status = 0;
  for (let tries = 0; tries < 50 && status !== 200; tries++) {
    if (tries > 0) await pause(100);
    status = (await request(requester.port, "/leaf")).status;
  }
  assert.equal(status, 200);
  for (const natsway of [receiver, requester]) {
    for (const text of [password, encodeURIComponent(password)]) {
      assert.ok(!natsway.stderr.includes(text), "the password is in the log");
    }
  }
  const config = await Deno.readTextFile(`${leafFolder.path}/nats.conf`);
  assert.doesNotMatch(config, /jetstream/, "a requester has no JetStream of its own");
});

Deno.test("new leaf credentials are shown once, kept in a file for this user alone, and used again", async () => {
  await using folder = await tempFolder();
  await using upstream = await startUpstream();
  const settings: Settings = { ...await ownServer(folder.path), UPSTREAM_URL: upstream.url };
  const file = `${folder.path}/nats.conf`;
  {
    await using first = await startNatsway("receiver", settings);
    const { message } = await first.event((event) => NEW_CREDENTIALS.test(event.message));
    const [, user, password] = NEW_CREDENTIALS.exec(message)!;
    const config = await Deno.readTextFile(file);
    assert.ok(config.includes(`user: "${user}"`) && config.includes(`password: "${password}"`));
    assert.equal((await Deno.stat(file)).mode! & 0o777, 0o600);
  }
  const before = /user: .*\n.*password: .*/.exec(await Deno.readTextFile(file))![0];
  {
    await using second = await startNatsway("receiver", settings);
    assert.doesNotMatch(second.stderr, NEW_CREDENTIALS);
    assert.ok((await Deno.readTextFile(file)).includes(before));
  }
});

Deno.test("a given configuration wins over generation, and its port is found without NATS_URL", async () => {
  await using folder = await tempFolder();
  await using upstream = await startUpstream();
  const file = `${folder.path}/own.conf`;
  await Deno.writeTextFile(file, 'server_name: mine\nlisten: "127.0.0.1:-1"\n');
  await using receiver = await startNatsway("receiver", {
    ...await ownServer(folder.path),
    EMBEDDED_NATS_CONFIG: file,
    UPSTREAM_URL: upstream.url,
  });
  await using requester = await startNatsway("requester", {
    NATS_URL: await ownServerUrl(receiver),
  });
  assert.equal((await request(requester.port, "/given")).status, 200);
  await assert.rejects(Deno.stat(`${folder.path}/nats.conf`), Deno.errors.NotFound);
});

Deno.test("EMBEDDED_NATS_ENABLED alone is a mistake that names both ways to a configuration", async () => {
  const result = await runNatsway(["receiver"], {
    ...TEST_SETTINGS,
    EMBEDDED_NATS_ENABLED: "true",
  });
  assert.equal(result.code, 2, result.stderr);
  const [line] = result.stderr.split("\n");
  assert.match(line!, /EMBEDDED_NATS_CONFIG.*EMBEDDED_NATS_GENERATE_CONFIG/);
});

Deno.test("a store that cannot be used ends the start with 3 and one line that names it", async () => {
  await using folder = await tempFolder();
  await Deno.writeTextFile(`${folder.path}/file`, "");
  const result = await runNatsway(["receiver"], {
    ...TEST_SETTINGS,
    LOG_LEVEL: "error",
    ...await ownServer(folder.path),
    UPSTREAM_URL: "http://127.0.0.1:9",
    EMBEDDED_NATS_JETSTREAM_STORE_DIR: `${folder.path}/file/store`,
  });
  assert.equal(result.code, 3, result.stderr);
  assert.ok(result.ms < 5_000, `${result.ms} ms`);
  assert.equal(result.stderr.trim().split("\n").length, 1, result.stderr);
  assert.ok(result.stderr.includes(`${folder.path}/file/store`), result.stderr);
});

Deno.test("two natsways never share a store: the second one ends with 3, the first one goes on", async () => {
  await using folder = await tempFolder();
  await using upstream = await startUpstream();
  const settings = { ...await ownServer(folder.path), UPSTREAM_URL: upstream.url };
  await using first = await startNatsway("receiver", settings);
  const result = await runNatsway(["receiver"], {
    ...TEST_SETTINGS,
    ...settings,
    EMBEDDED_NATS_GENERATED_CONFIG_PATH: `${folder.path}/other.conf`,
  });
  assert.equal(result.code, 3, result.stderr);
  assert.ok(result.stderr.includes(`store ${folder.path}/store is in use`), result.stderr);
  assert.ok(first.running);
});

Deno.test("a leaf listener that is taken ends the start with 3 and names its setting", async () => {
  await using folder = await tempFolder();
  using occupant = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const result = await runNatsway(["receiver"], {
    ...TEST_SETTINGS,
    ...await ownServer(folder.path),
    UPSTREAM_URL: "http://127.0.0.1:9",
    EMBEDDED_NATS_LEAF_LISTEN_PORT: String(occupant.addr.port),
  });
  assert.equal(result.code, 3, result.stderr);
  assert.match(
    result.stderr,
    new RegExp(`127\\.0\\.0\\.1:${occupant.addr.port}: .*EMBEDDED_NATS_LEAF_LISTEN_PORT`),
  );
});
