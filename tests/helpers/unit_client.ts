/**
 * A client in memory: what a response writer writes, and requests as the ingress hands them on.
 * @module
 */
import type { IngressRequest } from "../../lib/ingress/connection.ts";
import type { BodyResult } from "../../lib/ingress/request_body.ts";
import {
  type ResponseContext,
  type ResponseEnd,
  ResponseWriter,
} from "../../lib/ingress/response_writer.ts";
import { parseRequestHead } from "../../lib/http1/parse.ts";
import type { RequestHead } from "../../lib/http1/head.ts";
import { BufferedWriter } from "../../lib/net/buffered_writer.ts";
import { concat, latin1, octets } from "./bytes.ts";
import { MemorySocket } from "./unit_tunnel.ts";

/** One response to a client that takes all that comes, unless it is held. */
export class MemoryClient {
  readonly response: ResponseWriter;
  /** How the response ended, null while it has not. */
  end: ResponseEnd | null = null;
  /** The socket that was taken, with what had been replied before, or null. */
  tunnel: { readonly reply: string; readonly socket: MemorySocket } | null = null;
  /** Resolves when it has ended. */
  readonly ended: Promise<ResponseEnd>;
  readonly #writer: BufferedWriter;
  readonly #parts: Uint8Array[] = [];
  #gate: Promise<void> | null = null;
  #open = () => {};

  constructor(context: Partial<ResponseContext> = {}) {
    const ended = Promise.withResolvers<ResponseEnd>();
    this.ended = ended.promise;
    this.#writer = new BufferedWriter({
      write: async (bytes) => {
        if (this.#gate !== null) await this.#gate;
        this.#parts.push(bytes.slice());
        return bytes.length;
      },
    }, { onTaken: () => this.response.onTaken?.() });
    this.response = new ResponseWriter(
      this.#writer,
      { method: "GET", minor: 1, keepAlive: true, ...context },
      (end) => {
        this.end = end;
        ended.resolve(end);
      },
    );
  }

  /** Takes nothing more until `release`. */
  hold(): void {
    const gate = Promise.withResolvers<void>();
    this.#gate = gate.promise;
    this.#open = gate.resolve;
  }

  release(): void {
    this.#gate = null;
    this.#open();
  }

  /** See `IngressRequest.takeSocket`. */
  take(reply: Uint8Array): MemorySocket | null {
    if (this.response.ended) return null;
    const socket = new MemorySocket();
    this.tunnel = { reply: latin1(reply), socket };
    this.response.taken();
    return socket;
  }

  /** Octets that the client has got, one code point each, when all that is pending was taken. */
  async text(): Promise<string> {
    await this.#writer.flushed();
    return latin1(concat(this.#parts));
  }
}

/** A `Date` line of now differs from test to test. */
export function withoutDate(text: string): string {
  return text.replace(/^Date: [^\r]*\r\n/m, "");
}

/** A request head from its octets. */
export function requestHead(text: string): RequestHead {
  const bytes = octets(text);
  return parseRequestHead(bytes, 0, bytes.length);
}

/** A request as the ingress hands it on, and its client. */
export function ingressRequest(
  text: string,
  options: { body?: BodyResult; clientAddress?: string } = {},
): { request: IngressRequest; client: MemoryClient } {
  const head = requestHead(text);
  const client = new MemoryClient({
    method: head.method,
    minor: head.minor,
    keepAlive: head.keepAlive,
  });
  const request: IngressRequest = {
    head,
    response: client.response,
    clientAddress: options.clientAddress ?? "192.0.2.7",
    readBody: () => Promise.resolve(options.body ?? { kind: "body", bytes: null }),
    takeSocket: (reply) => client.take(reply),
  };
  return { request, client };
}
