import { deepStrictEqual, match, strictEqual } from "node:assert/strict";
import { loadConfig, type LoadInput, SettingsError } from "../../lib/config/load.ts";

const NOTHING = { flags: {}, env: {}, isTerminal: false, readFile: () => "" };

function linesOf(input: Partial<LoadInput>): readonly string[] {
  try {
    loadConfig({ ...NOTHING, ...input });
    return [];
  } catch (error) {
    if (error instanceof SettingsError) return error.lines;
    throw error;
  }
}

const linesFor = (env: Record<string, string>) => linesOf({ env });

Deno.test("MAX_FLOWS times 16 KiB must fit into FLOW_MEMORY_BYTES, and the mistake names both", () => {
  deepStrictEqual(linesFor({ MAX_FLOWS: "16384" }), []);
  deepStrictEqual(linesFor({ MAX_FLOWS: "16385" }), [
    "MAX_FLOWS 16385 sets aside 16 KiB for each flow, which is over FLOW_MEMORY_BYTES 268435456: " +
    "accepted: FLOW_MEMORY_BYTES of at least 268451840, or MAX_FLOWS up to 16384",
  ]);
  deepStrictEqual(linesFor({ MAX_FLOWS: "1", FLOW_MEMORY_BYTES: "16384" }), []);
  match(linesFor({ MAX_FLOWS: "1", FLOW_MEMORY_BYTES: "16383" }).join(), /at least 16384$/);
});

Deno.test("a forward beyond loopback needs FORWARDS_PUBLIC", () => {
  const FORWARDS = "1=a:1,0.0.0.0:2=a:1,[::]:3=a:1,10.0.0.1:4=a:1,[::1]:5=a:1,localhost:6=a:1";
  deepStrictEqual(linesFor({ FORWARDS }), [
    "FORWARDS listens on 0.0.0.0:2, [::]:3, 10.0.0.1:4, beyond loopback: accepted: " +
    "FORWARDS_PUBLIC=true, or a bind host of localhost, 127.0.0.0/8 or ::1",
  ]);
  deepStrictEqual(linesFor({ FORWARDS, FORWARDS_PUBLIC: "true" }), []);
});

Deno.test("a mistake in one of two settings is told once, without the other", () => {
  deepStrictEqual(linesFor({ FORWARDS: "0.0.0.0:1=a:1", FORWARDS_PUBLIC: "yes" }), [
    'FORWARDS_PUBLIC "yes": accepted: true, false',
  ]);
  strictEqual(linesFor({ MAX_FLOWS: "1000000", FLOW_MEMORY_BYTES: "x" }).length, 1);
});

Deno.test("mistakes of new settings come together", () => {
  const lines = linesFor({
    SOCKS5_LISTEN_PORT: "65536",
    SOCKS5_LISTEN_HOST: "a b",
    FORWARDS: "1=a:1,1=b:1",
    HANDSHAKE_TIMEOUT: "0",
    IDLE_TIMEOUT: "-1",
    FLOW_MEMORY_BYTES: "0",
    TARGET_ALLOW: "10.0.0.0/99",
    TARGET_DENY: "*",
  });
  deepStrictEqual(lines.map((line) => line.split(" ", 1)[0]), [
    "HANDSHAKE_TIMEOUT",
    "IDLE_TIMEOUT",
    "FLOW_MEMORY_BYTES",
    "SOCKS5_LISTEN_HOST",
    "SOCKS5_LISTEN_PORT",
    "FORWARDS",
    "TARGET_ALLOW",
    "TARGET_DENY",
  ]);
  match(
    lines.join("\n"),
    /FORWARDS "1=a:1,1=b:1": 127\.0\.0\.1:1 is there twice; accepted: \[bind/,
  );
});

Deno.test("--forward and --forwards mean FORWARDS, several times, and add up", () => {
  const { config, sources } = loadConfig({
    ...NOTHING,
    flags: { forward: ["1=a:1", "2=b:2"], forwards: "3=c:3,4=d:4" },
    env: { FORWARDS: "9=z:9" },
  });
  deepStrictEqual(config.forwards.map((rule) => rule.port), [1, 2, 3, 4]);
  strictEqual(sources.forwards, "flag");
  match(
    linesOf({ flags: { forward: "x" } }).join(),
    /^--forward \(FORWARDS\) "x": "x" is no forward/,
  );
  match(linesOf({ flags: { forwrad: "x" } }).join(), /the nearest is --forward$/);
});

Deno.test("SOCKS5 and forwards have no effect on a receiver, target rules none on a requester", () => {
  const warnings = (env: Record<string, string>) =>
    loadConfig({ ...NOTHING, env }).warnings.filter((line) => line.includes("no effect"));
  deepStrictEqual(
    warnings({ UPSTREAM_URL: "http://h", SOCKS5_ENABLED: "true", FORWARDS: "1=a:1" }),
    [
      "SOCKS5_ENABLED has no effect on a receiver; it is for a requester",
      "FORWARDS has no effect on a receiver; it is for a requester",
    ],
  );
  deepStrictEqual(warnings({ TARGET_ALLOW: "h", TARGET_DENY: "h" }), [
    "TARGET_ALLOW has no effect on a requester; it is for a receiver",
    "TARGET_DENY has no effect on a requester; it is for a receiver",
  ]);
});
