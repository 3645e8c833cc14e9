/**
 * Collects the body of one request.
 * @module
 */
import { Clock, type Deadlines } from "../flow/deadlines.ts";
import { BodyDecoder } from "../http1/body.ts";
import { HttpSyntaxError } from "../http1/error.ts";
import type { RequestHead } from "../http1/head.ts";
import type { SocketReader } from "../net/socket_reader.ts";
import type { ResponseWriter } from "./response_writer.ts";

/** What became of a body. */
export type BodyResult =
  | { readonly kind: "body"; readonly bytes: Uint8Array | null }
  | { readonly kind: "too_large" }
  /** Not HTTP, given up by the client, or too slow; `status` is 400, 408, or 0 when nobody waits. */
  | { readonly kind: "broken"; readonly status: number; readonly reason: string };

/** The body of one request, read when the handler wants it. */
export class RequestBody {
  readonly #reader: SocketReader;
  readonly #head: RequestHead;
  readonly #response: ResponseWriter;
  readonly #deadlines: Deadlines;
  /** Whether nothing of the body is left to read. */
  taken: boolean;

  constructor(
    reader: SocketReader,
    head: RequestHead,
    response: ResponseWriter,
    deadlines: Deadlines,
  ) {
    this.#reader = reader;
    this.#head = head;
    this.#response = response;
    this.#deadlines = deadlines;
    this.taken = head.framing.kind === "none" ||
      (head.framing.kind === "length" && head.framing.length === 0);
  }

  /** Reads all of it; see `IngressRequest.readBody`. */
  async read(maxBytes: number): Promise<BodyResult> {
    const { framing } = this.#head;
    if (framing.kind === "none") return { kind: "body", bytes: null };
    if (framing.length === 0) return { kind: "body", bytes: new Uint8Array(0) };
    if (framing.length > maxBytes) return this.#tooLarge();
    if (this.#head.expectContinue && this.#reader.unread === 0) this.#response.continue();
    const decoder = new BodyDecoder(framing);
    const parts = new BodyParts(framing.length);
    const broken = (status: number, reason: string): BodyResult => {
      this.#response.closeAfter();
      return { kind: "broken", status, reason };
    };
    try {
      for (;;) {
        const { buffer, start, end } = this.#reader;
        this.#reader.start = decoder.push(buffer, start, end, parts.add);
        if (parts.bytes > maxBytes) return this.#tooLarge();
        if (decoder.done) break;
        const clock = new Clock(this.#deadlines);
        const more = await clock.limit(this.#reader.more()).finally(() => clock.stop());
        if (more === null) return broken(408, "The body took too long");
        if (!more) return broken(400, "The body ended before its announced end");
      }
    } catch (error) {
      if (error instanceof HttpSyntaxError) return broken(error.status, error.reason);
      return broken(0, "The client left");
    }
    this.taken = true;
    return { kind: "body", bytes: parts.whole() };
  }

  #tooLarge(): BodyResult {
    this.#response.closeAfter();
    return { kind: "too_large" };
  }
}

/** Allocated at once for a body of known length: who announces more must first send some of it. */
const FIRST_BYTES = 64 * 1024;

/** The octets of a body so far. */
class BodyParts {
  #buffer: Uint8Array;
  bytes = 0;

  constructor(expected: number) {
    this.#buffer = new Uint8Array(Math.max(0, Math.min(expected, FIRST_BYTES)));
  }

  readonly add = (from: Uint8Array, start: number, end: number): void => {
    const need = this.bytes + end - start;
    if (need > this.#buffer.length) {
      const grown = new Uint8Array(Math.max(need, this.#buffer.length * 2, 4096));
      grown.set(this.#buffer.subarray(0, this.bytes));
      this.#buffer = grown;
    }
    this.#buffer.set(from.subarray(start, end), this.bytes);
    this.bytes = need;
  };

  whole(): Uint8Array {
    return this.#buffer.subarray(0, this.bytes);
  }
}
