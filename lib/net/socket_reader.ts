/**
 * The input side of a socket: one buffer from the pool, at most one read in flight.
 * @module
 */
import { returnBuffer, SMALLEST_BUFFER_BYTES, takeBuffer } from "./buffer_pool.ts";

/** What a {@linkcode SocketReader} reads from. */
export interface ReadSource {
  read(into: Uint8Array): Promise<number | null>;
}

/** Largest buffer that a reader grows to by itself, in bytes. */
const LARGEST_READ_BYTES = 128 * 1024;

/**
 * Unread octets are `buffer[start..end)`. Whoever takes some moves `start` on. Views of the buffer are
 * good until the next call of {@linkcode SocketReader.more}.
 */
export class SocketReader {
  readonly #source: ReadSource;
  #buffer: Uint8Array<ArrayBuffer> | null = null;
  #pending: Promise<boolean> | null = null;
  /** Octets to make room for at the next read; doubles while reads fill their room. */
  #room = SMALLEST_BUFFER_BYTES;
  /** Octets that the read in flight may bring. */
  #asked = 0;
  #ended = false;
  #closed = false;
  /** Offset of the first unread octet. */
  start = 0;
  /** Offset behind the last octet that was read. */
  end = 0;

  constructor(source: ReadSource) {
    this.#source = source;
  }

  /** The buffer that `start` and `end` speak of. */
  get buffer(): Uint8Array {
    return this.#buffer ?? EMPTY;
  }

  /** Octets that were read and not taken yet. */
  get unread(): number {
    return this.end - this.start;
  }

  /** Whether the source has said that no more will come. */
  get ended(): boolean {
    return this.#ended;
  }

  /** Whether a read is in flight. */
  get reading(): boolean {
    return this.#pending !== null;
  }

  /**
   * Reads once more: resolves true when there are new octets, false at the end of input. While a read
   * is in flight all callers share it. Rejects with the error of the source.
   */
  more(): Promise<boolean> {
    if (this.#pending !== null) return this.#pending;
    if (this.#ended) return Promise.resolve(false);
    const buffer = this.#makeRoom();
    this.#asked = buffer.length - this.end;
    const pending = this.#source.read(this.end === 0 ? buffer : buffer.subarray(this.end))
      .then(this.#onRead, this.#onFailed);
    this.#pending = pending;
    return pending;
  }

  /** Gives the buffer back once no read is in flight; nothing can be read afterwards. */
  close(): void {
    this.#closed = true;
    this.#ended = true;
    if (this.#pending === null) this.#release();
  }

  // Two functions for all reads: an async function for each costs more than the rest of a read.
  readonly #onRead = (count: number | null): boolean => {
    this.#pending = null;
    if (count === null) this.#ended = true;
    else {
      this.end += count;
      if (count === this.#asked && this.#room < LARGEST_READ_BYTES) this.#room *= 2;
      else if (count < this.#room / 4 && this.#room > SMALLEST_BUFFER_BYTES) this.#room /= 2;
    }
    if (this.#closed) this.#release();
    return count !== null;
  };

  readonly #onFailed = (error: unknown): never => {
    this.#pending = null;
    this.#ended = true;
    if (this.#closed) this.#release();
    throw error;
  };

  #makeRoom(): Uint8Array<ArrayBuffer> {
    const unread = this.end - this.start;
    let buffer = this.#buffer;
    if (buffer !== null && unread === 0 && buffer.length === this.#room) {
      this.start = this.end = 0;
      return buffer;
    }
    // At least half of the buffer is free for the read, so a long message costs few copies.
    const want = Math.max(this.#room, unread * 2);
    if (buffer !== null && buffer.length >= want && buffer.length <= want * 2) {
      if (buffer.length - this.end < this.#room / 2 || unread === 0) {
        buffer.copyWithin(0, this.start, this.end);
        this.start = 0;
        this.end = unread;
      }
      return buffer;
    }
    const next = takeBuffer(want);
    if (buffer !== null) {
      next.set(buffer.subarray(this.start, this.end));
      returnBuffer(buffer);
    }
    buffer = next;
    this.#buffer = buffer;
    this.start = 0;
    this.end = unread;
    return buffer;
  }

  #release(): void {
    if (this.#buffer !== null) returnBuffer(this.#buffer);
    this.#buffer = null;
    this.start = this.end = 0;
  }
}

const EMPTY = new Uint8Array(0);
