import assert from "node:assert/strict";
import { newEpoch, newId } from "../../lib/flow/ids.ts";
import { hex } from "../../lib/protocol/hex.ts";
import { isIdToken } from "../../lib/protocol/subjects.ts";

Deno.test("newId makes one token of 32 hex digits, never twice", () => {
  const seen = new Set<string>();
  for (let i = 0; i < 20_000; i++) {
    const id = newId();
    assert.match(id, /^[0-9a-f]{32}$/);
    seen.add(id);
  }
  assert.equal(seen.size, 20_000);
  assert.ok(isIdToken([...seen][0]));
});

Deno.test("All 128 bits of an id and all 64 of an epoch vary", () => {
  const bits = (texts: string[]) => {
    let ones = 0n;
    let zeros = 0n;
    for (const text of texts) {
      const value = BigInt(`0x${text}`);
      ones |= value;
      zeros |= ~value;
    }
    return ones & zeros;
  };
  const ids = Array.from({ length: 300 }, newId);
  assert.equal(bits(ids), (1n << 128n) - 1n);
  const epochs = Array.from({ length: 300 }, () => hex(newEpoch()));
  assert.equal(bits(epochs), (1n << 64n) - 1n);
});

Deno.test("newEpoch makes 8 octets that no later id writes into", () => {
  const first = newEpoch();
  const copy = first.slice();
  for (let i = 0; i < 1000; i++) {
    newEpoch();
    newId();
  }
  assert.equal(first.length, 8);
  assert.deepEqual(first, copy);
});

Deno.test("hex writes two lower-case digits for each octet", () => {
  assert.equal(hex(new Uint8Array([0, 1, 0xab, 0xff])), "0001abff");
  assert.equal(hex(new Uint8Array(0)), "");
});
