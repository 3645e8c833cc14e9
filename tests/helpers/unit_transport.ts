/**
 * A `Transport` in memory: keeps what is published and delivers what a test says. It refuses the same
 * subjects and sizes as the real one.
 * @module
 */
import { MessageTooLargeError } from "../../lib/errors.ts";
import type { LogFields, Logger, LogLevel } from "../../lib/logger.ts";
import { decodeFrame, type Frame, isFrame } from "../../lib/protocol/frames.ts";
import { checkPublishSubject } from "../../lib/transport/publish_encoder.ts";
import type {
  Delivery,
  Inbound,
  Plane,
  PublishOptions,
  RequestConsumer,
  Transport,
  TransportStatus,
} from "../../lib/transport/types.ts";
import { concat } from "./bytes.ts";
import { EventLog } from "./wait.ts";

/** One published message. */
export class Published {
  constructor(
    readonly subject: string,
    readonly payload: Uint8Array<ArrayBuffer>,
    readonly reply: string | null,
    readonly headers: string | null,
  ) {}

  get text(): string {
    return new TextDecoder().decode(this.payload);
  }

  // deno-lint-ignore no-explicit-any -- a test looks at members of parsed JSON
  get json(): any {
    return JSON.parse(this.text);
  }

  /** The frame in it, or null when it is JSON. */
  get frame(): Frame | null {
    return isFrame(this.payload) ? decodeFrame(this.payload) : null;
  }
}

/** How a delivery was settled. */
export type Settled = "ack" | "nak" | "term";

/** See the module. */
export class MemoryTransport implements Transport {
  readonly published = new EventLog<Published>();
  readonly pool: ("join" | "leave")[] = [];
  readonly settled: Settled[] = [];
  connected = true;
  maxPayload = 1_048_576;
  pendingBytes = 0;
  congested = false;
  /** What `flush` answers with; a test may replace it. */
  flushed: () => Promise<void> = () => Promise.resolve();
  /** Awaited by `drained`. */
  drain: () => Promise<void> = () => Promise.resolve();
  readonly #planes = new Map<Plane, (message: Inbound) => void>();
  #requests: ((delivery: Delivery) => void) | null = null;
  #poolCancels: ((message: Inbound) => void) | null = null;
  #listeners: ((connected: boolean) => void)[] = [];

  publish(subject: string, parts: readonly Uint8Array[], options?: PublishOptions): boolean {
    checkPublishSubject(subject);
    if (options?.reply !== undefined) checkPublishSubject(options.reply);
    if (!this.connected) return false;
    const payload = concat(parts);
    const bytes = payload.length + (options?.headers?.length ?? 0);
    if (bytes > this.maxPayload) throw new MessageTooLargeError(bytes, this.maxPayload);
    const headers = options?.headers === undefined
      ? null
      : new TextDecoder().decode(options.headers);
    this.published.add(new Published(subject, payload, options?.reply ?? null, headers));
    return true;
  }

  drained(): Promise<void> {
    return this.drain();
  }

  flush(): Promise<void> {
    return this.flushed();
  }

  consumeRequests(handler: (delivery: Delivery) => void): RequestConsumer {
    this.#requests = handler;
    this.pool.push("join");
    return {
      more: () => {},
      pause: () => {
        this.pool.push("leave");
        return Promise.resolve();
      },
      resume: () => void this.pool.push("join"),
    };
  }

  consumePlane(plane: Plane, handler: (message: Inbound) => void): void {
    this.#planes.set(plane, handler);
  }

  consumePoolCancels(handler: (message: Inbound) => void): void {
    this.#poolCancels = handler;
  }

  onConnection(listener: (connected: boolean) => void): void {
    this.#listeners.push(listener);
  }

  status(): TransportStatus {
    return {
      connected: this.connected,
      status: this.connected ? "connected" : "reconnecting",
      backend: "core",
      backendReason: "a test",
      notReady: null,
      server: "127.0.0.1:4222",
      serverInfo: null,
      maxPayload: this.maxPayload,
      roundTripMs: null,
      reconnects: 0,
      lastError: null,
      sentMessages: 0,
      sentPings: 0,
      receivedPings: 0,
      receivedPongs: 0,
      receivedMessages: 0,
      sentBytes: 0,
      receivedBytes: 0,
      planesDenied: [],
    };
  }

  onReadiness(): void {}

  inspect(): Promise<Readonly<Record<string, unknown>>> {
    return Promise.resolve({ backend_mode: "core", jetstream_available: false });
  }

  close(): Promise<void> {
    return Promise.resolve();
  }

  /** Delivers to the role's handler; the buffer is overwritten afterwards, as the real one would be. */
  deliver(
    plane: Plane | "requests" | "pool",
    token: string,
    payload: Uint8Array | string,
    options?: { reply?: string; headers?: string; facts?: Partial<Delivery> },
  ): void {
    const data = typeof payload === "string" ? new TextEncoder().encode(payload) : payload.slice();
    const block = options?.headers === undefined ? null : new TextEncoder().encode(options.headers);
    const message = {
      token,
      data,
      reply: options?.reply ?? "",
      headers: block,
      deliveries: 1,
      redelivered: false,
      lastDelivery: true,
      ageMs: 0,
      claim: () => true as const,
      ack: () => void this.settled.push("ack"),
      nak: () => void this.settled.push("nak"),
      term: () => void this.settled.push("term"),
      working: () => {},
      ...options?.facts,
    };
    if (plane === "requests") this.#requests!(message);
    else if (plane === "pool") this.#poolCancels!(message);
    else this.#planes.get(plane)!(message);
    data.fill(0x2a);
    block?.fill(0x2a);
  }

  /** The link goes down, or comes back. */
  setConnected(connected: boolean): void {
    this.connected = connected;
    for (const listener of this.#listeners) listener(connected);
  }

  /** All that was published so far, oldest first. */
  get all(): readonly Published[] {
    return this.published.events;
  }

  /** What was published to subjects that start with `prefix`. */
  to(prefix: string): Published[] {
    return this.all.filter((one) => one.subject.startsWith(prefix));
  }

  /** The next message from index `from` on that `test` accepts. */
  find(test: (one: Published) => boolean, what: string, from = 0): Promise<Published> {
    const describe = () =>
      this.all.map((one) => `${one.subject} ${one.frame ? "frame" : one.text.slice(0, 200)}`)
        .join("\n");
    return this.published.find(test, { ms: 5_000, what, from, describe });
  }

  /** Resolves when at least `count` messages were published. */
  async count(count: number): Promise<void> {
    if (count > 0) {
      await this.find(() => this.all.length >= count, `${count} messages`, 0);
    }
  }
}

/** A logger that keeps its lines. */
export class MemoryLogger implements Logger {
  readonly lines: { level: LogLevel; message: string; fields: LogFields }[] = [];
  level: LogLevel = "debug";
  debug(message: string, fields: LogFields = {}): void {
    this.lines.push({ level: "debug", message, fields });
  }
  info(message: string, fields: LogFields = {}): void {
    this.lines.push({ level: "info", message, fields });
  }
  warn(message: string, fields: LogFields = {}): void {
    this.lines.push({ level: "warning", message, fields });
  }
  error(message: string, fields: LogFields = {}): void {
    this.lines.push({ level: "error", message, fields });
  }
  enabled(level: LogLevel): boolean {
    const order: LogLevel[] = ["debug", "info", "warning", "error"];
    return order.indexOf(level) >= order.indexOf(this.level);
  }
}
