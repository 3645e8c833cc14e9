/**
 * The bytes of a lane that its consumer has not acknowledged, kept to be sent again.
 * @module
 */
import { returnBuffer, SMALLEST_BUFFER_BYTES, takeBuffer } from "../net/buffer_pool.ts";
import { LANE_RESERVE_BYTES, type MemoryBudget } from "./memory_budget.ts";

const LARGEST_CHUNK_BYTES = 128 * 1024;

interface Chunk {
  readonly buffer: Uint8Array<ArrayBuffer>;
  /** Number of the first byte. */
  readonly start: number;
  used: number;
}

/**
 * A queue of bytes with numbers. What counts against the budget is the memory that is held, not the
 * bytes in it.
 */
export class KeptBytes {
  readonly #budget: MemoryBudget;
  #chunks: Chunk[] = [];
  #start: number;
  #end: number;
  #extraBytes = 0;
  #capacityBytes = 0;

  /** @param start number of the first byte that will be appended */
  constructor(budget: MemoryBudget, start: number) {
    this.#budget = budget;
    this.#start = this.#end = start;
  }

  /** Number of the first byte that is kept. */
  get start(): number {
    return this.#start;
  }

  /** Number behind the last byte. */
  get end(): number {
    return this.#end;
  }

  /** Memory held, in bytes, with what {@linkcode KeptBytes.setExtra} added. */
  get capacityBytes(): number {
    return this.#capacityBytes;
  }

  /** How many bytes may be appended now. */
  get roomBytes(): number {
    const tail = this.#chunks.at(-1);
    const left = tail === undefined ? 0 : tail.buffer.length - tail.used;
    return left + this.#affordableBytes;
  }

  /** Counts memory that is held elsewhere for this lane; it may go beyond the budget. */
  setExtra(bytes: number): void {
    const before = this.#extraBytes;
    this.#extraBytes = bytes;
    this.#resize(bytes - before);
  }

  /** Copies `bytes`, which must not exceed `roomBytes`. */
  append(bytes: Uint8Array): void {
    let at = 0;
    while (at < bytes.length) {
      let tail = this.#chunks.at(-1);
      if (tail === undefined || tail.used === tail.buffer.length) {
        tail = this.#addChunk(bytes.length - at);
      }
      const size = Math.min(bytes.length - at, tail.buffer.length - tail.used);
      const whole = at === 0 && size === bytes.length;
      tail.buffer.set(whole ? bytes : bytes.subarray(at, at + size), tail.used);
      tail.used += size;
      at += size;
    }
    this.#end += bytes.length;
  }

  /** Drops all below the number `to`; buffers go back to the pool when nothing of them is left. */
  release(to: number): void {
    if (to <= this.#start) return;
    this.#start = Math.min(to, this.#end);
    let freed = 0;
    while (this.#chunks.length > 0) {
      const chunk = this.#chunks[0]!;
      const done = chunk.start + chunk.used <= this.#start;
      if (!done) break;
      this.#chunks.shift();
      freed += chunk.buffer.length;
      returnBuffer(chunk.buffer);
    }
    if (freed > 0) this.#resize(-freed);
  }

  /** A view of at most `maxBytes` from the number `from` on: what lies together; at least one byte. */
  view(from: number, maxBytes: number): Uint8Array {
    for (const { buffer, start, used } of this.#chunks) {
      const at = from - start;
      if (at >= used) continue;
      return buffer.subarray(at, Math.min(used, at + maxBytes));
    }
    return EMPTY;
  }

  /** Drops everything. */
  clear(): void {
    this.release(this.#end);
    this.setExtra(0);
  }

  /** What new chunks may take, in whole pieces of the pool. */
  get #affordableBytes(): number {
    const ownBytes = Math.max(0, LANE_RESERVE_BYTES - this.#capacityBytes);
    const bytes = ownBytes + Math.max(0, this.#budget.freeBytes);
    return bytes - bytes % SMALLEST_BUFFER_BYTES;
  }

  #addChunk(wantBytes: number): Chunk {
    // Large chunks for lanes in full flight, so that a resend takes few frames.
    const want = Math.max(wantBytes, (this.#end - this.#start) / 2);
    let size = SMALLEST_BUFFER_BYTES;
    while (size < want && size < LARGEST_CHUNK_BYTES) size *= 2;
    // With little budget small ones, so that each acknowledgement makes room again.
    const most = this.#affordableBytes / 2;
    while (size > most && size > SMALLEST_BUFFER_BYTES) size /= 2;
    const last = this.#chunks.at(-1);
    const start = last === undefined ? this.#end : last.start + last.used;
    const chunk: Chunk = { buffer: takeBuffer(size), start, used: 0 };
    this.#chunks.push(chunk);
    this.#resize(chunk.buffer.length);
    return chunk;
  }

  #resize(bytes: number): void {
    const before = Math.max(0, this.#capacityBytes - LANE_RESERVE_BYTES);
    this.#capacityBytes += bytes;
    this.#budget.change(before, Math.max(0, this.#capacityBytes - LANE_RESERVE_BYTES));
  }
}

const EMPTY = new Uint8Array(0);
