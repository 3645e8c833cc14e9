/**
 * One session of the requester double, driven by a test in place of a client's socket: what
 * wire-protocol.md sections 7, 10 and 11 say of a Ruby requester.
 * @module
 */
import { concat } from "../helpers/bytes.ts";
import { EventLog } from "../helpers/wait.ts";
import { type BareMessage, exactHeader } from "./bare_nats.ts";
import { isCredit, publishCredit, readCredit } from "./ruby_credit.ts";
import { RubyInflow } from "./ruby_inflow.ts";
import type { RubyRequester } from "./ruby_requester.ts";
import { RubyWindow } from "./ruby_window.ts";
import { cancelEnvelope, type JsonRecord } from "./ruby_wire.ts";

export type SessionKind = "http_connect" | "socks5";

/** What the client of the double is told when it asks for the session. */
export interface SessionOpened {
  /** 200, or the status of http-surface.md section 4. */
  readonly status: number;
  readonly text: string;
  /** `session_established`, or the event that came in its place; null when none came. */
  readonly event: JsonRecord | null;
}

/** How long a Ruby requester waits for data behind `session_close`. */
const DRAIN_MS = 100;

export class RubySession {
  readonly #requester: RubyRequester;
  readonly #opened = Promise.withResolvers<SessionOpened>();
  readonly #ended = Promise.withResolvers<string>();
  readonly #inflow: RubyInflow;
  readonly #pieces: Uint8Array[] = [];
  readonly #arrived = new EventLog<number>();
  #receiverId: string | null = null;
  #settled = false;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #closing: string | null = null;
  readonly id: string;
  /** For client bytes. */
  readonly window: RubyWindow;
  /** Events and frame types as they came. */
  readonly seen = new EventLog<string>();
  readonly events: JsonRecord[] = [];

  constructor(
    requester: RubyRequester,
    id: string,
    onData: (bytes: Uint8Array) => Promise<void> | void,
  ) {
    this.#requester = requester;
    this.id = id;
    this.window = new RubyWindow(requester.sizes.cap, () => {});
    this.#inflow = new RubyInflow({
      sizes: requester.sizes,
      grant: (bytes) =>
        publishCredit(requester.nats, this.#subject, {
          direction: "downstream",
          bytes,
          serviceId: requester.options.serviceId,
        }),
      consume: async (bytes) => {
        await onData(bytes);
        this.#pieces.push(bytes);
        this.#arrived.add(bytes.length);
      },
      violation: (text) => this.#violation(text),
    });
    this.#timer = setTimeout(
      () => this.#refused(504, "Session establishment timeout", null),
      requester.options.responseTimeoutMs ?? 30_000,
    );
  }

  /** Settles when the client is answered; never rejects. */
  get opened(): Promise<SessionOpened> {
    return this.#opened.promise;
  }

  /** Reason of the end, when all is over on this side; never rejects. */
  get ended(): Promise<string> {
    return this.#ended.promise;
  }

  /** All target bytes that the client has taken so far. */
  get bytes(): Uint8Array<ArrayBuffer> {
    return concat(this.#pieces);
  }

  /** Waits until the client has at least `count` bytes. */
  async received(count: number, ms = 10_000): Promise<Uint8Array<ArrayBuffer>> {
    let sum = 0;
    await this.#arrived.find((bytes) => (sum += bytes) >= count, {
      ms,
      what: `${count} bytes of the target`,
      describe: () => `${this.bytes.length} came; ${this.seen.events.slice(-20)}`,
    });
    return this.bytes;
  }

  /**
   * The client sends: resolves when all is published, false when the session ended first. Credit is
   * waited for as a Ruby requester waits.
   */
  async write(bytes: Uint8Array): Promise<boolean> {
    const { sizes, options, nats } = this.#requester;
    for (let at = 0; at < bytes.length;) {
      const credit = await this.window.wait(options.streamTimeoutMs ?? 30_000);
      if (this.window.closedBy !== null) return false;
      if (credit === 0) {
        this.#say("flow_credit_timeout");
        this.#end("flow_credit_timeout");
        return false;
      }
      const size = Math.min(credit, sizes.chunk, bytes.length - at);
      this.window.take(size);
      nats.publish(this.#subject, bytes.subarray(at, at + size), {
        headers: [["Nats-Session-Id", this.id], ["Nats-Frame-Type", "session_data"]],
      });
      at += size;
    }
    return true;
  }

  /** The client's end of input, `client_closed`, or its socket's error, `client_disconnected`. */
  leave(reason: "client_closed" | "client_disconnected" = "client_closed"): void {
    this.#say(reason);
    this.window.close(reason);
  }

  /** A write to the client failed: the cancel's owner form. */
  cancel(reason = "downstream_disconnect"): void {
    const { requestRoot, options, nats } = this.#requester;
    nats.publish(
      `${requestRoot}.cancel.${this.#receiverId}.${this.id}`,
      JSON.stringify(cancelEnvelope(this.id, options.serviceId, reason)),
    );
    this.window.close(reason);
  }

  /** Ends this side alone. */
  stop(reason: string): void {
    this.#refused(504, reason, null);
    this.#end(reason);
  }

  /** An event of the reply subject. */
  event(event: JsonRecord): void {
    this.events.push(event);
    this.seen.add(String(event["type"]));
    if (this.#receiverId === null) return this.#first(event);
    if (event["type"] === "session_close") {
      this.#closing = String(event["reason"]);
      this.window.close(this.#closing);
      this.#drain();
    } else if (event["type"] === "response_error") {
      this.cancel("upstream_error");
      this.#end(`response_error: ${event["error"]}`);
    } else this.#violation(`event ${event["type"]} in a session`);
  }

  /** A message of subject 4; false when a Ruby requester drops it. */
  frame(message: BareMessage): boolean {
    const type = exactHeader(message, "Nats-Frame-Type");
    this.seen.add(String(type));
    if (this.#receiverId === null) {
      this.#violation(`${type} before session_established`);
      return true;
    }
    if (type === "session_data_downstream") {
      if (this.#closing !== null) this.#violation("data behind session_close");
      this.#inflow.take(message.data);
      if (this.#closing !== null) this.#drain();
      return true;
    }
    if (!isCredit(message, "upstream")) return false;
    const bytes = readCredit(message, "upstream");
    if (bytes === null) this.#violation("no credit of the contract");
    else if (this.window.grant(bytes) > 0) this.#violation("credit over the window's cap");
    else if (this.window.granted > this.#requester.sizes.initial + this.window.sent) {
      this.#violation("more credit was returned than bytes were delivered");
    }
    return true;
  }

  get #subject(): string {
    return `${this.#requester.requestRoot}.sessions.upstream.${this.#receiverId}.${this.id}`;
  }

  #first(event: JsonRecord): void {
    clearTimeout(this.#timer);
    const type = event["type"];
    if (type !== "session_established") {
      const text = `Session failed: Expected session_established, got ${type ?? "unknown"}`;
      return this.#refused(502, text, event);
    }
    const receiver = event["receiver_service_id"];
    if (typeof receiver !== "string") {
      this.#violation("session_established without receiver_service_id");
      return this.#refused(500, "no receiver", event);
    }
    this.#receiverId = receiver;
    this.#inflow.open();
    this.#opened.resolve({ status: 200, text: "", event });
  }

  #refused(status: number, text: string, event: JsonRecord | null): void {
    clearTimeout(this.#timer);
    this.#opened.resolve({ status, text, event });
    if (this.#receiverId === null) this.#end(text);
  }

  #drain(): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => {
      void this.#inflow.consumed().then(() => this.#end(String(this.#closing)));
    }, DRAIN_MS);
  }

  #say(reason: string): void {
    this.#requester.nats.publish(
      this.#subject,
      JSON.stringify({ type: "session_close", reason }),
      { headers: [["Nats-Session-Id", this.id], ["Nats-Frame-Type", "session_close"]] },
    );
  }

  #end(reason: string): void {
    if (this.#settled) return;
    this.#settled = true;
    clearTimeout(this.#timer);
    this.window.close(reason);
    if (this.#receiverId !== null) this.#inflow.returnRest();
    this.#ended.resolve(reason);
  }

  #violation(text: string): void {
    this.#requester.violations.push(`${this.id}: ${text}`);
  }
}
