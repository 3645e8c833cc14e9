/**
 * redis-cli through a static forward.
 * @module
 */
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { startBridge } from "./support/bridge.ts";
import { MIB, randomBytes, sha256 } from "./support/files.ts";
import { run } from "./support/program.ts";
import { respCommand, startRedis } from "./support/redis.ts";

const COMMANDS = 50_000;
const LARGE_BYTES = 8 * MIB;

function keyOf(i: number): string {
  return `key:${String(i).padStart(6, "0")}`;
}

function valueOf(i: number): string {
  return `value ${i} ü ${"x".repeat(i % 97)}`;
}

Deno.test("redis-cli pipelines commands through a forward and every value arrives", async () => {
  await using redis = await startRedis();
  await using bridge = await startBridge({ forwardTo: [redis.port] });
  await bridge.explained(async () => {
    const far = ["-h", "127.0.0.1", "-p", `${bridge.forward(redis.port)}`];
    const direct = ["-h", "127.0.0.1", "-p", `${redis.port}`];
    const numbers = Array.from({ length: COMMANDS }, (_, i) => i);

    const sets = numbers.map((i) => respCommand("SET", keyOf(i), valueOf(i))).join("");
    const piped = await run("redis-cli", [...far, "--pipe"], { stdin: sets });
    assert.match(piped.text, new RegExp(`errors: 0, replies: ${COMMANDS}\\b`));

    // What the server has, asked without natsway: one digest over all values in the order of keys.
    const script = "local keys = redis.call('KEYS', 'key:*') table.sort(keys) local all = {} " +
      "for i, key in ipairs(keys) do all[i] = redis.call('GET', key) end " +
      "return {#keys, redis.sha1hex(table.concat(all))}";
    const stored = await run("redis-cli", [...direct, "--raw", "EVAL", script, "0"]);
    const values = numbers.map(valueOf);
    const sha1 = createHash("sha1").update(values.join("")).digest("hex");
    assert.deepEqual(stored.text.trim().split("\n"), [`${COMMANDS}`, sha1]);

    // All of them back through natsway, in answers of many keys each.
    const gets = numbers.filter((i) => i % 500 === 0)
      .map((from) => `MGET ${numbers.slice(from, from + 500).map(keyOf).join(" ")}\n`).join("");
    const back = await run("redis-cli", [...far, "--raw"], { stdin: gets });
    assert.equal(sha256(back.text), sha256(values.map((value) => `${value}\n`).join("")));
  });
});

Deno.test("redis-cli sends and gets a large value through a forward", async () => {
  await using redis = await startRedis();
  await using bridge = await startBridge({ forwardTo: [redis.port] });
  await bridge.explained(async () => {
    const far = ["-h", "127.0.0.1", "-p", `${bridge.forward(redis.port)}`];
    const large = randomBytes(LARGE_BYTES);
    const set = await run("redis-cli", [...far, "-x", "SET", "large"], { stdin: large });
    assert.equal(set.text.trim(), "OK");
    const got = await run("redis-cli", [...far, "--raw", "GET", "large"]);
    // redis-cli ends a raw answer with a line end of its own.
    assert.equal(sha256(got.stdout.subarray(0, -1)), sha256(large));
  });
});
