/**
 * A double of the requester of nats-proxy (Ruby), written from wire-protocol.md alone. A test drives
 * it directly in place of its clients. It breaks on unknown events, obeys only `streaming`, and notes
 * what no receiver of the contract would have sent.
 * @module
 */
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { type BareMessage, BareNats } from "./bare_nats.ts";
import { type OnBody, RubyCall } from "./ruby_call.ts";
import { isCredit } from "./ruby_credit.ts";
import { RubySession, type SessionKind } from "./ruby_session.ts";
import {
  type CreditSizes,
  creditSizes,
  lastToken,
  parseObject,
  parseOrUndefined,
  REQUEST_DROPPED,
  type RubyPlace,
  utf8OrNull,
} from "./ruby_wire.ts";

export interface RubyRequesterOptions extends RubyPlace {
  /** NATS_RESPONSE_TIMEOUT in ms. @default {30000} */
  readonly responseTimeoutMs?: number;
  /** STREAM_RESPONSE_TIMEOUT in ms. @default {30000} */
  readonly streamTimeoutMs?: number;
}

export interface RubyAsk {
  /** @default {"GET"} */
  readonly method?: string;
  readonly fields?: readonly (readonly [name: string, value: string])[];
  readonly body?: Uint8Array | string;
  /** Takes a piece of a streamed body; credit is returned when it is done. */
  readonly onBody?: OnBody;
  /** @default 32 hex digits, drawn */
  readonly id?: string;
}

export class RubyRequester implements AsyncDisposable {
  readonly #calls = new Map<string, RubyCall>();
  readonly #sessions = new Map<string, RubySession>();
  /** Sessions that never were: what comes behind the first event of a refusal is dropped. */
  readonly #refused = new Set<string>();
  readonly options: RubyRequesterOptions;
  readonly nats: BareNats;
  readonly sizes: CreditSizes;
  /** Messages for ids that it does not have, and what was no event. */
  readonly dropped: BareMessage[] = [];
  readonly violations: string[] = [];
  /** Most body octets that came in one event. */
  largestChunk = 0;

  private constructor(nats: BareNats, options: RubyRequesterOptions) {
    this.nats = nats;
    this.options = options;
    this.sizes = creditSizes(nats.maxPayload);
  }

  static async start(options: RubyRequesterOptions): Promise<RubyRequester> {
    const nats = await BareNats.connect(options.port, options);
    const requester = new RubyRequester(nats, options);
    const root = requester.responseRoot;
    const { serviceId } = options;
    nats.subscribe(`${root}.responses.${serviceId}.>`, (message) => requester.#event(message));
    nats.subscribe(`${root}.sessions.downstream.${serviceId}.>`, (message) => {
      requester.#frame(message);
    });
    await nats.flush();
    return requester;
  }

  get requestRoot(): string {
    return this.options.requestRoot ?? "to.proxy";
  }

  get responseRoot(): string {
    return this.options.responseRoot ?? "from.proxy";
  }

  /** The subject of the request plane for `id`. */
  requestSubject(id: string): string {
    return `${this.requestRoot}.requests.${this.options.serviceId}.${id}`;
  }

  /** The reply subject for `id`. */
  replySubject(id: string): string {
    return `${this.responseRoot}.responses.${this.options.serviceId}.${id}`;
  }

  /**
   * Sends one request of a client and returns the call at once.
   * @throws {Error} the body is no UTF-8: a Ruby requester fails with 500 before publishing
   */
  ask(path: string, ask: RubyAsk = {}): RubyCall {
    const method = ask.method === "HEAD" ? "GET" : ask.method ?? "GET";
    const id = ask.id ?? randomBytes(16).toString("hex");
    const envelope = {
      type: "request",
      request_id: id,
      reply_to: this.replySubject(id),
      operation: "http_request",
      payload: {
        method,
        path,
        headers: requestHeaders(ask.fields ?? []),
        body: requestBody(method, ask.body),
      },
    };
    const trace = (ask.fields ?? [])
      .filter(([name]) => /^trace(?:parent|state)$/i.test(name))
      .map(([name, value]) => [name.toLowerCase(), value] as const);
    const call = this.open(id, ask.onBody);
    this.nats.publish(this.requestSubject(id), JSON.stringify(envelope), { headers: trace });
    return call;
  }

  /** Listens for the answer of `id` without publishing: for requests that a test writes itself. */
  open(id: string, onBody?: OnBody): RubyCall {
    const call = new RubyCall(this, id, onBody ?? null);
    this.#calls.set(id, call);
    void call.done.finally(() => this.#calls.delete(id));
    return call;
  }

  /**
   * A client asks for a tunnel, by CONNECT or SOCKS5. The test plays the client from here on.
   * @param onData takes target bytes; credit is returned when it is done
   */
  openSession(
    host: string,
    port: number,
    kind: SessionKind = "http_connect",
    onData: (bytes: Uint8Array) => Promise<void> | void = () => {},
  ): RubySession {
    const id = randomBytes(16).toString("hex");
    const session = new RubySession(this, id, onData);
    this.#sessions.set(id, session);
    void session.opened.then(({ status }) => status === 200 ? null : this.#refused.add(id));
    void session.ended.finally(() => this.#sessions.delete(id));
    const envelope = {
      type: "request",
      request_id: id,
      reply_to: this.replySubject(id),
      operation: "tcp_stream",
      payload: {
        host,
        port,
        ingress_kind: kind,
        method: kind === "socks5" ? "SOCKS5_CONNECT" : "CONNECT",
        requester_service_id: this.options.serviceId,
      },
    };
    this.nats.publish(this.requestSubject(id), JSON.stringify(envelope));
    return session;
  }

  /**
   * Checks what holds for every receiver that is natsway: nothing that a Ruby peer trips over or has to
   * drop, credit kept, chunks of 32 KiB at most.
   */
  assertContent(): void {
    assert.deepEqual(this.violations, []);
    // Credit for the remainder may find no session: section 7.
    const surprising = this.dropped.filter((message) => !isCredit(message, "upstream"));
    assert.deepEqual(surprising.map((message) => message.subject), []);
    assert.ok(this.largestChunk <= 32_768, `a chunk of ${this.largestChunk} bytes`);
    assert.equal(this.nats.fault, null);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const call of this.#calls.values()) call.stop("the double ends");
    for (const session of this.#sessions.values()) session.stop("the double ends");
    await this.nats.close();
  }

  #event(message: BareMessage): void {
    const id = lastToken(message.subject);
    const [call, session] = [this.#calls.get(id), this.#sessions.get(id)];
    const event = parseObject(message.data);
    if (event !== null && session !== undefined) session.event(event);
    else if (event !== null && call !== undefined) call.take(event, message);
    else if (!this.#refused.has(id)) this.dropped.push(message);
  }

  #frame(message: BareMessage): void {
    const session = this.#sessions.get(lastToken(message.subject));
    if (session === undefined || !session.frame(message)) this.dropped.push(message);
  }
}

/** Names lower-cased, the ten dropped, repeated ones merged by Ruby's web layer. */
function requestHeaders(
  fields: readonly (readonly [name: string, value: string])[],
): Record<string, string> {
  const headers: Record<string, string> = {};
  for (const [name, value] of fields) {
    const lower = name.toLowerCase();
    if (REQUEST_DROPPED.includes(lower)) continue;
    const before = headers[lower];
    headers[lower] = before === undefined
      ? value
      : `${before}${lower === "cookie" ? ";" : ","}${value}`;
  }
  return headers;
}

/** Null, the parsed JSON value, or the text. */
function requestBody(method: string, body: Uint8Array | string | undefined): unknown {
  if (body === undefined || body.length === 0 || method === "GET") return null;
  const bytes = typeof body === "string" ? new TextEncoder().encode(body) : body;
  const text = utf8OrNull(bytes);
  if (text === null) throw new Error("500: the body is no UTF-8");
  return parseOrUndefined(bytes) ?? text;
}
