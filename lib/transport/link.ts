/**
 * The link to NATS: nats-core keeps the connection (handshake, pings, reconnects, cluster), data
 * frames take the lane of {@link LaneTransport} on the same socket.
 * @module
 */

import type { NatsConnectionImpl, Status } from "@nats-io/nats-core/internal";
import { errorText, MessageTooLargeError, NatswayError } from "../errors.ts";
import type { LaneTarget } from "./lane_splitter.ts";
import { installLaneTransport, type LaneHooks, LaneTransport } from "./lane_transport.ts";
import { LinkCounters } from "./link_counters.ts";
import { LinkDialer, type LinkOptions } from "./link_dialer.ts";
import { LinkJournal } from "./link_journal.ts";
import { type LinkSubscribeOptions, LinkSubscription } from "./link_subscription.ts";
import {
  checkNatsInternals,
  createNatsClient,
  type NatsClient,
  type NatsProtocol,
  natsStatus,
} from "./nats_internals.ts";
import { checkPublishSubject, encodePublish, publishWithoutLane } from "./publish_encoder.ts";
import { sleep } from "./sleep.ts";
import type { PublishOptions, TransportStatus } from "./types.ts";

export type { LinkOptions } from "./link_dialer.ts";

/** Senders wait in `drained` from so many pending bytes on. */
export const HIGH_MARK_BYTES = 512 * 1024;
/** At so many pending bytes `publish` refuses: somebody does not wait. */
export const HARD_CAP_BYTES = 64 * 1024 * 1024;

const CLOSE_TIMEOUT_MS = 2000;

/** What a link says about itself; the backend adds its own part. */
export type LinkStatus = Omit<TransportStatus, "backend" | "backendReason" | "notReady">;

/**
 * One connection to NATS that comes and goes. It is made at once, connects in the background, and
 * tries for ever, also the first time. Subscriptions outlive reconnects; publishes do not: what is
 * published while it is down is refused.
 */
export class NatsLink {
  readonly #dialer: LinkDialer;
  readonly #journal: LinkJournal;
  readonly #targets = new Map<number, LaneTarget>();
  readonly #subscriptions = new Set<LinkSubscription>();
  readonly #listeners: ((connected: boolean) => void)[] = [];
  readonly #flushes = new Set<(error: Error) => void>();
  readonly #stop = Promise.withResolvers<void>();
  readonly #running: Promise<void>;
  readonly #counters = new LinkCounters();
  #client: NatsClient;
  /** INFO of the last connection: while there is none its values are the best guess. */
  #lastInfo: NatsProtocol["info"];
  /** A loss that is not in the log yet. */
  #loss: { readonly server: string; readonly error: Error | undefined } | null = null;
  /** What the listeners were told last. */
  #told = false;
  #everConnected = false;
  #closing: Promise<void> | null = null;
  #reconnects = 0;
  #roundTripMs: number | null = null;

  /**
   * @throws {TypeError} there is no server.
   * @throws {StartError} the credentials cannot be used, or nats-core is another version.
   */
  constructor(options: LinkOptions) {
    this.#dialer = new LinkDialer(options);
    this.#journal = new LinkJournal(options.logger);
    checkNatsInternals();
    installLaneTransport();
    this.#client = this.#createClient();
    this.#running = this.#run();
  }

  /**
   * nats-core's connection of now: for requests and subscriptions that are not data. Ask again after
   * each reconnect; a client that closes by itself is replaced.
   */
  get connection(): NatsConnectionImpl {
    return this.#client.connection;
  }

  get connected(): boolean {
    const { protocol } = this.#client;
    return protocol.connected && protocol.transport?.isClosed === false;
  }

  /** Largest whole message of the server that the link is or was connected to; 0 before the first. */
  get maxPayload(): number {
    return this.#client.protocol.info?.max_payload ?? this.#lastInfo?.max_payload ?? 0;
  }

  get pendingBytes(): number {
    return this.#lane?.writer?.pendingBytes ?? 0;
  }

  get #lane(): LaneTransport | null {
    const transport = this.#client.protocol.transport;
    return transport instanceof LaneTransport ? transport : null;
  }

  /** See {@link Transport.publish}. */
  publish(subject: string, parts: readonly Uint8Array[], options?: PublishOptions): boolean {
    const reply = options?.reply ?? "";
    const headers = options?.headers ?? null;
    checkPublishSubject(subject);
    if (reply !== "") checkPublishSubject(reply);
    let payloadBytes = 0;
    for (const part of parts) payloadBytes += part.length;
    const bytes = payloadBytes + (headers === null ? 0 : headers.length);
    const protocol = this.#client.protocol;
    if (!protocol.connected) return false;
    const info = protocol.info;
    if (info === undefined) return false;
    if (bytes > info.max_payload) throw new MessageTooLargeError(bytes, info.max_payload);
    if (headers !== null && !info.headers) {
      throw new NatswayError("the NATS server has headers turned off: allow them in its config");
    }
    const lane = this.#lane;
    if (lane === null) {
      publishWithoutLane(this.connection, subject, reply, headers, parts, payloadBytes);
      return true;
    }
    const writer = lane.writer;
    if (writer === null || writer.pendingBytes >= HARD_CAP_BYTES) return false;
    // What nats-core queued earlier in this turn goes first: a SUB must not be overtaken.
    if (protocol.outbound.byteLength > 0) protocol.flushPending();
    protocol.outMsgs++;
    protocol.outBytes += bytes;
    encodePublish(writer, subject, reply, headers, parts, payloadBytes);
    return true;
  }

  /** Resolves when senders may go on, and when the link is down. */
  drained(): Promise<void> {
    const writer = this.#lane?.writer ?? null;
    if (writer === null || writer.pendingBytes < HIGH_MARK_BYTES) return Promise.resolve();
    return writer.drained();
  }

  /** Round trip to the server. @throws {NatswayError} (rejects) the link is or goes down. */
  flush(): Promise<void> {
    return new Promise((resolve, reject) => {
      const down = new NatswayError("the NATS link is down");
      if (!this.connected) return reject(down);
      const settle = (error?: Error) => {
        this.#flushes.delete(settle);
        error === undefined ? resolve() : reject(error);
      };
      this.#flushes.add(settle);
      this.#client.connection.flush().then(() => settle(), () => settle(down));
    });
  }

  /**
   * One request, one answer, on the mux inbox of nats-core: for the service protocol, not for data.
   * Rejects on timeout, no responders, and while down.
   */
  async request(
    subject: string,
    payload: Uint8Array,
    options: { readonly timeoutMs: number },
  ): Promise<Uint8Array> {
    if (!this.connected) throw new NatswayError("the NATS link is down");
    const message = await this.#client.connection.request(subject, payload, {
      timeout: options.timeoutMs,
    });
    return message.data;
  }

  /** Subscribes now and again after each reconnect, until the subscription is ended. */
  subscribe(options: LinkSubscribeOptions): LinkSubscription {
    const subscription = new LinkSubscription(options, {
      targets: this.#targets,
      connected: () => this.connected,
      flush: () => this.flush(),
      ended: (ended) => this.#subscriptions.delete(ended),
      retryDeniedMs: this.#dialer.retryDeniedMs,
      allowed: (label) => this.#journal.allowed(label, options.subject),
      denied: (label, error) => this.#journal.denied(label, options.subject, error),
      askAgain: (denied) => this.connected && denied.retry(this.#client),
      handlerFailed: (error) => this.#journal.handlerFailed(error),
    });
    this.#subscriptions.add(subscription);
    if (this.#closing === null) subscription.attach(this.#client);
    return subscription;
  }

  onConnection(listener: (connected: boolean) => void): void {
    this.#listeners.push(listener);
  }

  status(): LinkStatus {
    const { protocol } = this.#client;
    const connected = this.connected;
    const denied = [...this.#subscriptions].filter((one) => one.denied).map((one) => one.label);
    return {
      connected,
      status: this.#closing !== null
        ? "closed"
        : connected
        ? "connected"
        : this.#everConnected
        ? "reconnecting"
        : "connecting",
      server: protocol.getServer()?.listen ?? null,
      serverInfo: (protocol.info ?? this.#lastInfo ?? null) as TransportStatus["serverInfo"],
      maxPayload: this.maxPayload,
      roundTripMs: this.#roundTripMs,
      reconnects: this.#reconnects,
      lastError: this.#journal.lastError,
      ...this.#counters.with(this.#client),
      planesDenied: [...new Set(denied)],
    };
  }

  /** Waits until the server has taken what was published, at most 2 s, then closes for good. */
  close(): Promise<void> {
    return this.#closing ??= this.#close();
  }

  async #close(): Promise<void> {
    if (this.connected) {
      await sleep(CLOSE_TIMEOUT_MS, this.flush().catch(() => {}));
    }
    this.#stop.resolve();
    for (const subscription of this.#subscriptions) subscription.forget();
    this.#subscriptions.clear();
    await this.#shut(this.#client);
    await this.#running;
    this.#tell();
  }

  /** Keeps a client alive; a client that closes by itself is replaced by a new one. */
  async #run(): Promise<void> {
    while (this.#closing === null) {
      const client = this.#client;
      void this.#watch(client);
      let reason: unknown = undefined;
      try {
        await client.protocol.dialLoop();
        this.#tell();
        reason = await client.protocol.closed;
      } catch (error) {
        reason = error;
      }
      if (this.#closing !== null) return;
      this.#journal.cannotConnect(this.#serverName(), errorText(reason ?? "the client closed"));
      await this.#shut(client);
      this.#tell();
      await sleep(this.#dialer.retryMs(), this.#stop.promise);
      if (this.#closing !== null) return;
      this.#replaceClient();
    }
  }

  #replaceClient(): void {
    this.#counters.keep(this.#client);
    this.#targets.clear();
    this.#client = this.#createClient();
    for (const subscription of this.#subscriptions) subscription.attach(this.#client);
  }

  async #shut(client: NatsClient): Promise<void> {
    // nats-core closes the transport without looking whether it has one: there is none in the turn
    // in which the client was made.
    if (client.protocol.transport === undefined) await sleep(0);
    await client.protocol.close();
  }

  async #watch(client: NatsClient): Promise<void> {
    for await (const event of natsStatus(client)) {
      if (client === this.#client) this.#onStatus(event);
    }
  }

  #onStatus(event: Status): void {
    switch (event.type) {
      case "reconnect":
        this.#tell();
        break;
      case "ping":
        if (this.connected) void this.#measure();
        break;
      case "error":
        this.#journal.serverError(this.#serverName(), event.error);
        break;
      case "staleConnection":
        this.#journal.note("the NATS server does not answer pings");
        break;
      case "ldm":
        this.#journal.lameDuck(this.#serverName());
        break;
      case "disconnect":
        this.#reportLoss();
        break;
      case "close":
        this.#reportLoss();
        this.#tell();
        break;
    }
  }

  #reportLoss(): void {
    const loss = this.#loss;
    this.#loss = null;
    if (loss !== null) this.#journal.lost(loss.server, loss.error);
  }

  async #measure(): Promise<void> {
    const start = performance.now();
    try {
      await this.flush();
      this.#roundTripMs = Math.round((performance.now() - start) * 1000) / 1000;
    } catch {
      this.#roundTripMs = null;
    }
  }

  /** Tells everybody about a change of `connected`, once. */
  #tell(): void {
    const connected = this.connected;
    // The connection ended in the turn of its PONG: nats-core took it for a good one after that.
    if (!connected && this.#client.protocol.connected && this.#closing === null) {
      this.#lane?.reportClosed();
    }
    if (connected === this.#told) return;
    this.#told = connected;
    if (connected) {
      if (this.#everConnected) this.#reconnects++;
      this.#everConnected = true;
      this.#dialer.failures = 0;
      this.#lastInfo = this.#client.protocol.info;
      this.#journal.connected(this.#serverName(), this.#lastInfo?.version ?? "");
      for (const subscription of this.#subscriptions) subscription.retry(this.#client);
      void this.#measure();
    } else {
      const error = new NatswayError("the NATS link went down");
      for (const settle of this.#flushes) settle(error);
      this.#roundTripMs = null;
    }
    for (const listener of this.#listeners) {
      try {
        listener(connected);
      } catch (error) {
        this.#journal.handlerFailed(error);
      }
    }
  }

  #serverName(): string {
    return this.#client?.protocol.getServer()?.listen ?? this.#dialer.firstServer;
  }

  #createClient(): NatsClient {
    return createNatsClient(this.#dialer.clientOptions(this.#hooks(), () => this.#serverName()));
  }

  #hooks(): LaneHooks {
    return {
      targets: this.#targets,
      open: (server, signal) => this.#dialer.open(server, signal),
      parse: (bytes) => this.#client.protocol.parser.parse(bytes),
      received: (bytes) => {
        this.#client.protocol.inMsgs++;
        this.#client.protocol.inBytes += bytes;
      },
      handlerFailed: (error) => this.#journal.handlerFailed(error),
      dialFailed: (error) => this.#dialFailed(error),
      lost: (error) => this.#lost(error),
    };
  }

  #dialFailed(error: Error): void {
    this.#dialer.failures++;
    if (this.#closing === null) this.#journal.cannotConnect(this.#serverName(), errorText(error));
  }

  /** Returns whether nats-core thinks that it is connected, and so has to hear of the end. */
  #lost(error: Error | undefined): boolean {
    const { protocol } = this.#client;
    if (this.#closing !== null) return false;
    if (this.#told) {
      // Written at nats-core's own event, which comes behind those that say why.
      this.#loss = { server: this.#serverName(), error };
      this.#tell();
      return protocol.connected;
    }
    const reason = error ?? new Error("the server closed the connection during the handshake");
    this.#dialFailed(reason);
    // nats-core would wait for the PONG of that connection until its timeout.
    protocol.connectError?.(reason);
    return protocol.connected;
  }
}
