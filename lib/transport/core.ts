/**
 * The roles' {@link Transport} over Core NATS: plain publishes, a queue group for requests.
 * @module
 */

import { HIGH_MARK_BYTES, type LinkOptions, NatsLink } from "./link.ts";
import type { LinkSubscription } from "./link_subscription.ts";
import type {
  Delivery,
  Inbound,
  Plane,
  PublishOptions,
  RequestConsumer,
  RequestOptions,
  Transport,
  TransportStatus,
} from "./types.ts";

/** What a process listens on. Only what its role consumes is subscribed to. */
export interface CoreSubjects {
  /** Filter of the request plane (`LISTEN_SUBJECT`). */
  readonly requests: string;
  readonly queueGroup: string;
  /** All forms of the response subject (wire-protocol.md section 1.1). */
  readonly responses: readonly string[];
  readonly sessionsDownstream: readonly string[];
  readonly sessionsUpstream: readonly string[];
  readonly control: readonly string[];
  readonly cancel: readonly string[];
  readonly poolCancel: string;
}

export interface CoreOptions extends LinkOptions {
  /** A link that is there already; the options for a new one are then not used. */
  readonly link?: NatsLink;
  readonly subjects: CoreSubjects;
  /** Why Core was chosen, for the pages. @default {"NATS_MODE=core"} */
  readonly backendReason?: string;
}

/** Makes the transport and returns at once; it connects in the background, for as long as it takes. */
export function connectCore(options: CoreOptions): CoreTransport {
  return new CoreTransport(options);
}

/** A message as it came. */
class CoreMessage implements Inbound {
  constructor(
    readonly token: string,
    readonly data: Uint8Array,
    readonly reply: string,
    readonly headers: Uint8Array | null,
  ) {}
}

/** A request: the settling calls do nothing, since Core delivers once and forgets. */
class CoreRequest extends CoreMessage implements Delivery {
  readonly deliveries = 1;
  readonly redelivered = false;
  /** What this receiver answers is all that the requester will ever get. */
  readonly lastDelivery = true;
  readonly #receivedMs = performance.now();

  get ageMs(): number {
    return performance.now() - this.#receivedMs;
  }

  claim(): true {
    return true;
  }

  ack(): void {}
  nak(_delayMs: number): void {}
  term(_reason: string): void {}
  working(): void {}
}

/** See {@link connectCore}. */
export class CoreTransport implements Transport {
  readonly #link: NatsLink;
  readonly #subjects: CoreSubjects;
  readonly #backendReason: string;

  constructor(options: CoreOptions) {
    this.#subjects = options.subjects;
    this.#backendReason = options.backendReason ?? "NATS_MODE=core";
    this.#link = options.link ?? new NatsLink(options);
  }

  /** The link itself, for what is not a plane: presence, probes. */
  get link(): NatsLink {
    return this.#link;
  }

  get connected(): boolean {
    return this.#link.connected;
  }

  get maxPayload(): number {
    return this.#link.maxPayload;
  }

  get pendingBytes(): number {
    return this.#link.pendingBytes;
  }

  get congested(): boolean {
    return this.#link.pendingBytes >= HIGH_MARK_BYTES;
  }

  publish(subject: string, parts: readonly Uint8Array[], options?: PublishOptions): boolean {
    return this.#link.publish(subject, parts, options);
  }

  drained(): Promise<void> {
    return this.#link.drained();
  }

  flush(): Promise<void> {
    return this.#link.flush();
  }

  consumeRequests(
    handler: (delivery: Delivery) => void,
    _options?: RequestOptions,
  ): RequestConsumer {
    const { requests, queueGroup } = this.#subjects;
    const join = () =>
      this.#link.subscribe({
        subject: requests,
        label: "requests",
        queue: queueGroup,
        deliver: (token, data, reply, headers) =>
          handler(new CoreRequest(token, data, reply, headers)),
      });
    let current: LinkSubscription | null = join();
    return {
      more: () => {},
      pause: async () => {
        const leaving = current;
        current = null;
        await leaving?.drain();
      },
      resume: () => {
        current ??= join();
      },
    };
  }

  consumePlane(plane: Plane, handler: (message: Inbound) => void): void {
    for (const subject of this.#planeSubjects(plane)) this.#subscribe(subject, plane, handler);
  }

  consumePoolCancels(handler: (message: Inbound) => void): void {
    this.#subscribe(this.#subjects.poolCancel, "cancel._pool", handler);
  }

  onConnection(listener: (connected: boolean) => void): void {
    this.#link.onConnection(listener);
  }

  /** In Core there is nothing but the subscriptions, which `planesDenied` tells of. */
  onReadiness(_listener: (notReady: string | null) => void): void {}

  status(): TransportStatus {
    return {
      ...this.#link.status(),
      backend: "core",
      backendReason: this.#backendReason,
      notReady: null,
    };
  }

  inspect(): Promise<Readonly<Record<string, unknown>>> {
    return Promise.resolve({ backend_mode: "core", jetstream_available: false });
  }

  close(): Promise<void> {
    return this.#link.close();
  }

  #planeSubjects(plane: Plane): readonly string[] {
    switch (plane) {
      case "responses":
        return this.#subjects.responses;
      case "sessions.downstream":
        return this.#subjects.sessionsDownstream;
      case "sessions.upstream":
        return this.#subjects.sessionsUpstream;
      case "control":
        return this.#subjects.control;
      case "cancel":
        return this.#subjects.cancel;
    }
  }

  #subscribe(subject: string, label: string, handler: (message: Inbound) => void): void {
    this.#link.subscribe({
      subject,
      label,
      deliver: (token, data, reply, headers) =>
        handler(new CoreMessage(token, data, reply, headers)),
    });
  }
}
