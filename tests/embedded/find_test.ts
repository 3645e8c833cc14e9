import assert from "node:assert/strict";
import { findNatsServer, type FindOptions } from "../../lib/embedded/find.ts";
import { filesOnPath } from "../../lib/embedded/places.ts";
import { StartError } from "../../lib/errors.ts";
import { natsServerBinary } from "../helpers/nats_server.ts";
import { KeptLog, script, tempDir, versionScript } from "./support.ts";

/** An address of loopback where nobody listens any more. */
const NOWHERE_HOST = (() => {
  using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  return `127.0.0.1:${listener.addr.port}`;
})();
const NOWHERE = `http://${NOWHERE_HOST}/`;

function find(options: Partial<FindOptions>): ReturnType<typeof findNatsServer> {
  return findNatsServer({
    path: "",
    downloadUrl: NOWHERE,
    goBinary: null,
    isTerminal: false,
    logger: new KeptLog(),
    ...options,
  });
}

async function failure(options: Partial<FindOptions>): Promise<string> {
  try {
    await find(options);
  } catch (error) {
    assert.ok(error instanceof StartError, String(error));
    assert.ok(!error.message.includes("\n"), error.message);
    return error.message;
  }
  assert.fail("a nats-server was found");
}

Deno.test("the nats-server of the setting is used, by path or by its name on the PATH", async () => {
  await using dir = await tempDir();
  const real = await natsServerBinary();
  const found = await find({ binary: real, cacheDir: dir.path });
  assert.equal(found.path, real);
  assert.equal(found.source, "setting");
  assert.match(found.version, /^\d+\.\d+\.\d+$/);
  await versionScript(`${dir.path}/my-nats`, "2.11.0");
  const named = await find({ binary: "my-nats", path: dir.path, cacheDir: dir.path });
  assert.deepEqual(named, { path: `${dir.path}/my-nats`, version: "2.11.0", source: "setting" });
});

Deno.test("a setting that is no usable nats-server is an error, and nothing else is tried", async () => {
  await using dir = await tempDir();
  await versionScript(`${dir.path}/nats-server`, "2.15.2");
  await versionScript(`${dir.path}/old`, "2.8.4");
  await script(`${dir.path}/other`, "echo hello");
  await script(`${dir.path}/failing`, "exit 7");
  await Deno.writeTextFile(`${dir.path}/text`, "no program", { mode: 0o644 });
  const reasons = [
    ["missing", "no such file"],
    ["old", "version 2.8.4 is older than 2.9"],
    ["other", "it does not print a nats-server version"],
    ["failing", "--version ended with status 7"],
    ["text", "it cannot be run: it is not executable"],
  ] as const;
  for (const [name, reason] of reasons) {
    const binary = `${dir.path}/${name}`;
    const message = await failure({ binary, path: dir.path, cacheDir: `${dir.path}/cache` });
    assert.ok(message.startsWith(`EMBEDDED_NATS_BINARY ${binary}: `), message);
    assert.ok(message.includes(reason), message);
  }
  const message = await failure({ binary: "unknown-name", path: dir.path });
  assert.match(message, /^EMBEDDED_NATS_BINARY unknown-name: there is no such program on the PATH/);
});

Deno.test("the first nats-server on the PATH that is 2.9 or newer is used", async () => {
  await using dir = await tempDir();
  for (const [name, version] of [["a", "2.8.4"], ["b", "2.9.0"], ["c", "2.15.2"]] as const) {
    await Deno.mkdir(`${dir.path}/${name}`);
    await versionScript(`${dir.path}/${name}/nats-server`, version);
  }
  const path = [
    "relative",
    `${dir.path}/missing`,
    ...["a", "b", "c"].map((n) => `${dir.path}/${n}`),
  ]
    .join(":");
  assert.deepEqual(await find({ path, cacheDir: `${dir.path}/cache` }), {
    path: `${dir.path}/b/nats-server`,
    version: "2.9.0",
    source: "path",
  });
});

Deno.test("without any nats-server the error lists each place with its reason, and what to do", async () => {
  await using dir = await tempDir();
  await versionScript(`${dir.path}/nats-server`, "2.8.4");
  const message = await failure({
    path: dir.path,
    cacheDir: `${dir.path}/cache`,
    downloadUrl: `http://me:s3cret@${NOWHERE_HOST}/?key=s3cret`,
  });
  assert.match(message, /nats-server \(version 2\.8\.4 is older than 2\.9\)/);
  assert.match(message, /cache \(no .+cache\/nats-server-v2\.15\.2-/);
  assert.ok(message.includes(`download (${NOWHERE}SHA256SUMS: `), message);
  assert.match(message, /connection refused/i);
  assert.match(message, /go install \(no go at hand\)/);
  assert.match(message, /set EMBEDDED_NATS_BINARY .*EMBEDDED_NATS_DOWNLOAD_URL/);
  assert.ok(!message.includes("s3cret"), message);
});

/** A `go` that writes down how it was called, and "builds" the given nats-server. */
async function fakeGo(folder: string, build: string): Promise<string> {
  await Deno.mkdir(folder, { recursive: true });
  return await script(
    `${folder}/go`,
    `echo "$*" >"${folder}/called"; echo "$GOBIN|$PWD|$GOOS|$CGO_ENABLED" >>"${folder}/called"\n${build}`,
  );
}

Deno.test("where Go is at hand the pinned version is built into the cache, and found there next time", async () => {
  await using dir = await tempDir();
  const cacheDir = `${dir.path}/cache`;
  const real = await natsServerBinary();
  const folder = `${dir.path}/bin`;
  await fakeGo(folder, `cp "${real}" "$GOBIN/nats-server"`);
  const logger = new KeptLog();
  const built = await findNatsServer({
    path: folder,
    downloadUrl: NOWHERE,
    cacheDir,
    isTerminal: false,
    logger,
  });
  assert.equal(built.source, "go");
  assert.ok(built.path.startsWith(`${cacheDir}/nats-server-v2.15.2-`));
  const [args, env] = (await Deno.readTextFile(`${folder}/called`)).split("\n");
  assert.match(args!, /^install .*github\.com\/nats-io\/nats-server\/v2@v2\.15\.2$/);
  const [goBin, cwd, goOs, cgo] = env!.split("|");
  assert.ok(goBin!.startsWith(`${cacheDir}/`) && goBin === cwd, env);
  assert.deepEqual([goOs, cgo], ["", "0"]);
  assert.equal(logger.of("info").length, 3); // download begins, build begins, build ends
  const again = await find({ cacheDir });
  assert.deepEqual([again.source, again.path], ["cache", built.path]);
  const left = await Array.fromAsync(Deno.readDir(cacheDir));
  assert.equal(left.length, 1, "the working folder of the build is gone");
});

// Needs Go's module proxy or a filled module cache: in the full tier only.
if (Deno.env.get("NATSWAY_TEST_FULL") === "1") {
  Deno.test("the real Go builds the pinned version", async () => {
    await using dir = await tempDir();
    const options = { path: Deno.env.get("PATH")!, cacheDir: `${dir.path}/cache` };
    const files = await filesOnPath(options.path, "go");
    const found = await find({ ...options, path: "", goBinary: files[0] ?? null });
    assert.deepEqual([found.source, found.version], ["go", "2.15.2"]);
  });
}

Deno.test("a build that fails says what Go said last", async () => {
  await using dir = await tempDir();
  const go = await fakeGo(
    dir.path,
    'echo "go: downloading" >&2; echo "go: no network" >&2; exit 1',
  );
  const message = await failure({ goBinary: go, cacheDir: `${dir.path}/cache` });
  assert.match(message, /go install \(go install ended with status 1: go: no network\)/);
  assert.deepEqual(await Array.fromAsync(Deno.readDir(`${dir.path}/cache`)), []);
});

Deno.test("a build that is aborted ends Go and all that it started", async () => {
  await using dir = await tempDir();
  const fifo = `${dir.path}/fifo`;
  await new Deno.Command("mkfifo", { args: [fifo] }).output();
  // The compiler holds the pipe open: its end shows that the compiler is gone.
  const go = await fakeGo(dir.path, `sleep 600 >"${fifo}" & echo started >"${fifo}"; wait`);
  const abort = new AbortController();
  const finding = find({
    goBinary: go,
    cacheDir: `${dir.path}/cache`,
    signal: abort.signal,
  });
  const rejected = assert.rejects(finding, /enough/);
  using pipe = await Deno.open(fifo);
  const buffer = new Uint8Array(64);
  assert.ok((await pipe.read(buffer))! > 0);
  abort.abort(new Error("enough"));
  await rejected;
  while (await pipe.read(buffer) !== null);
});

Deno.test("a build shows one line of progress on a terminal", async () => {
  await using dir = await tempDir();
  const go = await fakeGo(dir.path, `cp "${await natsServerBinary()}" "$GOBIN/nats-server"`);
  const shown: string[] = [];
  const logger = new KeptLog();
  const cacheDir = `${dir.path}/cache`;
  const onProgress = (text: string) => void shown.push(text);
  await find({ goBinary: go, cacheDir, isTerminal: true, onProgress, logger });
  assert.equal(shown[0], "\rbuilding nats-server 2.15.2 with go install\x1b[K");
  assert.equal(shown.at(-1), "\r\x1b[K");
  assert.deepEqual(logger.of("info"), []);
});

Deno.test("from source there is no nats-server inside", async () => {
  const { insideFolder } = await import("../../lib/embedded/inside.ts");
  assert.equal(insideFolder(), null);
});
