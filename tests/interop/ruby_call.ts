/**
 * One request of the requester double: follows its events as a Ruby requester does, and polices them.
 * @module
 */
import { EventLog } from "../helpers/wait.ts";
import type { BareMessage } from "./bare_nats.ts";
import { publishCredit } from "./ruby_credit.ts";
import type { RubyRequester } from "./ruby_requester.ts";
import { cancelEnvelope, chunkBytes, type JsonRecord, RESPONSE_DROPPED } from "./ruby_wire.ts";

/** What the client of the double has got. */
export interface RubyResponse {
  readonly status: number;
  /** One entry for each line that the client sees. */
  readonly fields: readonly (readonly [name: string, value: string])[];
  readonly streaming: boolean;
  readonly body: Uint8Array<ArrayBuffer>;
  /** Error that was put into a streamed body, or null. */
  readonly inBand: string | null;
  /** Events as they came. */
  readonly events: readonly JsonRecord[];
}

/** Takes a piece of a streamed body; its credit is returned when this is done. */
export type OnBody = (piece: Uint8Array) => Promise<void> | void;

export class RubyCall {
  readonly #requester: RubyRequester;
  readonly #onBody: OnBody | null;
  readonly #done = Promise.withResolvers<RubyResponse>();
  readonly #pieces: Uint8Array[] = [];
  #start: JsonRecord | null = null;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #consuming: Promise<void> = Promise.resolve();
  #inBand: string | null = null;
  #settled = false;
  #sawEnd = false;
  #cancelled = false;
  #afterCancel = 0;
  #unreturned = 0;
  readonly id: string;
  /** All events of this id, also those that came after the end. */
  readonly events = new EventLog<JsonRecord>();
  readonly messages: BareMessage[] = [];
  granted = 0;
  received = 0;

  constructor(requester: RubyRequester, id: string, onBody: OnBody | null) {
    this.#requester = requester;
    this.#onBody = onBody;
    this.id = id;
    this.#arm(requester.options.responseTimeoutMs ?? 30_000);
  }

  /** Settles when the client has all of its answer; never rejects. */
  get done(): Promise<RubyResponse> {
    return this.#done.promise;
  }

  /** Waits for the event of this type. */
  event(type: string, ms = 10_000): Promise<JsonRecord> {
    return this.events.find((event) => event["type"] === type, {
      ms,
      what: `the event ${type} of ${this.id}`,
      describe: () => JSON.stringify(this.events.events).slice(0, 2_000),
    });
  }

  /** The client leaves: the cancel's owner form, once. */
  leave(reason = "downstream_disconnect"): void {
    const { requestRoot, options, nats } = this.#requester;
    if (this.#cancelled || this.#start === null) return;
    this.#cancelled = true;
    const owner = this.#start["receiver_service_id"];
    nats.publish(
      `${requestRoot}.cancel.${owner}.${this.id}`,
      JSON.stringify(cancelEnvelope(this.id, options.serviceId, reason)),
    );
  }

  /** The cancel's early form, on the flow's own request subject. */
  leaveEarly(reason = "downstream_disconnect"): void {
    const { options, nats } = this.#requester;
    this.#cancelled = true;
    nats.publish(
      this.#requester.requestSubject(this.id),
      JSON.stringify(cancelEnvelope(this.id, options.serviceId, reason)),
    );
  }

  /** Ends the wait of this side alone. */
  stop(text: string): void {
    this.#settle(504, text);
  }

  take(event: JsonRecord, message: BareMessage): void {
    this.events.add(event);
    this.messages.push(message);
    if (this.#settled) return;
    if (this.#cancelled) return this.#takeAfterCancel(event);
    const { streamTimeoutMs } = this.#requester.options;
    this.#arm(streamTimeoutMs ?? 30_000);
    if (this.#start === null) {
      if (event["type"] !== "response_start") {
        return this.#settle(502, `Expected response_start, got ${event["type"] ?? "unknown"}`);
      }
      this.#begin(event);
    } else if (event["type"] === "response_chunk") this.#chunk(event);
    else if (event["type"] === "response_end") {
      this.#sawEnd = true;
      void this.#consuming.then(() => this.#settle(null, null));
      clearTimeout(this.#timer);
    } else if (this.#streaming) {
      // A Ruby requester puts every other event into the body as an error.
      const error = event["error"];
      this.#inBand = typeof error === "string" ? error : `Unexpected event ${event["type"]}`;
      if (event["type"] !== "response_error") this.#violation(`event ${event["type"]}`);
      void this.#consuming.then(() => this.#settle(null, null));
    } else this.#settle(502, `Unexpected event ${event["type"]}`);
  }

  get #streaming(): boolean {
    const value = this.#start?.["streaming"];
    return value !== undefined && value !== null && value !== false;
  }

  #begin(event: JsonRecord): void {
    this.#start = event;
    if (typeof event["receiver_service_id"] !== "string") {
      this.#violation("response_start without receiver_service_id");
    }
    if (this.#streaming) this.#grant(this.#requester.sizes.initial);
  }

  #chunk(event: JsonRecord): void {
    let bytes: Uint8Array;
    try {
      bytes = chunkBytes(event);
    } catch (error) {
      this.#violation((error as Error).message);
      return this.#settle(500, (error as Error).message);
    }
    this.#requester.largestChunk = Math.max(this.#requester.largestChunk, bytes.length);
    this.received += bytes.length;
    if (this.#streaming && this.received > this.granted) {
      this.#violation(`${this.received} bytes against ${this.granted} of credit`);
    }
    this.#pieces.push(bytes);
    if (!this.#streaming || bytes.length === 0) return;
    this.#consuming = this.#consuming.then(async () => {
      await this.#onBody?.(bytes);
      this.#unreturned += bytes.length;
      if (this.#unreturned >= this.#requester.sizes.batch) this.#return();
    });
  }

  #return(): void {
    const bytes = this.#unreturned;
    this.#unreturned = 0;
    if (bytes > 0) this.#grant(bytes);
  }

  #grant(bytes: number): void {
    const { requestRoot, options, nats } = this.#requester;
    this.granted += bytes;
    publishCredit(
      nats,
      `${requestRoot}.control.${this.#start?.["receiver_service_id"]}.${this.id}`,
      { direction: "response", bytes, serviceId: options.serviceId },
    );
  }

  /** One more chunk and the last events may come; nothing else of a flow that was cancelled. */
  #takeAfterCancel(event: JsonRecord): void {
    if (event["type"] === "response_chunk") this.#afterCancel++;
    if (event["type"] === "response_end") {
      this.#sawEnd = true;
      this.#settle(null, null);
    }
  }

  /** Chunks that came behind the cancel: 1 gets through at a Ruby peer, the rest is dropped. */
  get chunksAfterCancel(): number {
    return this.#afterCancel;
  }

  get sawEnd(): boolean {
    return this.#sawEnd;
  }

  #violation(text: string): void {
    this.#requester.violations.push(`${this.id}: ${text}`);
  }

  #arm(ms: number): void {
    clearTimeout(this.#timer);
    if (this.#settled || ms === 0) return;
    this.#timer = setTimeout(() => {
      if (!this.#streaming || this.#cancelled) {
        return this.#settle(504, `No response from bridge within ${ms / 1000}s`);
      }
      this.#inBand = "Gateway Timeout";
      this.#settle(null, null);
    }, ms);
  }

  /** Ends the call: with the bridge's own answer, or with what has come. */
  #settle(status: number | null, text: string | null): void {
    if (this.#settled) return;
    this.#settled = true;
    clearTimeout(this.#timer);
    if (status === null && this.#streaming && !this.#cancelled) this.#return();
    const start = this.#start ?? {};
    const size = this.#pieces.reduce((sum, piece) => sum + piece.length, 0);
    const body = new Uint8Array(size);
    let at = 0;
    for (const piece of this.#pieces) {
      body.set(piece, at);
      at += piece.length;
    }
    this.#done.resolve({
      status: status ?? Number(start["status"] ?? 200),
      fields: status === null ? clientFields(start, this.#streaming) : [],
      streaming: this.#streaming,
      body: text === null ? body : new TextEncoder().encode(text),
      inBand: this.#inBand,
      events: this.events.events,
    });
  }
}

/** Arrays become lines; the eight go, and content-length when streaming. */
function clientFields(start: JsonRecord, streaming: boolean): [string, string][] {
  const fields: [string, string][] = [];
  for (const [name, value] of Object.entries((start["headers"] ?? {}) as JsonRecord)) {
    if (RESPONSE_DROPPED.includes(name.toLowerCase())) continue;
    if (streaming && name.toLowerCase() === "content-length") continue;
    for (const one of Array.isArray(value) ? value : [value]) fields.push([name, String(one)]);
  }
  return fields;
}
