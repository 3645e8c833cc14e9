/**
 * Reads a whole connection through the codec, as a server or client would, from pieces of any size.
 * @module
 */

import { latin1 } from "../../lib/http1/encode.ts";
import { BodyDecoder } from "../../lib/http1/body.ts";
import type { Fields, RequestHead, ResponseHead } from "../../lib/http1/head.ts";
import { HttpSyntaxError, parseRequestHead, parseResponseHead } from "../../lib/http1/parse.ts";
import { HeadScanner } from "../../lib/http1/scan.ts";

/** One message in plain values, to be compared. */
export interface Message {
  /** Method and target, or status and reason. */
  start: [string, string];
  minor: number;
  keepAlive: boolean;
  /** What follows may be another protocol: CONNECT, an upgrade asked for or granted. */
  leavesHttp: boolean;
  framing: string;
  fields: [string, string][];
  body: string;
  trailers: [string, string][] | null;
  complete: boolean;
}

/** What came of a connection. */
export interface Outcome {
  messages: Message[];
  /** Status of the error that ended it, or 0. */
  status: number;
  reason: string;
  /** Octets of a head that was not complete at the end; 0 after an error. */
  rest: number;
}

/** What is read, and how. */
export interface ReadOptions {
  side: "request" | "response";
  /** @default {"GET"} */
  requestMethod?: string;
  /** @default {16384} */
  maxHeadBytes?: number;
  /** @default {1024} */
  maxTrailerBytes?: number;
  /** Offsets at which the input is cut, ascending. @default {[]} */
  cuts?: readonly number[];
}

/** Feeds `bytes` piece by piece; each piece is a buffer of its own, with other octets around it. */
export function readConnection(bytes: Uint8Array, options: ReadOptions): Outcome {
  const outcome: Outcome = { messages: [], status: 0, reason: "", rest: 0 };
  const scanner = new HeadScanner(options.maxHeadBytes ?? 16_384);
  let body: BodyDecoder | null = null;
  let pending = new Uint8Array(0); // octets of the head so far

  function push(piece: Uint8Array): void {
    let at = 0;
    while (at < piece.length) {
      if (body !== null) {
        const message = outcome.messages.at(-1)!;
        at = body.push(piece, at, piece.length, (from, start, end) => {
          if (end <= start) throw new Error("an empty view");
          message.body += chars(from.subarray(start, end));
        });
        if (!body.done) continue;
        message.complete = true;
        message.trailers = body.trailers === null ? null : pairs(body.trailers);
        body = null;
        continue;
      }
      // The head stands at another offset each time; what lies around it must not matter.
      const frame = new Uint8Array(3 + pending.length + piece.length - at + 3).fill(0x0a);
      frame.set(pending, 3);
      frame.set(piece.subarray(at), 3 + pending.length);
      const frameEnd = frame.length - 3;
      const end = scanner.scan(frame, 3, frameEnd);
      if (end < 0) {
        pending = frame.slice(3, frameEnd);
        return;
      }
      at = piece.length - (frameEnd - end);
      pending = new Uint8Array(0);
      const head: RequestHead | ResponseHead = options.side === "request"
        ? parseRequestHead(frame, 3, end)
        : parseResponseHead(frame, 3, end, options.requestMethod ?? "GET");
      outcome.messages.push(messageOf(head, options.requestMethod ?? "GET"));
      body = new BodyDecoder(head.framing, { maxTrailerBytes: options.maxTrailerBytes ?? 1024 });
      if (body.done) {
        outcome.messages.at(-1)!.complete = true;
        body = null;
      }
    }
  }

  try {
    let from = 0;
    for (const cut of options.cuts ?? []) {
      push(bytes.slice(from, cut));
      from = cut;
    }
    push(bytes.slice(from));
    const open = body as BodyDecoder | null;
    if (open !== null) outcome.messages.at(-1)!.complete = open.finish();
  } catch (error) {
    if (!(error instanceof HttpSyntaxError)) throw error;
    outcome.status = error.status;
    outcome.reason = error.reason;
  }
  if (outcome.status === 0) outcome.rest = pending.length;
  return outcome;
}

/** As `readConnection` for text of one code point per octet. */
export function readText(text: string, options: ReadOptions): Outcome {
  return readConnection(latin1(text), options);
}

/** Octets as text, one code point each, without the code under test. */
export function chars(bytes: Uint8Array): string {
  let text = "";
  for (const octet of bytes) text += String.fromCharCode(octet);
  return text;
}

/** Names as sent and values, in order. */
export function pairs(fields: Fields): [string, string][] {
  return Array.from({ length: fields.count }, (_, i) => [fields.name(i), fields.value(i)]);
}

/** Scans and parses one request head. */
export function requestHead(text: string): RequestHead {
  const bytes = latin1(text);
  return parseRequestHead(bytes, 0, new HeadScanner(65_536).scan(bytes, 0, bytes.length));
}

/** Scans and parses one response head. */
export function responseHead(text: string, requestMethod = "GET"): ResponseHead {
  const bytes = latin1(text);
  const end = new HeadScanner(65_536).scan(bytes, 0, bytes.length);
  return parseResponseHead(bytes, 0, end, requestMethod);
}

/** The status of the HttpSyntaxError that `read` throws, or 0. */
export function refusal(read: () => unknown): number {
  try {
    read();
    return 0;
  } catch (error) {
    if (error instanceof HttpSyntaxError) return error.status;
    throw error;
  }
}

function messageOf(head: RequestHead | ResponseHead, requestMethod: string): Message {
  return {
    start: "method" in head ? [head.method, head.target] : [String(head.status), head.reason],
    minor: head.minor,
    keepAlive: head.keepAlive,
    leavesHttp: "method" in head
      ? head.upgrade || head.method === "CONNECT"
      : head.status === 101 || (requestMethod === "CONNECT" && Math.floor(head.status / 100) === 2),
    framing: `${head.framing.kind} ${head.framing.length}`,
    fields: pairs(head),
    body: "",
    trailers: null,
    complete: false,
  };
}
