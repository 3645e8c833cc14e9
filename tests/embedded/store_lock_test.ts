import assert from "node:assert/strict";
import { lockStore } from "../../lib/embedded/store_lock.ts";
import { StartError } from "../../lib/errors.ts";
import { tempDir } from "./support.ts";

/** A process that has `tag` in its command line. */
function processWith(tag: string): AsyncDisposable {
  const child = new Deno.Command("sh", { args: ["-c", "sleep 600; :", tag] }).spawn();
  return {
    async [Symbol.asyncDispose]() {
      child.kill("SIGKILL");
      await child.status;
    },
  };
}

function tagIn(storeDir: string): Promise<string> {
  return Deno.readTextFile(`${storeDir}/natsway.lock`);
}

/** The file of a lock is so old that its server must have begun. */
async function age(storeDir: string): Promise<void> {
  const past = new Date(Date.now() - 60_000);
  await Deno.utime(`${storeDir}/natsway.lock`, past, past);
}

Deno.test("a store is made, locked once, and free again after the release", async () => {
  await using dir = await tempDir();
  const storeDir = `${dir.path}/a/store`;
  const tag = `${dir.path}/run`;
  await Deno.mkdir(tag);
  const lock = await lockStore({ storeDir, tag });
  assert.equal(await tagIn(storeDir), tag);
  await assert.rejects(lockStore({ storeDir, tag: "/other", waitMs: 0 }), (error) => {
    assert.ok(error instanceof StartError);
    assert.match(error.message, /store .*\/a\/store is in use by another nats-server of natsway/);
    return true;
  });
  await lock.release();
  assert.equal(await tagIn(storeDir), "");
  const next = await lockStore({ storeDir, tag: "/other", waitMs: 0 });
  // The first holder has nothing to say any more.
  await lock.release();
  assert.equal(await tagIn(storeDir), "/other");
  await next.release();
});

Deno.test("a lock is held as long as a process has its tag, and taken over when that is gone", async () => {
  await using dir = await tempDir();
  const tag = `${dir.path}/run-${crypto.randomUUID()}`;
  await lockStore({ storeDir: dir.path, tag });
  await age(dir.path);
  const other = { storeDir: dir.path, tag: `${dir.path}/other` };
  {
    await using _server = processWith(tag);
    await assert.rejects(lockStore({ ...other, waitMs: 300 }), StartError);
  }
  const lock = await lockStore({ ...other, waitMs: 0 });
  assert.equal(await tagIn(dir.path), other.tag);
  await lock.release();
});

Deno.test("a server that is ending is waited for", async () => {
  await using dir = await tempDir();
  const tag = `${dir.path}/run-${crypto.randomUUID()}`;
  await lockStore({ storeDir: dir.path, tag });
  await age(dir.path);
  const server = processWith(tag);
  const waiting = lockStore({ storeDir: dir.path, tag: "/other", waitMs: 10_000 });
  await server[Symbol.asyncDispose]();
  await (await waiting).release();
});

Deno.test("of many that find a stale lock one gets the store", async () => {
  await using dir = await tempDir();
  const gone = `${dir.path}/gone`;
  await lockStore({ storeDir: dir.path, tag: gone });
  const tags = Array.from({ length: 8 }, (_, i) => `${dir.path}/run-${i}`);
  for (const tag of tags) await Deno.mkdir(tag);
  const results = await Promise.allSettled(
    tags.map((tag) => lockStore({ storeDir: dir.path, tag, waitMs: 200 })),
  );
  assert.equal(results.filter(({ status }) => status === "fulfilled").length, 1);
});

Deno.test("a store that cannot be written to fails the start and names the setting", async () => {
  await using dir = await tempDir();
  await Deno.writeTextFile(`${dir.path}/file`, "");
  await assert.rejects(lockStore({ storeDir: `${dir.path}/file/store`, tag: "/t" }), (error) => {
    assert.ok(error instanceof StartError);
    assert.match(
      error.message,
      /\/file\/store cannot be used: .*EMBEDDED_NATS_JETSTREAM_STORE_DIR/,
    );
    return true;
  });
});

Deno.test("an aborted wait for a store ends with the abort's reason", async () => {
  await using dir = await tempDir();
  const abort = new AbortController();
  await Deno.mkdir(`${dir.path}/run`);
  await lockStore({ storeDir: dir.path, tag: `${dir.path}/run` });
  const waiting = lockStore({ storeDir: dir.path, tag: "/o", signal: abort.signal });
  abort.abort(new Error("enough"));
  await assert.rejects(waiting, /^Error: enough$/);
});
