/**
 * Buffers that connections lend from one pool of the process, so that a connection which has
 * nothing to read or write holds none.
 * @module
 */

/** Smallest buffer that is handed out. */
export const SMALLEST_BUFFER_BYTES = 4 * 1024;
/** Largest buffer that is kept; larger ones are left to the garbage collector. */
export const LARGEST_POOLED_BYTES = 1024 * 1024;
/** All free buffers together never hold more than this. */
export const POOL_LIMIT_BYTES = 32 * 1024 * 1024;

/** One stack for each size class: 4 KiB, 8 KiB, … 1 MiB. */
const classes: Uint8Array<ArrayBuffer>[][] = [];
for (let size = SMALLEST_BUFFER_BYTES; size <= LARGEST_POOLED_BYTES; size *= 2) classes.push([]);
let freeBytes = 0;

/** Index of the smallest class that holds `bytes`: 4096 -> 0, 4097 -> 1. */
function classOf(bytes: number): number {
  return bytes <= SMALLEST_BUFFER_BYTES ? 0 : 20 - Math.clz32(bytes - 1);
}

/**
 * Takes a buffer of at least `minBytes`: the next power of two from 4 KiB on. Its content is what
 * the last user left in it. Who takes a buffer gives it back with {@link returnBuffer}, or drops it.
 */
export function takeBuffer(minBytes: number): Uint8Array<ArrayBuffer> {
  const index = classOf(minBytes);
  const pooled = classes[index]?.pop();
  if (pooled === undefined) return new Uint8Array(2 ** (index + 12));
  freeBytes -= pooled.length;
  return pooled;
}

/**
 * Gives a buffer back. The caller must hold no view of it any more, and no read or write into it may
 * be in flight. Buffers that did not come from {@link takeBuffer} and what is over the limit of the
 * pool are dropped.
 */
export function returnBuffer(buffer: Uint8Array<ArrayBuffer>): void {
  const bytes = buffer.length;
  if (bytes > LARGEST_POOLED_BYTES || bytes !== buffer.buffer.byteLength) return;
  if (freeBytes + bytes > POOL_LIMIT_BYTES) return;
  const index = classOf(bytes);
  if (bytes !== 2 ** (index + 12)) return;
  classes[index]?.push(buffer);
  freeBytes += bytes;
}

/** Bytes that lie free in the pool now, for tests and metrics. */
export function pooledBytes(): number {
  return freeBytes;
}
