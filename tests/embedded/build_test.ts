import assert from "node:assert/strict";
import { programPlatform, putInside } from "../../lib/embedded/build.ts";
import { sha256Hex } from "../../lib/embedded/download.ts";
import { unpackInside } from "../../lib/embedded/inside.ts";
import { natsServerBinary } from "../helpers/nats_server.ts";
import { KeptLog, script, tempDir } from "./support.ts";

/** The first bytes of a program for some platform. */
function program(magic: readonly number[], at: number, machine: number): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(128);
  bytes.set(magic);
  new DataView(bytes.buffer).setUint32(at, machine, true);
  return bytes;
}

function pe(machine: number): Uint8Array<ArrayBuffer> {
  const bytes = program([0x4d, 0x5a], 60, 80);
  bytes.set([0x50, 0x45, 0, 0, machine & 0xff, machine >> 8], 80);
  return bytes;
}

const ELF_AARCH64 = program([0x7f, 0x45, 0x4c, 0x46], 18, 183);

Deno.test("what a program runs on is read from its first bytes", async () => {
  const own = await Deno.readFile(await natsServerBinary());
  assert.deepEqual(programPlatform(own), { os: Deno.build.os, arch: Deno.build.arch });
  assert.deepEqual(programPlatform(ELF_AARCH64), { os: "linux", arch: "aarch64" });
  assert.deepEqual(programPlatform(program([0xcf, 0xfa, 0xed, 0xfe], 4, 0x0100000c)), {
    os: "darwin",
    arch: "aarch64",
  });
  assert.deepEqual(programPlatform(pe(0x8664)), { os: "windows", arch: "x86_64" });
  assert.equal(programPlatform(pe(0x14c)), null);
  assert.equal(programPlatform(new Uint8Array(128)), null);
  assert.equal(programPlatform(new Uint8Array(10)), null);
});

Deno.test("what the build puts inside is what the executable unpacks", async () => {
  await using dir = await tempDir();
  const binary = await natsServerBinary();
  const folder = `${dir.path}/bin`;
  const target = Deno.build.target;
  const logger = new KeptLog();
  const note = await putInside({ folder, target, binary, downloadUrl: null, logger });
  const bytes = await Deno.readFile(binary);
  assert.equal(note.sha256, await sha256Hex(bytes));
  const path = (await unpackInside(folder, `${dir.path}/cache`))!;
  assert.deepEqual(await Deno.readFile(path), bytes);
});

Deno.test("a nats-server for another platform than the target is refused", async () => {
  await using dir = await tempDir();
  const binary = `${dir.path}/nats-server`;
  await Deno.writeFile(binary, ELF_AARCH64);
  const other = Deno.build.arch === "x86_64" ? "aarch64" : "x86_64";
  const put = (target: string, file: string) =>
    putInside({
      folder: `${dir.path}/bin`,
      target,
      binary: file,
      downloadUrl: null,
      logger: new KeptLog(),
    });
  const note = await put("aarch64-unknown-linux-gnu", binary).catch((error) => error.message);
  if (other === "aarch64") assert.equal(note.version, "unknown");
  await assert.rejects(put(`${other}-pc-windows-msvc`, binary), /is for linux aarch64, but/);
  await assert.rejects(
    put("aarch64-apple-darwin", await script(`${dir.path}/script`, "echo nats-server: v2.15.2")),
    /is no known program, but aarch64-apple-darwin is asked for/,
  );
  await assert.rejects(
    put("riscv64-unknown-linux-gnu", binary),
    /no target that deno compile knows/,
  );
});
