/**
 * Answers a requester that does not speak frames, with the JSON events of the contract
 * (wire-protocol.md sections 6, 7 and 9).
 * @module
 */
import { type FailureCode, FAILURES, MessageTooLargeError } from "../errors.ts";
import { SendWindow } from "../flow/credit_window.ts";
import type { LaneEnd } from "../flow/lane_types.ts";
import { FieldId } from "../http1/field.ts";
import type { ResponseHead } from "../http1/head.ts";
import { asHeaderText } from "../protocol/envelope.ts";
import {
  encodeResponseChunk,
  encodeResponseError,
  encodeResponseStart,
  type EventHeaders,
  RESPONSE_END,
} from "../protocol/events.ts";
import type { Transport } from "../transport/types.ts";
import type { Responder } from "./responder.ts";
import { crosses, declaredLength } from "./response_block.ts";

export interface EventResponderOptions {
  readonly transport: Transport;
  /** Reply subject, checked. */
  readonly subject: string;
  readonly serviceId: string;
  /** Null in replies that are made before an operation starts. */
  readonly requestId: string | null;
  readonly operation: string;
  /** `traceparent` and `tracestate` of the request as a header block, for every event. */
  readonly traceHeaders: Uint8Array | null;
  /** Most body octets in one chunk. */
  readonly chunkBytes: number;
  readonly creditCap: number;
  /** Longest wait for credit, in ms; 0 for none. */
  readonly creditTimeoutMs: number;
}

/** A body up to this size is sent as a buffered answer, which keeps its Content-Length. */
const BUFFERED_BYTES = 4 * 1024 * 1024;

/** A response as JSON events. */
export class EventResponder implements Responder {
  readonly #options: EventResponderOptions;
  readonly #window: SendWindow;
  #streaming = false;
  headSent = false;
  ended = false;
  lost = false;
  bodyBytes = 0;
  status = 0;
  onEnded: ((end: LaneEnd) => void) | null = null;

  constructor(options: EventResponderOptions) {
    this.#options = options;
    this.#window = new SendWindow(options.creditCap, 0);
  }

  head(
    head: ResponseHead,
    buffer: Uint8Array,
    start: number,
    end: number,
    last: boolean,
  ): Promise<void> | void {
    if (this.ended) return;
    const length = declaredLength(head);
    const mediaType = mediaTypeOf(head);
    // What may be endless or does not fit the peer's memory is streamed, with credit.
    this.#streaming = isStream(mediaType) || (!last && (length < 0 || length > BUFFERED_BYTES));
    this.#start(head.status, eventHeaders(head), mediaType);
    return this.body(buffer, start, end, last);
  }

  async body(buffer: Uint8Array, start: number, end: number, last: boolean): Promise<void> {
    const { chunkBytes, transport } = this.#options;
    let at = start;
    while (at < end && !this.ended) {
      let size = Math.min(end - at, chunkBytes);
      if (this.#streaming) {
        if (this.#window.credit === 0 && !await this.#creditInTime()) return;
        if (this.ended) return;
        size = Math.min(size, this.#window.credit);
        this.#window.take(size);
      }
      this.bodyBytes += size;
      this.#publish(encodeResponseChunk(buffer.subarray(at, at + size)));
      at += size;
      if (transport.congested) await transport.drained();
    }
    if (last && !this.ended) {
      this.#publish(RESPONSE_END);
      this.#end();
    }
  }

  fail(code: FailureCode, text: string): void {
    if (this.ended) return;
    if (this.headSent) return this.#breakOff(contractText(code, text), code);
    const body = JSON.stringify({ error: contractText(code, text), code });
    this.#reply(contractStatus(code), body);
  }

  /** A 400 or 503 of wire-protocol.md section 9, with exactly that text. */
  refuse(status: number, text: string): void {
    if (!this.ended) this.#reply(status, JSON.stringify({ error: text }));
  }

  /** The plain text of section 9 for a target of `tcp_stream` that cannot be connected to. */
  refuseSession(target: string): void {
    if (this.ended) return;
    this.#reply(502, `Failed to connect to ${target}`, "text/plain");
  }

  credit(bytes: number): void {
    this.#window.grant(bytes);
  }

  cancel(reason: string): void {
    if (this.ended) return;
    this.#publish(encodeResponseError(`stream canceled: ${reason}`));
    this.#publish(RESPONSE_END);
    this.#end();
  }

  /** Keeps an idle stream from the peer's STREAM_RESPONSE_TIMEOUT. */
  keepAlive(): void {
    if (this.headSent && !this.ended) this.#publish(encodeResponseChunk(new Uint8Array(0)));
  }

  #reply(status: number, body: string, contentType = "application/json"): void {
    try {
      this.#start(status, { "content-type": contentType }, contentType);
      this.#publish(encodeResponseChunk(new TextEncoder().encode(body)));
      this.#publish(RESPONSE_END);
    } catch (error) {
      if (!(error instanceof MessageTooLargeError)) throw error;
      // A server that takes no more than this cannot be told anything.
    }
    this.#end();
  }

  #start(status: number, headers: EventHeaders, contentType: string | null): void {
    const { serviceId, requestId, operation } = this.#options;
    this.#publish(encodeResponseStart(
      {
        status,
        headers,
        contentType,
        streaming: this.#streaming,
        receiverServiceId: serviceId,
        ...(requestId === null ? {} : { requestId }),
      },
      operation,
    ));
    // Only now: a head that is too large is answered with another one.
    this.headSent = true;
    this.status = status;
  }

  async #creditInTime(): Promise<boolean> {
    const { creditTimeoutMs } = this.#options;
    if (creditTimeoutMs === 0) {
      await this.#window.wait();
      return true;
    }
    let late!: (value: false) => void;
    const timeout = new Promise<false>((resolve) => late = resolve);
    const timer = setTimeout(() => late(false), creditTimeoutMs);
    try {
      if (await Promise.race([this.#window.wait().then(() => true), timeout])) return true;
      this.#breakOff("Response flow credit timeout", "peer_lost");
      return false;
    } finally {
      clearTimeout(timer);
    }
  }

  #breakOff(text: string, code: FailureCode): void {
    this.#publish(encodeResponseError(text, code));
    this.#publish(RESPONSE_END);
    this.#end();
  }

  #publish(event: Uint8Array): void {
    const { transport, subject, traceHeaders } = this.#options;
    const options = traceHeaders === null ? {} : { headers: traceHeaders };
    if (this.ended || transport.publish(subject, [event], options)) return;
    this.lost = true;
    this.#end();
  }

  settled(): LaneEnd {
    return { reason: this.lost ? "nats_down" : "ok", byPeer: false };
  }

  #end(): void {
    if (this.ended) return;
    this.ended = true;
    this.#window.close();
    this.onEnded?.(this.settled());
  }
}

/** The statuses of wire-protocol.md section 9: a Ruby requester knows 400, 502 and 503. */
function contractStatus(code: FailureCode): number {
  switch (code) {
    case "target_refused":
    case "target_not_found":
    case "target_unreachable":
    case "target_timeout":
    case "target_broken":
    case "tls_failed":
      return 503;
    default:
      return FAILURES[code].http;
  }
}

function contractText(code: FailureCode, text: string): string {
  return contractStatus(code) === 503 && code.startsWith("target_")
    ? `Upstream unavailable: ${text}`
    : text;
}

/** The first Content-Type without parameters, lower-case, or null. */
function mediaTypeOf(head: ResponseHead): string | null {
  const index = head.indexOf(FieldId.ContentType);
  if (index < 0) return null;
  const type = head.value(index).split(";")[0]!.trim().toLowerCase();
  return type === "" ? null : type;
}

function isStream(mediaType: string | null): boolean {
  return mediaType !== null &&
    (mediaType.startsWith("text/event-stream") || mediaType.startsWith("application/x-ndjson"));
}

/** Lower-case names; repeated fields as arrays, which a Ruby requester writes as lines. */
function eventHeaders(head: ResponseHead): EventHeaders {
  const headers: Record<string, string | string[]> = Object.create(null);
  for (let i = 0; i < head.count; i++) {
    if (!crosses(head, i)) continue;
    const name = head.lowerName(i);
    const value = asHeaderText(head.value(i));
    const before = headers[name];
    if (before === undefined) headers[name] = value;
    else if (typeof before === "string") headers[name] = [before, value];
    else before.push(value);
  }
  return headers;
}
