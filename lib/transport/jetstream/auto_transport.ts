/**
 * The transport of a process by NATS_MODE: over Core or JetStream, and in `auto` over whichever it
 * turns out to be. Until then it is connected but not ready, and publishes nothing.
 * @module
 */

import type { StartError } from "../../errors.ts";
import { type CoreOptions, type CoreSubjects, CoreTransport } from "../core.ts";
import { NatsLink } from "../link.ts";
import type {
  Delivery,
  Inbound,
  Plane,
  PublishOptions,
  RequestConsumer,
  RequestOptions,
  Transport,
  TransportStatus,
} from "../types.ts";
import { type JetStreamCounts, type JetStreamOptions, JetStreamTransport } from "./jetstream.ts";
import { Management } from "./management.ts";
import { BackendResolver, fixedBackend, type NatsMode, type Resolution } from "./resolver.ts";

export type AutoOptions =
  & Omit<CoreOptions, "backendReason" | "link">
  & Omit<JetStreamOptions, "link" | "subjects" | "backendReason">
  & { readonly mode: NatsMode; readonly subjects: CoreSubjects };

/** Makes the transport and returns at once; it connects in the background. */
export function connectTransport(options: AutoOptions): AutoTransport {
  return new AutoTransport(options);
}

/** A consumer that is asked for before there is a backend. */
class LaterRequests implements RequestConsumer {
  #now: RequestConsumer | null = null;
  #paused = false;

  begin(consumer: RequestConsumer): void {
    this.#now = consumer;
    if (this.#paused) void consumer.pause();
  }

  more(): void {
    this.#now?.more();
  }

  async pause(): Promise<void> {
    this.#paused = true;
    await this.#now?.pause();
  }

  resume(): void {
    this.#paused = false;
    this.#now?.resume();
  }
}

/** See {@link connectTransport}. */
export class AutoTransport implements Transport {
  readonly link: NatsLink;
  readonly #options: AutoOptions;
  readonly #failed = Promise.withResolvers<StartError>();
  readonly #readiness: ((notReady: string | null) => void)[] = [];
  readonly #resolver: BackendResolver | null = null;
  #backend: CoreTransport | JetStreamTransport | null = null;
  /** What was asked for before there was a backend, in order. */
  #later: ((backend: Transport) => void)[] = [];

  constructor(options: AutoOptions) {
    this.#options = options;
    const { mode, logger, stream, apiPrefix } = options;
    this.link = new NatsLink(options);
    const fixed = fixedBackend(mode);
    if (fixed !== null) {
      this.#begin(fixed);
    } else {
      this.#resolver = new BackendResolver({
        link: this.link,
        management: new Management({ link: this.link, stream, apiPrefix }),
        logger,
        stream,
        onResolved: (resolution) => this.#begin(resolution),
      });
    }
  }

  /** Resolves when this process may not go on, see {@link JetStreamTransport.failed}. */
  get failed(): Promise<StartError> {
    return this.#failed.promise;
  }

  /** Counts of JetStream; null in Core. */
  get counts(): JetStreamCounts | null {
    return this.#backend instanceof JetStreamTransport ? this.#backend.counts : null;
  }

  get connected(): boolean {
    return this.link.connected;
  }

  get maxPayload(): number {
    return this.#backend?.maxPayload ?? this.link.maxPayload;
  }

  get pendingBytes(): number {
    return this.link.pendingBytes;
  }

  get congested(): boolean {
    return this.#backend?.congested ?? false;
  }

  publish(subject: string, parts: readonly Uint8Array[], options?: PublishOptions): boolean {
    return this.#backend?.publish(subject, parts, options) ?? false;
  }

  async drained(): Promise<void> {
    await this.#backend?.drained();
  }

  flush(): Promise<void> {
    return this.#backend?.flush() ?? this.link.flush();
  }

  consumeRequests(
    handler: (delivery: Delivery) => void,
    options?: RequestOptions,
  ): RequestConsumer {
    const consumer = new LaterRequests();
    this.#when((backend) => consumer.begin(backend.consumeRequests(handler, options)));
    return consumer;
  }

  consumePlane(plane: Plane, handler: (message: Inbound) => void): void {
    this.#when((backend) => backend.consumePlane(plane, handler));
  }

  consumePoolCancels(handler: (message: Inbound) => void): void {
    this.#when((backend) => backend.consumePoolCancels(handler));
  }

  onConnection(listener: (connected: boolean) => void): void {
    this.link.onConnection(listener);
  }

  onReadiness(listener: (notReady: string | null) => void): void {
    this.#readiness.push(listener);
  }

  status(): TransportStatus {
    return this.#backend?.status() ?? {
      ...this.link.status(),
      backend: "auto",
      backendReason: "NATS_MODE=auto: not resolved yet",
      notReady: this.#resolver?.reason ?? "asking NATS whether the stream is there",
    };
  }

  inspect(): Promise<Readonly<Record<string, unknown>>> {
    return this.#backend?.inspect() ??
      Promise.resolve({ backend_mode: "auto", jetstream_available: false });
  }

  async close(): Promise<void> {
    await Promise.all([this.#resolver?.close(), this.#backend?.close() ?? this.link.close()]);
  }

  #when(use: (backend: Transport) => void): void {
    if (this.#backend === null) this.#later.push(use);
    else use(this.#backend);
  }

  #begin({ backend, reason }: Resolution): void {
    const options = { ...this.#options, link: this.link, backendReason: reason };
    if (backend === "core") {
      this.#backend = new CoreTransport(options);
    } else {
      const jetstream = new JetStreamTransport(options);
      void jetstream.failed.then((error) => this.#failed.resolve(error));
      this.#backend = jetstream;
    }
    const later = this.#later;
    this.#later = [];
    for (const use of later) use(this.#backend);
    this.#backend.onReadiness((notReady) => this.#tell(notReady));
    this.#tell(this.#backend.status().notReady);
  }

  #tell(notReady: string | null): void {
    for (const listener of this.#readiness) listener(notReady);
  }
}
