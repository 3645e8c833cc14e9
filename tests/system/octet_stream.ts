/**
 * Long byte streams that need no memory: each octet follows from the stream's seed and its place, so a
 * reader can tell the first that is wrong, lost or doubled.
 * @module
 */
import { Buffer } from "node:buffer";
import { pattern } from "../helpers/bytes.ts";

const BLOCK_BYTES = 16 * 1024;
/** Blocks are cut from here, at places that depend on seed and number. */
const POOL = pattern(1024 * 1024 + BLOCK_BYTES, 11);

/** The octets of stream `seed` from `at` to the end of their block, `most` at most. A view. */
export function octetsAt(seed: number, at: number, most: number): Uint8Array<ArrayBuffer> {
  const number = Math.floor(at / BLOCK_BYTES);
  const inside = at % BLOCK_BYTES;
  let mixed = Math.imul(seed + 1, 0x9e3779b1) ^ Math.imul(number + 1, 0x85ebca6b);
  mixed = Math.imul(mixed ^ (mixed >>> 15), 0x2c1b3c6d);
  const from = ((mixed ^ (mixed >>> 12)) >>> 0) % (POOL.length - BLOCK_BYTES);
  return POOL.subarray(from + inside, from + Math.min(BLOCK_BYTES, inside + most));
}

/** Compares what arrives with what stream `seed` holds. */
export class Checker {
  readonly #seed: number;
  #bytes = 0;

  constructor(seed: number) {
    this.#seed = seed;
  }

  /** Octets that came, all of them right. */
  get bytes(): number {
    return this.#bytes;
  }

  /** @throws {Error} naming the first octet that is not the stream's */
  take(piece: Uint8Array): void {
    for (let at = 0; at < piece.length;) {
      const wanted = octetsAt(this.#seed, this.#bytes, piece.length - at);
      const got = piece.subarray(at, at + wanted.length);
      if (!bufferOf(wanted).equals(got)) {
        const wrong = wanted.findIndex((octet, i) => octet !== got[i]);
        throw new Error(`stream ${this.#seed}: octet ${this.#bytes + wrong} is not the one sent`);
      }
      at += wanted.length;
      this.#bytes += wanted.length;
    }
  }
}

function bufferOf(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
}
