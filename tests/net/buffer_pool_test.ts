import assert from "node:assert/strict";
import {
  LARGEST_POOLED_BYTES,
  POOL_LIMIT_BYTES,
  pooledBytes,
  returnBuffer,
  SMALLEST_BUFFER_BYTES,
  takeBuffer,
} from "../../lib/net/buffer_pool.ts";

Deno.test("takeBuffer gives the next power of two", () => {
  for (
    const [asked, given] of [
      [0, 4096],
      [1, 4096],
      [4096, 4096],
      [4097, 8192],
      [16 * 1024, 16 * 1024],
      [128 * 1024 + 1, 256 * 1024],
      [1024 * 1024, 1024 * 1024],
      [1024 * 1024 + 1, 2 * 1024 * 1024],
    ] as const
  ) {
    const buffer = takeBuffer(asked);
    assert.equal(buffer.length, given, `${asked} bytes`);
    returnBuffer(buffer);
  }
  assert.equal(SMALLEST_BUFFER_BYTES, 4096);
});

Deno.test("a buffer that was given back is handed out again, once", () => {
  const buffer = takeBuffer(5000);
  returnBuffer(buffer);
  assert.equal(takeBuffer(5000), buffer);
  assert.notEqual(takeBuffer(5000), buffer);
});

Deno.test("the pool keeps no more than its limit and no buffer over its largest class", () => {
  const before = pooledBytes();
  returnBuffer(takeBuffer(LARGEST_POOLED_BYTES + 1));
  assert.equal(pooledBytes(), before);
  const taken = Array.from({ length: 40 }, () => takeBuffer(LARGEST_POOLED_BYTES));
  for (const buffer of taken) returnBuffer(buffer);
  assert.ok(pooledBytes() <= POOL_LIMIT_BYTES, `${pooledBytes()} bytes are kept`);
  assert.ok(pooledBytes() >= POOL_LIMIT_BYTES - LARGEST_POOLED_BYTES);
  // Leaves the pool small for the other tests.
  for (let i = 0; i < 16; i++) takeBuffer(LARGEST_POOLED_BYTES);
});

Deno.test("the pool takes no views and no sizes that it does not hand out", () => {
  const before = pooledBytes();
  returnBuffer(new Uint8Array(8192).subarray(0, 4096));
  returnBuffer(new Uint8Array(5000));
  returnBuffer(new Uint8Array(2048));
  assert.equal(pooledBytes(), before);
});
