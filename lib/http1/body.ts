/**
 * Finds the body of a message in what follows its head (RFC 9112 §6, §7.1).
 * @module
 */

import { CRLF } from "./encode.ts";
import { HttpSyntaxError } from "./error.ts";
import { FieldId } from "./field.ts";
import { type Fields } from "./fields.ts";
import { type Framing } from "./framing.ts";
import { CR, HEX, HTAB, LF, SEMICOLON, SP, VALUE } from "./octets.ts";
import { parseFieldBlock } from "./parse.ts";

/** Hexadecimal digits that a chunk size may have; as a number it stays a safe integer. */
const MAX_SIZE_DIGITS = 16;

/** Octets of extensions behind one chunk size. */
const MAX_EXTENSION_BYTES = 1024;

const DEFAULT_MAX_TRAILER_BYTES = 8192;

/** What the next octet belongs to. */
const State = {
  /** `remaining` octets of a body whose length was declared. */
  Length: 0,
  UntilClose: 1,
  /** A digit of the chunk size, or what ends it. */
  Size: 2,
  /** Blanks behind the size, which only an extension makes legal. */
  SizeBlank: 3,
  Extension: 4,
  SizeLf: 5,
  /** `remaining` octets of a chunk. */
  Data: 6,
  DataCr: 7,
  DataLf: 8,
  TrailerLine: 9,
  TrailerLf: 10,
  Done: 11,
  Failed: 12,
} as const;

/** Settings of a `BodyDecoder`. */
export interface BodyOptions {
  /** Longest trailer section without its empty line, in bytes. @default {8192} */
  maxTrailerBytes?: number;
}

/** Takes the octets behind one head and hands out those of the body, wherever the input is cut. */
export class BodyDecoder {
  readonly #maxTrailerBytes: number;
  #state: number;
  #remaining = 0;
  #sizeDigits = 0;
  #extensionBytes = 0;
  #trailerBuffer: Uint8Array | null = null;
  #trailerBytes = 0;
  #trailerLineStart = 0;
  #trailers: Fields | null = null;
  #failure: HttpSyntaxError | null = null;

  constructor(framing: Framing, options: BodyOptions = {}) {
    this.#maxTrailerBytes = options.maxTrailerBytes ?? DEFAULT_MAX_TRAILER_BYTES;
    switch (framing.kind) {
      case "none":
        this.#state = State.Done;
        break;
      case "length":
        this.#state = framing.length === 0 ? State.Done : State.Length;
        this.#remaining = framing.length;
        break;
      case "chunked":
        this.#state = State.Size;
        break;
      case "close":
        this.#state = State.UntilClose;
        break;
    }
  }

  /** The message is complete; octets behind it belong to the next one. */
  get done(): boolean {
    return this.#state === State.Done;
  }

  /** Fields behind the last chunk, once `done`; null if there were none. They own their octets. */
  get trailers(): Fields | null {
    return this.#trailers;
  }

  /**
   * Feeds `bytes[start, end)`. `onData` gets views of `bytes` in order, never empty ones; it must use or
   * copy them before it returns, and may throw. Returns the offset behind what belongs to this message:
   * `end` as long as the message is not done.
   * @throws {HttpSyntaxError} 400: malformed chunks or trailers; 431: trailers over the limit. What
   * `onData` got until then was good; every later call throws the same error.
   */
  push(
    bytes: Uint8Array,
    start: number,
    end: number,
    onData: (bytes: Uint8Array, start: number, end: number) => void,
  ): number {
    let i = start;
    while (i < end) {
      switch (this.#state) {
        case State.Done:
          return i;
        case State.UntilClose:
          onData(bytes, i, end);
          return end;
        case State.Length:
        case State.Data: {
          const from = i;
          i = Math.min(end, from + this.#remaining);
          this.#remaining -= i - from;
          if (this.#remaining === 0) {
            this.#state = this.#state === State.Length ? State.Done : State.DataCr;
          }
          onData(bytes, from, i);
          break;
        }
        case State.TrailerLine:
          i = this.#readTrailerLine(bytes, i, end);
          break;
        case State.Failed:
          throw this.#failure;
        default:
          this.#step(bytes[i++]!);
      }
    }
    return i;
  }

  /**
   * Takes the end of input. True if the message is complete by it; false means that it was cut off
   * (RFC 9112 §8).
   */
  finish(): boolean {
    if (this.#state === State.UntilClose) this.#state = State.Done;
    return this.#state === State.Done;
  }

  /** Takes one octet of a chunk's frame. */
  #step(octet: number): void {
    switch (this.#state) {
      case State.Size: {
        const digit = HEX[octet]!;
        if (digit !== 255) this.#takeSizeDigit(digit);
        else if (this.#sizeDigits === 0) this.#fail("a chunk size without a digit");
        else this.#takeSizeEnd(octet);
        break;
      }
      case State.SizeBlank:
        if (octet === CR) this.#fail("a blank behind the chunk size");
        this.#takeSizeEnd(octet);
        break;
      case State.Extension:
        if (octet === CR) this.#state = State.SizeLf;
        else if (VALUE[octet] === 0) this.#fail("control octet in a chunk extension");
        else this.#countExtension();
        break;
      case State.SizeLf:
        if (octet !== LF) this.#fail("bare CR behind a chunk size");
        this.#state = this.#remaining === 0 ? State.TrailerLine : State.Data;
        break;
      case State.DataCr:
        if (octet !== CR) this.#fail("chunk data longer than its size");
        this.#state = State.DataLf;
        break;
      case State.DataLf:
        if (octet !== LF) this.#fail("bare CR behind chunk data");
        this.#state = State.Size;
        this.#sizeDigits = 0;
        this.#extensionBytes = 0;
        break;
      case State.TrailerLf:
        if (octet !== LF) this.#fail("bare CR in the trailers");
        this.#endTrailerLine();
        break;
    }
  }

  #takeSizeDigit(digit: number): void {
    if (++this.#sizeDigits > MAX_SIZE_DIGITS) this.#fail("a chunk size with too many digits");
    this.#remaining = this.#remaining * 16 + digit;
    if (this.#remaining > Number.MAX_SAFE_INTEGER) this.#fail("a chunk size that is too large");
  }

  #takeSizeEnd(octet: number): void {
    if (octet === CR) this.#state = State.SizeLf;
    else if (octet === SEMICOLON) this.#state = State.Extension;
    else if (octet === SP || octet === HTAB) this.#state = State.SizeBlank;
    else this.#fail("an octet that no chunk size may hold");
    this.#countExtension();
  }

  #countExtension(): void {
    if (++this.#extensionBytes > MAX_EXTENSION_BYTES) {
      this.#fail("chunk extensions over the limit");
    }
  }

  /** Keeps octets up to the line's CR and takes that; returns the offset behind what it took. */
  #readTrailerLine(bytes: Uint8Array, start: number, end: number): number {
    const limit = start + this.#maxTrailerBytes - this.#trailerBytes;
    const stop = Math.min(end, limit);
    let i = start;
    while (i < stop && VALUE[bytes[i]!]! > 0) i++;
    if (i < end && bytes[i] !== CR) {
      if (i === limit) this.#fail(`the trailers are over ${this.#maxTrailerBytes} bytes`, 431);
      this.#fail(bytes[i] === LF ? "bare LF in the trailers" : "control octet in the trailers");
    }
    if (i > start) this.#keepTrailer(bytes, start, i);
    if (i === end) return i;
    this.#state = State.TrailerLf;
    return i + 1;
  }

  #endTrailerLine(): void {
    if (this.#trailerBytes > this.#trailerLineStart) {
      this.#keepTrailer(CRLF, 0, 2);
      this.#trailerLineStart = this.#trailerBytes;
      this.#state = State.TrailerLine;
      return;
    }
    this.#state = State.Done;
    if (this.#trailerBytes === 0) return;
    let trailers: Fields;
    try {
      trailers = parseFieldBlock(this.#trailerBuffer!, 0, this.#trailerBytes);
    } catch (error) {
      if (error instanceof HttpSyntaxError) this.#fail(error.reason);
      throw error;
    }
    // Nobody may send them (RFC 9110 §6.5.1), and a reader that merges trailers would believe them.
    if (
      trailers.indexOf(FieldId.ContentLength) >= 0 ||
      trailers.indexOf(FieldId.TransferEncoding) >= 0
    ) this.#fail("a framing field in the trailers");
    this.#trailers = trailers;
  }

  #keepTrailer(bytes: Uint8Array, start: number, end: number): void {
    const size = this.#trailerBytes + end - start;
    if (size > this.#maxTrailerBytes) {
      this.#fail(`the trailers are over ${this.#maxTrailerBytes} bytes`, 431);
    }
    let buffer = this.#trailerBuffer;
    if (buffer === null || buffer.length < size) {
      const grown = new Uint8Array(Math.max(64, 2 * size));
      if (buffer !== null) grown.set(buffer);
      this.#trailerBuffer = buffer = grown;
    }
    buffer.set(bytes.subarray(start, end), this.#trailerBytes);
    this.#trailerBytes = size;
  }

  #fail(reason: string, status: 400 | 431 = 400): never {
    this.#state = State.Failed;
    this.#failure = new HttpSyntaxError(status, reason);
    throw this.#failure;
  }
}
