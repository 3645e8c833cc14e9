/**
 * Unguessable ids. Whoever knows an id could send events for it, so all have 128 random bits.
 * @module
 */
import { HEX } from "../protocol/hex.ts";

const POOL_BYTES = 4096;
const pool = new Uint8Array(POOL_BYTES);
let used = POOL_BYTES;

function take(bytes: number): number {
  if (used + bytes > POOL_BYTES) {
    crypto.getRandomValues(pool);
    used = 0;
  }
  used += bytes;
  return used - bytes;
}

/** 32 lower-case hex digits, as nats-proxy makes its ids. */
export function newId(): string {
  const from = take(16);
  let id = "";
  for (let i = from; i < from + 16; i++) id += HEX[pool[i]!];
  pool.fill(0, from, from + 16);
  return id;
}

const EPOCH_BYTES = 8;
const EPOCH_POOL_BYTES = 2048;
let epochs = new Uint8Array(0);
let epochsUsed = 0;

/**
 * The 8 random octets that tell one execution of a request from another (extensions.md section 1): a
 * view of a block that is filled once and never used again, since an array of its own costs ten times
 * as much.
 */
export function newEpoch(): Uint8Array {
  if (epochsUsed === epochs.length) {
    epochs = crypto.getRandomValues(new Uint8Array(EPOCH_POOL_BYTES));
    epochsUsed = 0;
  }
  const from = epochsUsed;
  epochsUsed += EPOCH_BYTES;
  return epochs.subarray(from, epochsUsed);
}
