import assert from "node:assert/strict";
import { sha256Hex } from "../../lib/embedded/download.ts";
import { unpackInside } from "../../lib/embedded/inside.ts";
import { namesIn, tempDir } from "./support.ts";

async function fill(folder: string, text: string, note: object = {}): Promise<void> {
  await Deno.mkdir(folder, { recursive: true });
  const bytes = new TextEncoder().encode(text);
  const sha256 = await sha256Hex(bytes);
  await Deno.writeFile(`${folder}/nats-server`, bytes);
  const whole = { version: "2.15.2", sha256, bytes: bytes.length, ...note };
  await Deno.writeTextFile(`${folder}/nats-server.json`, JSON.stringify(whole));
}

Deno.test("the nats-server inside is unpacked once, by version and hash, and can be run", async () => {
  await using dir = await tempDir();
  const [inside, cache] = [`${dir.path}/bin`, `${dir.path}/cache`];
  assert.equal(await unpackInside(inside, cache), null);
  await fill(inside, "#!/bin/sh\necho one\n");
  const path = (await unpackInside(inside, cache))!;
  assert.match(path, /\/nats-server-v2\.15\.2-[0-9a-f]{16}$/);
  const output = await new Deno.Command(path).output();
  assert.equal(new TextDecoder().decode(output.stdout), "one\n");
  const before = await Deno.stat(path);
  assert.equal(await unpackInside(inside, cache), path);
  assert.equal((await Deno.stat(path)).ino, before.ino);
  await fill(inside, "#!/bin/sh\necho two\n");
  assert.notEqual(await unpackInside(inside, cache), path);
  assert.equal((await namesIn(cache)).length, 2);
});

Deno.test("a cached copy of another size is replaced", async () => {
  await using dir = await tempDir();
  await fill(`${dir.path}/bin`, "whole");
  const path = (await unpackInside(`${dir.path}/bin`, dir.path))!;
  await Deno.writeTextFile(path, "who");
  await unpackInside(`${dir.path}/bin`, dir.path);
  assert.equal(await Deno.readTextFile(path), "whole");
});

Deno.test("several processes may unpack at once", async () => {
  await using dir = await tempDir();
  await fill(`${dir.path}/bin`, "x".repeat(1_000_000));
  const paths = await Promise.all(
    Array.from({ length: 8 }, () => unpackInside(`${dir.path}/bin`, `${dir.path}/cache`)),
  );
  assert.equal(new Set(paths).size, 1);
  assert.equal((await namesIn(`${dir.path}/cache`)).length, 1);
});

Deno.test("a damaged content or note is refused and nothing is written", async () => {
  await using dir = await tempDir();
  const [inside, cache] = [`${dir.path}/bin`, `${dir.path}/cache`];
  const notes = [{ sha256: "0".repeat(64) }, { bytes: 3 }, { version: "../x" }, { sha256: "../x" }];
  for (const note of notes) {
    await fill(inside, "content", note);
    await assert.rejects(unpackInside(inside, cache), /damaged/);
  }
  assert.deepEqual(await namesIn(cache), []);
});
