/**
 * Finds the end of a message head in what has arrived so far.
 * @module
 */

import { HttpSyntaxError } from "./error.ts";
import { CR, HTAB, LF, SP } from "./octets.ts";

/** Empty lines that are skipped before a request line (RFC 9112 §2.2 asks for at least one). */
export const MAX_LEADING_EMPTY_LINES = 4;

/**
 * Looks for the empty line behind a head, each octet once. Other octets may lie before `start` and
 * the buffer may be another one at each call, as long as `bytes[start]` stays the head's first octet
 * and what was shown stays the same.
 */
export class HeadScanner {
  readonly #maxBytes: number;
  // All counted from `start`.
  #looked = 0;
  #lineStart = 0;
  #emptyLines = 0;
  #hasLine = false;

  /** @param maxBytes longest head, from `start` to the empty line, both included */
  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /**
   * Returns the offset behind the empty line, or -1 if it has not arrived. After an offset the scanner
   * is ready for the next head. Empty lines before the first line are skipped, a few of them.
   * @throws {HttpSyntaxError} 431: no end within `maxBytes`; 414: not even the first line's end; 400:
   * a bare CR, a bare LF or another control, as soon as it is seen
   */
  scan(bytes: Uint8Array, start: number, end: number): number {
    const limit = start + this.#maxBytes;
    const stop = end < limit ? end : limit;
    let lineStart = start + this.#lineStart;
    let i = start + this.#looked;
    while (true) {
      while (i < stop && bytes[i]! >= SP) i++;
      if (i >= stop) break;
      const octet = bytes[i];
      if (octet === HTAB) {
        i++;
        continue;
      }
      if (octet !== CR) throw controlError(octet);
      if (i + 1 >= stop) break; // looked at again when the next octet is there
      if (bytes[i + 1] !== LF) throw new HttpSyntaxError(400, "bare CR in the head");
      if (i !== lineStart) {
        this.#hasLine = true;
      } else if (this.#hasLine) {
        this.reset();
        return i + 2;
      } else if (++this.#emptyLines > MAX_LEADING_EMPTY_LINES) {
        throw new HttpSyntaxError(400, "too many empty lines before the head");
      }
      i += 2;
      lineStart = i;
    }
    if (stop === limit) throw this.#limitError();
    this.#looked = i - start;
    this.#lineStart = lineStart - start;
    return -1;
  }

  /** Forgets what was seen: the next octet shown is the first of a head. */
  reset(): void {
    this.#looked = 0;
    this.#lineStart = 0;
    this.#emptyLines = 0;
    this.#hasLine = false;
  }

  #limitError(): HttpSyntaxError {
    return this.#hasLine
      ? new HttpSyntaxError(431, `the head is over ${this.#maxBytes} bytes`)
      : new HttpSyntaxError(414, `the first line alone is over ${this.#maxBytes} bytes`);
  }
}

function controlError(octet: number | undefined): HttpSyntaxError {
  if (octet === LF) return new HttpSyntaxError(400, "bare LF in the head");
  return new HttpSyntaxError(400, octet === 0 ? "NUL in the head" : "control octet in the head");
}
