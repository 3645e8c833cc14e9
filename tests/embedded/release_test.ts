import assert from "node:assert/strict";
import { defaultCacheDir, serverEnvironment } from "../../lib/embedded/places.ts";
import {
  archiveName,
  hashInList,
  isAtLeast,
  OFFICIAL_RELEASE_URL,
  parseVersion,
  printableUrl,
} from "../../lib/embedded/release.ts";

Deno.test("archives are named as the nats-server project names them", () => {
  const names = [
    ["linux", "x86_64", "nats-server-v2.15.2-linux-amd64.tar.gz"],
    ["linux", "aarch64", "nats-server-v2.15.2-linux-arm64.tar.gz"],
    ["darwin", "aarch64", "nats-server-v2.15.2-darwin-arm64.tar.gz"],
    ["windows", "x86_64", "nats-server-v2.15.2-windows-amd64.zip"],
    ["freebsd", "aarch64", null],
    ["illumos", "x86_64", null],
  ] as const;
  for (const [os, arch, name] of names) assert.equal(archiveName({ os, arch }), name);
  assert.match(OFFICIAL_RELEASE_URL, /\/nats-io\/nats-server\/releases\/download\/v2\.15\.2\/$/);
});

Deno.test("a version is read from what nats-server prints, and compared by number", () => {
  assert.deepEqual(parseVersion("nats-server: v2.15.2\n"), [2, 15, 2]);
  assert.deepEqual(parseVersion("nats-server: v2.10.0-RC.1"), [2, 10, 0]);
  assert.deepEqual(parseVersion("nats-server: 2.9.10"), [2, 9, 10]);
  for (const text of ["", "nats: v0.5.0", "nats-server: dev", "nats-server: v2.9"]) {
    assert.equal(parseVersion(text), null, text);
  }
  assert.ok(isAtLeast([2, 9, 0], [2, 9, 0]));
  assert.ok(isAtLeast([2, 15, 0], [2, 9, 3]));
  assert.ok(isAtLeast([3, 0, 0], [2, 9, 0]));
  assert.ok(!isAtLeast([2, 8, 4], [2, 9, 0]));
  assert.ok(!isAtLeast([1, 15, 9], [2, 9, 0]));
});

Deno.test("a hash is found by the exact file name only", () => {
  const [a, b] = ["a".repeat(64), "b".repeat(64)];
  const list =
    `${a}  one.tar.gz\n${b.toUpperCase()} *two.zip\r\n${a}  x/three.zip\nshort  four.zip\n`;
  assert.equal(hashInList(list, "one.tar.gz"), a);
  assert.equal(hashInList(list, "two.zip"), b);
  for (const name of ["three.zip", "four.zip", "one.tar", "tar.gz", ""]) {
    assert.equal(hashInList(list, name), null, name);
  }
  assert.equal(hashInList(`${a}  one\n${b}  one\n`, "one"), null);
  assert.equal(hashInList(`${a}  one\n${a}  one\n`, "one"), a);
});

Deno.test("a printed URL holds no user, password or query", () => {
  const url = new URL("https://me:s3cret@mirror.example:8443/nats/?token=s3cret#s3cret");
  assert.equal(printableUrl(url), "https://mirror.example:8443/nats/");
});

Deno.test("the cache is where the system's rules say", () => {
  const dir = (vars: Record<string, string>, os = "linux") =>
    defaultCacheDir((name) => vars[name], os);
  assert.equal(dir({ XDG_CACHE_HOME: "/c", HOME: "/h" }), "/c/natsway");
  assert.equal(dir({ HOME: "/h" }), "/h/.cache/natsway");
  assert.equal(dir({ XDG_CACHE_HOME: "relative", HOME: "/h" }), "/h/.cache/natsway");
  assert.equal(dir({ LOCALAPPDATA: "C:\\l" }, "windows"), "C:\\l\\natsway");
  assert.throws(() => dir({}), /neither XDG_CACHE_HOME nor HOME is set/);
});

Deno.test("a nats-server gets nothing of natsway's environment that may be a secret", () => {
  const vars: Record<string, string> = { GOGC: "50", NATS_PASSWORD: "s3cret", PATH: "/mine" };
  assert.deepEqual(serverEnvironment((name) => vars[name]), { PATH: "/usr/bin:/bin", GOGC: "50" });
});
