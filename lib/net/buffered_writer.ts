/**
 * Collects small writes and hands them to a socket in large ones.
 * @module
 */

import { LARGEST_POOLED_BYTES, returnBuffer, takeBuffer } from "./buffer_pool.ts";

/** What a {@link BufferedWriter} writes to: a `Deno.Conn` or anything with its `write`. */
export interface WriteSink {
  /** Writes a beginning of `bytes`, at least one octet, and says how much it took. */
  write(bytes: Uint8Array): Promise<number>;
}

export interface BufferedWriterOptions {
  /** Size of a fresh output buffer, in bytes; it doubles as needed. @default {16384} */
  readonly capacityBytes?: number;
  /** `drained()` resolves at or below so many pending bytes. @default {capacityBytes} */
  readonly lowMarkBytes?: number;
  /** Called once when a write to the sink fails; not called for {@link BufferedWriter.fail}. */
  readonly onError?: (error: Error) => void;
  /** Called after each write that the sink took, when `pendingBytes` has become less. */
  readonly onTaken?: () => void;
}

const DEFAULT_CAPACITY_BYTES = 16 * 1024;

/**
 * An output buffer in front of one sink. What is written within one turn goes out in one write, what
 * arrives during a write goes out in the next one; there is never a second write before the first
 * has ended. Two buffers are swapped, taken from the pool when there is something to write and given
 * back when all is written, so an idle writer holds no memory and a grown one shrinks.
 *
 * There is no bound in here: a caller that can outrun its sink looks at `pendingBytes` and awaits
 * {@link BufferedWriter.drained}.
 */
export class BufferedWriter {
  readonly #sink: WriteSink;
  readonly #capacityBytes: number;
  readonly #lowMarkBytes: number;
  readonly #onError: ((error: Error) => void) | undefined;
  readonly #onTaken: (() => void) | undefined;
  /** Being filled; null while nothing is. */
  #filling: Uint8Array<ArrayBuffer> | null = null;
  #filled = 0;
  /** Bytes of the buffer in flight that the sink has not taken yet. */
  #inFlight = 0;
  #writing = false;
  #scheduled = false;
  #failed: Error | null = null;
  #drainWaiters: (() => void)[] = [];
  #flushWaiters: { resolve: () => void; reject: (error: Error) => void }[] = [];

  constructor(sink: WriteSink, options: BufferedWriterOptions = {}) {
    this.#sink = sink;
    this.#capacityBytes = options.capacityBytes ?? DEFAULT_CAPACITY_BYTES;
    this.#lowMarkBytes = options.lowMarkBytes ?? this.#capacityBytes;
    this.#onError = options.onError;
    this.#onTaken = options.onTaken;
  }

  /** Bytes that were accepted and that the sink has not taken yet; 0 after a failure. */
  get pendingBytes(): number {
    return this.#filled + this.#inFlight;
  }

  /** Why nothing is written any more, or null. */
  get failed(): Error | null {
    return this.#failed;
  }

  /** Copies `bytes[start..end)`; the caller may reuse its buffer at once. Ignored after a failure. */
  write(bytes: Uint8Array, start = 0, end = bytes.length): void {
    if (this.#failed !== null || end <= start) return;
    const at = this.reserve(end - start);
    this.buffer.set(start === 0 && end === bytes.length ? bytes : bytes.subarray(start, end), at);
    this.commit(end - start);
  }

  /**
   * Makes room for `bytes` more octets, to be encoded in place: the caller fills
   * {@link BufferedWriter.buffer} from the returned offset on and calls {@link BufferedWriter.commit}
   * in the same turn. What is not committed was never there. Works after a failure too, for nothing.
   */
  reserve(bytes: number): number {
    const need = this.#filled + bytes;
    const old = this.#filling;
    if (old === null) {
      this.#filling = takeBuffer(Math.max(need, this.#capacityBytes));
    } else if (need > old.length) {
      const grown = takeBuffer(Math.max(need, old.length * 2));
      grown.set(old.subarray(0, this.#filled));
      returnBuffer(old);
      this.#filling = grown;
    }
    return this.#filled;
  }

  /** The buffer that {@link BufferedWriter.reserve} spoke of; another one after the next reserve. */
  get buffer(): Uint8Array<ArrayBuffer> {
    return this.#filling ??= takeBuffer(this.#capacityBytes);
  }

  /** Accepts `bytes` octets that were encoded behind the offset of the last reserve. */
  commit(bytes: number): void {
    if (this.#failed === null) this.#filled += bytes;
    if (this.#filled === 0) return this.#release();
    if (this.#writing || this.#scheduled) return;
    this.#scheduled = true;
    queueMicrotask(this.#start);
  }

  /** Starts the write now and not at the end of the turn, unless one is in flight. */
  flushNow(): void {
    if (!this.#writing && this.#filled > 0 && this.#failed === null) void this.#run();
  }

  /** Resolves when `pendingBytes` is at or below the low mark, and after a failure. */
  drained(): Promise<void> {
    if (this.#failed !== null || this.pendingBytes <= this.#lowMarkBytes) return Promise.resolve();
    return new Promise((resolve) => this.#drainWaiters.push(resolve));
  }

  /**
   * Resolves when the sink has taken everything, also what was written after this call.
   * Rejects with the failure when the writer fails first.
   */
  flushed(): Promise<void> {
    if (this.#failed !== null) return Promise.reject(this.#failed);
    if (this.pendingBytes === 0) return Promise.resolve();
    return new Promise((resolve, reject) => this.#flushWaiters.push({ resolve, reject }));
  }

  /** Ends the writer: what is pending is dropped, waiters are woken. The first reason stays. */
  fail(error: Error): void {
    if (this.#failed !== null) return;
    this.#failed = error;
    this.#inFlight = 0;
    this.#release();
    this.#wakeDrained();
    const waiters = this.#flushWaiters;
    this.#flushWaiters = [];
    for (const waiter of waiters) waiter.reject(error);
  }

  readonly #start = (): void => {
    this.#scheduled = false;
    if (!this.#writing && this.#filled > 0) void this.#run();
  };

  async #run(): Promise<void> {
    this.#writing = true;
    // Kept from one round to the next while there is more, so that two buffers do for a busy sink.
    let spare: Uint8Array<ArrayBuffer> | null = null;
    while (this.#filling !== null && this.#filled > 0) {
      const buffer: Uint8Array<ArrayBuffer> = this.#filling;
      const end = this.#filled;
      this.#filling = spare;
      spare = null;
      this.#filled = 0;
      this.#inFlight = end;
      try {
        for (let at = 0; at < end && this.#failed === null;) {
          const view = at === 0 && end === buffer.length ? buffer : buffer.subarray(at, end);
          const taken = await this.#sink.write(view);
          if (taken <= 0) throw new Error("the sink took no bytes");
          at += taken;
          if (this.#failed === null) this.#inFlight = end - at;
          if (this.#failed === null) this.#onTaken?.();
          if (this.#drainWaiters.length > 0 && this.pendingBytes <= this.#lowMarkBytes) {
            this.#wakeDrained();
          }
        }
      } catch (thrown) {
        const error = thrown instanceof Error ? thrown : new Error(String(thrown));
        const first = this.#failed === null;
        this.fail(error);
        if (first) this.#onError?.(error);
      }
      // A buffer too large for the pool is dropped, not kept: a burst must not cost memory for long.
      if (buffer.length > LARGEST_POOLED_BYTES || this.#failed !== null) returnBuffer(buffer);
      else spare = buffer;
    }
    this.#writing = false;
    if (spare !== null) returnBuffer(spare);
    if (this.#filled === 0) this.#release();
    if (this.#failed === null && this.#flushWaiters.length > 0) {
      const waiters = this.#flushWaiters;
      this.#flushWaiters = [];
      for (const waiter of waiters) waiter.resolve();
    }
  }

  #release(): void {
    this.#filled = 0;
    if (this.#filling === null) return;
    returnBuffer(this.#filling);
    this.#filling = null;
  }

  #wakeDrained(): void {
    const waiters = this.#drainWaiters;
    this.#drainWaiters = [];
    for (const wake of waiters) wake();
  }
}
