import assert from "node:assert/strict";
import { UnpackError, unpackProgram } from "../../lib/embedded/unpack.ts";
import { type ArchiveEntry, tarGz, zip } from "./support.ts";

const TEXT = new TextEncoder();
const PROGRAM = Uint8Array.from({ length: 5000 }, (_, i) => (i * i) & 0xff);
const RELEASE: ArchiveEntry[] = [
  { name: "nats-server-v2.15.2-linux-amd64/", body: new Uint8Array(), type: "5" },
  { name: "nats-server-v2.15.2-linux-amd64/README.md", body: TEXT.encode("read me") },
  { name: "nats-server-v2.15.2-linux-amd64/nats-server", body: PROGRAM },
  { name: "nats-server-v2.15.2-linux-amd64/LICENSE", body: TEXT.encode("licence") },
];

Deno.test("the program is taken out of a tar.gz and out of both kinds of zip", async () => {
  const archives = [
    ["a.tar.gz", await tarGz(RELEASE)],
    ["a.zip", await zip(RELEASE, false)],
    ["a.zip", await zip(RELEASE, true)],
  ] as const;
  for (const [name, archive] of archives) {
    assert.deepEqual(await unpackProgram(archive, name, "nats-server"), PROGRAM);
  }
});

Deno.test("a link or a folder with the program's name is not the program", async () => {
  const archive = await tarGz([
    { name: "x/nats-server", body: TEXT.encode("/etc/passwd"), type: "2" },
    { name: "../../nats-server/", body: new Uint8Array(), type: "5" },
    { name: "../../nats-server", body: PROGRAM },
  ]);
  assert.deepEqual(await unpackProgram(archive, "a.tar.gz", "nats-server"), PROGRAM);
});

Deno.test("an archive without the program is refused", async () => {
  const others = RELEASE.filter(({ name }) => !name.endsWith("nats-server"));
  for (
    const [name, archive] of [["a.tar.gz", await tarGz(others)], [
      "a.zip",
      await zip(others, true),
    ]] as const
  ) {
    await assert.rejects(
      unpackProgram(archive, name, "nats-server"),
      new UnpackError("the archive holds no nats-server"),
    );
  }
});

Deno.test("an archive that holds more than the limit is refused, also a small one that swells", async () => {
  const large: ArchiveEntry[] = [{ name: "nats-server", body: new Uint8Array(100_000) }];
  for (
    const [name, archive] of [["a.tar.gz", await tarGz(large)], [
      "a.zip",
      await zip(large, true),
    ]] as const
  ) {
    await assert.rejects(unpackProgram(archive, name, "nats-server", 99_999), UnpackError);
    assert.equal((await unpackProgram(archive, name, "nats-server", 100_000)).length, 100_000);
  }
  const swollen = await tarGz([{ name: "other", body: new Uint8Array(20_000_000) }]);
  assert.ok(swollen.length < 100_000);
  await assert.rejects(
    unpackProgram(swollen, "a.tar.gz", "nats-server", 1000),
    /holds more than \d+ bytes/,
  );
});

Deno.test("a zip entry whose size is a lie is refused", async () => {
  const archive = await zip([{ name: "nats-server", body: PROGRAM }], true);
  const view = new DataView(archive.buffer);
  const entry = view.getUint32(archive.length - 22 + 16, true);
  for (const size of [PROGRAM.length - 1, PROGRAM.length + 1]) {
    view.setUint32(entry + 24, size, true);
    await assert.rejects(unpackProgram(archive, "a.zip", "nats-server"), UnpackError);
  }
});

Deno.test("an archive that is cut or changed anywhere gives an UnpackError or the right program", async () => {
  for (
    const [name, archive] of [["a.tar.gz", await tarGz(RELEASE)], [
      "a.zip",
      await zip(RELEASE, true),
    ]] as const
  ) {
    for (let at = 0; at < archive.length; at += 7) {
      const changed = archive.slice();
      changed[at]! ^= 0x55;
      for (const bad of [archive.slice(0, at), changed]) {
        try {
          const program = await unpackProgram(bad, name, "nats-server");
          // A zip has its hash outside: changed content is found by the download's own check.
          if (bad === changed) continue;
          assert.fail(`${name} cut at ${at} gave ${program.length} bytes`);
        } catch (error) {
          if (!(error instanceof UnpackError)) throw error;
        }
      }
    }
  }
});
