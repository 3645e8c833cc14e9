import assert from "node:assert/strict";
import { downloadArchive, DownloadError, sha256Hex } from "../../lib/embedded/download.ts";
import { findNatsServer, type FindOptions } from "../../lib/embedded/find.ts";
import { archiveName } from "../../lib/embedded/release.ts";
import { StartError } from "../../lib/errors.ts";
import { natsServerBinary } from "../helpers/nats_server.ts";
import { KeptLog, namesIn, tarGz, tempDir, zip } from "./support.ts";

const ARCHIVE = archiveName()!;

/** A mirror on loopback: what each path answers is up to the test. */
function startMirror(
  answer: (path: string) => Response | Promise<Response>,
): { url: string; paths: string[] } & AsyncDisposable {
  const paths: string[] = [];
  const server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen: () => {} }, (request) => {
    const path = new URL(request.url).pathname;
    paths.push(path);
    return answer(path);
  });
  return {
    url: `http://127.0.0.1:${server.addr.port}/nats/v2.15.2`,
    paths,
    [Symbol.asyncDispose]: () => server.shutdown(),
  };
}

let release: Promise<Uint8Array<ArrayBuffer>> | null = null;

/** The archive of this platform with a real nats-server in it. */
function realRelease(): Promise<Uint8Array<ArrayBuffer>> {
  release ??= (async () => {
    const program = Deno.build.os === "windows" ? "nats-server.exe" : "nats-server";
    const body = await Deno.readFile(await natsServerBinary());
    const folder = ARCHIVE.replace(/\.(zip|tar\.gz)$/, "");
    const entries = [
      { name: `${folder}/LICENSE`, body: new TextEncoder().encode("licence") },
      { name: `${folder}/${program}`, body },
    ];
    return ARCHIVE.endsWith(".zip") ? await zip(entries, true) : await tarGz(entries);
  })();
  return release;
}

async function listFor(archive: Uint8Array<ArrayBuffer>): Promise<string> {
  return `${"0".repeat(64)}  other.tar.gz\n${await sha256Hex(archive)}  ${ARCHIVE}\n`;
}

function find(options: Partial<FindOptions>): ReturnType<typeof findNatsServer> {
  const logger = new KeptLog();
  return findNatsServer({ path: "", goBinary: null, isTerminal: false, logger, ...options });
}

Deno.test("a release is downloaded, checked, unpacked into the cache and found there next time", async () => {
  await using dir = await tempDir();
  const archive = await realRelease();
  const list = await listFor(archive);
  await using mirror = startMirror((path) =>
    new Response(path.endsWith("/SHA256SUMS") ? list : archive)
  );
  const logger = new KeptLog();
  const cacheDir = `${dir.path}/a/cache`;
  const found = await find({ downloadUrl: mirror.url, cacheDir, logger });
  assert.equal(found.source, "download");
  assert.match(found.version, /^2\./);
  assert.deepEqual(mirror.paths, [
    "/nats/v2.15.2/SHA256SUMS",
    `/nats/v2.15.2/${ARCHIVE}`,
  ]);
  assert.deepEqual(await Deno.readFile(found.path), await Deno.readFile(await natsServerBinary()));
  if (Deno.build.os !== "windows") {
    assert.equal((await Deno.stat(found.path)).mode! & 0o777, 0o755);
    assert.equal((await Deno.stat(cacheDir)).mode! & 0o777, 0o700);
  }
  assert.deepEqual(logger.of("info"), ["downloading nats-server", "nats-server is downloaded"]);
  assert.equal((await find({ downloadUrl: mirror.url, cacheDir })).source, "cache");
  assert.equal(mirror.paths.length, 2);
  assert.equal((await namesIn(cacheDir)).length, 1);
});

Deno.test("a broken program in the cache is replaced by a new download", async () => {
  await using dir = await tempDir();
  const archive = await realRelease();
  const list = await listFor(archive);
  await using mirror = startMirror((path) =>
    new Response(path.endsWith("/SHA256SUMS") ? list : archive)
  );
  const options = { downloadUrl: mirror.url, cacheDir: dir.path };
  const { path } = await find(options);
  await Deno.writeTextFile(path, "broken");
  assert.equal((await find(options)).source, "download");
  assert.equal((await find(options)).source, "cache");
});

Deno.test("two that download at once both get a whole program", async () => {
  await using dir = await tempDir();
  const archive = await realRelease();
  const list = await listFor(archive);
  await using mirror = startMirror((path) =>
    new Response(path.endsWith("/SHA256SUMS") ? list : archive)
  );
  const options = { downloadUrl: mirror.url, cacheDir: dir.path };
  const [one, two] = await Promise.all([find(options), find(options)]);
  assert.deepEqual([one.source, two.source], ["download", "download"]);
  assert.equal(one.path, two.path);
  assert.equal((await namesIn(dir.path)).length, 1);
});

Deno.test("progress on a terminal is one line with percent and size, and ends empty", async () => {
  await using dir = await tempDir();
  const archive = await realRelease();
  const list = await listFor(archive);
  await using mirror = startMirror((path) =>
    new Response(path.endsWith("/SHA256SUMS") ? list : archive)
  );
  const shown: string[] = [];
  const logger = new KeptLog();
  await find({
    downloadUrl: mirror.url,
    cacheDir: dir.path,
    isTerminal: true,
    onProgress: (text) => shown.push(text),
    logger,
  });
  assert.equal(shown.at(-1), "\r\x1b[K");
  const lines = shown.slice(0, -1).map((text) => text.slice(1, -3));
  assert.ok(lines.length > 0);
  for (const line of lines) {
    assert.match(line, /^downloading nats-server 2\.15\.2: \d{1,3} % of \d+\.\d MB$/);
  }
  assert.match(lines.at(-1)!, /: 100 % of/);
  assert.deepEqual(logger.of("info"), []);
});

Deno.test("redirects are followed, but not without end and not to other schemes", async () => {
  const archive = new TextEncoder().encode("archive");
  const list = await listFor(archive);
  await using mirror = startMirror((path) => {
    const to = (location: string) => new Response(null, { status: 302, headers: { location } });
    if (path.startsWith("/far/loop/")) return to(path);
    if (path.startsWith("/far/file/")) return to("file:///etc/passwd");
    if (path.startsWith("/nats/")) return to(`/far/away/${path.split("/").at(-1)}`);
    return new Response(path.endsWith("/SHA256SUMS") ? list : archive);
  });
  const bytes = await downloadArchive({ baseUrl: mirror.url, archive: ARCHIVE });
  assert.deepEqual(bytes, archive);
  for (
    const [kind, reason] of [["loop", /more than 5 redirects/], [
      "file",
      /no http or https/,
    ]] as const
  ) {
    const baseUrl = new URL(`/far/${kind}/`, mirror.url).href;
    await assert.rejects(downloadArchive({ baseUrl, archive: ARCHIVE }), reason);
  }
});

Deno.test("a download that is not what the list says leaves nothing behind", async () => {
  await using dir = await tempDir();
  const archive = await realRelease();
  const good = await listFor(archive);
  const empty = await tarGz([{ name: "x/README.md", body: new Uint8Array(10) }]);
  const noProgram = await listFor(empty);
  let list: string | null = good;
  let body: () => Response = () => new Response(archive);
  await using mirror = startMirror((path) => {
    if (!path.endsWith("/SHA256SUMS")) return body();
    return list === null ? new Response("", { status: 404 }) : new Response(list);
  });
  const cacheDir = `${dir.path}/cache`;
  const reason = async () => {
    let message = "";
    await assert.rejects(find({ downloadUrl: mirror.url, cacheDir }), (error) => {
      assert.ok(error instanceof StartError);
      message = /download \((.*?)\);/.exec(error.message)?.[1] ?? error.message;
      return true;
    });
    assert.deepEqual(await namesIn(cacheDir), []);
    return message;
  };
  const changed = archive.slice();
  changed[1000]! ^= 1;
  body = () => new Response(changed);
  assert.match(await reason(), /has SHA-256 [0-9a-f]{64}, but SHA256SUMS says [0-9a-f]{64}$/);
  body = () => new Response(archive.slice(0, 100_000));
  assert.match(await reason(), /has SHA-256/);
  body = () => new Response("", { status: 404 });
  assert.match(await reason(), /\.(tar\.gz|zip): the answer is status 404$/);
  body = () => new Response(archive);
  list = `${"0".repeat(64)}  other.tar.gz\n`;
  assert.match(await reason(), /SHA256SUMS has no hash for nats-server-v2/);
  list = null;
  assert.match(await reason(), /SHA256SUMS: the answer is status 404$/);
  body = () => new Response(empty);
  list = noProgram;
  if (!ARCHIVE.endsWith(".zip")) assert.equal(await reason(), "the archive holds no nats-server");
});

Deno.test("without the list the archive is not even asked for", async () => {
  await using mirror = startMirror(() => new Response("", { status: 404 }));
  await assert.rejects(
    downloadArchive({ baseUrl: mirror.url, archive: ARCHIVE }),
    DownloadError,
  );
  assert.equal(mirror.paths.length, 1);
});

/** A server that says it sends `length` bytes, sends some, and then does what `then` says. */
function startHalfMirror(
  length: number,
  then: "close" | "wait",
): { url: string } & AsyncDisposable {
  const list = `${"0".repeat(64)}  ${ARCHIVE}\n`;
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const open: Deno.Conn[] = [];
  const serving = (async () => {
    for await (const connection of listener) {
      open.push(connection);
      const buffer = new Uint8Array(4096);
      const count = await connection.read(buffer);
      const request = new TextDecoder().decode(buffer.subarray(0, count ?? 0));
      const isList = request.startsWith("GET /SHA256SUMS ");
      const head = `HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: `;
      const text = isList ? `${head}${list.length}\r\n\r\n${list}` : `${head}${length}\r\n\r\nsome`;
      await connection.write(new TextEncoder().encode(text));
      if (isList || then === "close") open.pop()!.close();
    }
  })();
  return {
    url: `http://127.0.0.1:${listener.addr.port}/`,
    async [Symbol.asyncDispose]() {
      listener.close();
      await serving;
      for (const connection of open) connection.close();
    },
  };
}

Deno.test("a download that breaks off, stalls or never ends is given up with the reason", async () => {
  {
    await using mirror = startHalfMirror(1000, "close");
    await assert.rejects(downloadArchive({ baseUrl: mirror.url, archive: ARCHIVE }), DownloadError);
  }
  {
    await using mirror = startHalfMirror(1000, "wait");
    await assert.rejects(
      downloadArchive({ baseUrl: mirror.url, archive: ARCHIVE, stallMs: 200 }),
      /nothing arrived for 0\.2 s/,
    );
  }
  await using mirror = startMirror((path) =>
    new Response(
      path.endsWith("/SHA256SUMS")
        ? `${"0".repeat(64)}  ${ARCHIVE}\n`
        : new ReadableStream({ pull: (to) => to.enqueue(new Uint8Array(10_000)) }),
    )
  );
  await assert.rejects(
    downloadArchive({ baseUrl: mirror.url, archive: ARCHIVE, maxBytes: 1_000_000 }),
    /it is over 1000000 bytes/,
  );
});

Deno.test("a slow download that goes on is not given up", async () => {
  const archive = new TextEncoder().encode("slow but whole");
  const list = await listFor(archive);
  await using mirror = startMirror((path) => {
    if (path.endsWith("/SHA256SUMS")) return new Response(list);
    let at = 0;
    const body = new ReadableStream<Uint8Array>({
      async pull(controller) {
        await new Promise((resolve) => setTimeout(resolve, 60));
        controller.enqueue(archive.subarray(at, ++at));
        if (at === archive.length) controller.close();
      },
    });
    return new Response(body);
  });
  // 14 steps of 60 ms are more than the 500 ms that a silence may last.
  const bytes = await downloadArchive({ baseUrl: mirror.url, archive: ARCHIVE, stallMs: 500 });
  assert.deepEqual(bytes, archive);
});

Deno.test("an aborted download ends at once with the signal's reason", async () => {
  await using dir = await tempDir();
  await using mirror = startHalfMirror(1000, "wait");
  const abort = new AbortController();
  const downloading = downloadArchive({
    baseUrl: mirror.url,
    archive: ARCHIVE,
    onBytes: () => abort.abort(new Error("enough")),
    signal: abort.signal,
  });
  await assert.rejects(downloading, /^Error: enough$/);
  const finding = find({ downloadUrl: mirror.url, cacheDir: dir.path, signal: abort.signal });
  await assert.rejects(finding, /^Error: enough$/);
});

Deno.test("a failure names the address without what may be a secret in it", async () => {
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const secretUrl = `http://me:s3cret@127.0.0.1:${listener.addr.port}/a?token=s3cret`;
  listener.close();
  await using mirror = startMirror(() =>
    new Response(null, { status: 302, headers: { location: secretUrl } })
  );
  await assert.rejects(downloadArchive({ baseUrl: mirror.url, archive: ARCHIVE }), (error) => {
    assert.ok(error instanceof DownloadError);
    assert.match(error.message, /SHA256SUMS: ./);
    assert.ok(!error.message.includes("s3cret"), error.message);
    return true;
  });
});

Deno.test("a download URL that is none is refused without being printed", async () => {
  for (const baseUrl of ["s3cret", "ftp://me:s3cret@host/"]) {
    await assert.rejects(
      downloadArchive({ baseUrl, archive: ARCHIVE }),
      new DownloadError("the download URL is not an http or https URL"),
    );
  }
});
