/**
 * What a role needs from NATS, whichever backend serves it. `requester/`, `receiver/` and `flow/`
 * see nothing of `transport/` but this file.
 * @module
 */

/** The planes that belong to one process (wire-protocol.md section 1, subjects 2 to 6). */
export type Plane =
  | "responses"
  | "sessions.downstream"
  | "sessions.upstream"
  | "control"
  | "cancel";

/** One message as it came. `data` and `headers` are views: copy them before the first `await`. */
export interface Inbound {
  /** Last dot-separated token of the subject: the flow's id. */
  readonly token: string;
  /** Payload, possibly empty. */
  readonly data: Uint8Array;
  /** Subject for an answer, or `""`. */
  readonly reply: string;
  /** The NATS header block from `NATS/1.0` on, or null (see `protocol/nats_headers.ts`). */
  readonly headers: Uint8Array | null;
}

/** A request from the shared plane. In Core the settling calls do nothing. */
export interface Delivery extends Inbound {
  /** How often it was delivered, this time included; 1 in Core. */
  readonly deliveries: number;
  /** Somebody had it before, and may have begun with it. */
  readonly redelivered: boolean;
  /** There will be no further delivery: who cannot do it has to say so. */
  readonly lastDelivery: boolean;
  /**
   * Time since the server took the message, in ms, exact to about 2 s; null while that is unknown. In
   * Core, where the server keeps nothing, time since it was received.
   */
  readonly ageMs: number | null;
  /**
   * Takes the message for good, before work that must not be done twice: it is acknowledged, and true
   * means that no other receiver has or gets it. False: neither do the work nor answer, another may.
   * Settles within one `ack_wait`. True at once in Core.
   */
  claim(): true | Promise<boolean>;
  /** The work is done, or an answer explains why it never will be. */
  ack(): void;
  /** Another receiver may do better, after `delayMs`. On the last delivery the same as `term`. */
  nak(delayMs: number): void;
  /** Never deliver this again. */
  term(reason: string): void;
  /** Still at it: start the redelivery clock anew. */
  working(): void;
}

/** What may go with a publish. */
export interface PublishOptions {
  /** Reply subject. Not sent in JetStream, where the reply subject is for the stream's answer. */
  readonly reply?: string;
  /** A complete header block from `encodeNatsHeaders`. */
  readonly headers?: Uint8Array;
  /**
   * JetStream only: the stream has not taken the message (`reason` says why), or has not said within
   * 5 s that it has. Called at most once, never before `publish` has returned.
   */
  readonly onLost?: (reason: string) => void;
}

/** How requests are taken in JetStream; Core, where the server pushes, needs none of it. */
export interface RequestOptions {
  /** How many requests may come now. Asked before each pull. @default 1 each time */
  readonly free?: () => number;
  /**
   * Nobody has settled this request in all its deliveries: answer it. It is removed from the stream
   * once this has returned or resolved. One receiver of the pool is called.
   */
  readonly onExhausted?: (message: Inbound) => void | Promise<void>;
}

/** The request plane of a receiver. */
export interface RequestConsumer {
  /** `free` has grown. Nothing is lost by calling it too often. */
  more(): void;
  /**
   * Leaves the pool; what is already on its way is still delivered, in JetStream only if no other
   * receiver can have it. Resolves when no more comes.
   */
  pause(): Promise<void>;
  /** Joins the pool again. */
  resume(): void;
}

/** A snapshot of the link, for readiness, pages and logs. Never holds a secret. */
export interface TransportStatus {
  readonly connected: boolean;
  readonly status: "connecting" | "connected" | "reconnecting" | "closed";
  /** `auto` until that is resolved. */
  readonly backend: "auto" | "core" | "jetstream";
  /** Why that backend. */
  readonly backendReason: string;
  /**
   * Why a connected process still cannot do its work, for readiness, or null: in JetStream it names
   * the stream and the consumer that are not there.
   */
  readonly notReady: string | null;
  /** `host:port` of the server, without credentials, or null. */
  readonly server: string | null;
  /** The server's INFO, or null. */
  readonly serverInfo: Readonly<Record<string, unknown>> | null;
  /** Largest whole message, in bytes; 0 before the first connect. Read again at each connect. */
  readonly maxPayload: number;
  readonly roundTripMs: number | null;
  readonly reconnects: number;
  readonly lastError: string | null;
  readonly sentMessages: number;
  readonly receivedMessages: number;
  readonly sentBytes: number;
  readonly receivedBytes: number;
  readonly sentPings: number;
  readonly receivedPings: number;
  readonly receivedPongs: number;
  /** Planes whose subscription the server refused, e.g. `requests`: the process cannot do its work. */
  readonly planesDenied: readonly string[];
}

/** NATS as the roles see it. */
export interface Transport {
  readonly connected: boolean;
  /** Largest whole message (header block and payload), in bytes; 0 while unknown. */
  readonly maxPayload: number;
  /** Bytes accepted by `publish` and not yet handed to the kernel. */
  readonly pendingBytes: number;
  /** So much is pending that senders of data must wait; `drained` tells for how long. */
  readonly congested: boolean;
  /**
   * Sends one message whose payload is `parts` in order. The bytes are copied before it returns.
   * Returns false when there is no connection: nothing was sent and nothing is kept.
   * @throws {MessageTooLargeError} the message is larger than `maxPayload`.
   * @throws {TypeError} subject or reply is not one that may be published to.
   */
  publish(subject: string, parts: readonly Uint8Array[], options?: PublishOptions): boolean;
  /** Resolves when senders of data may go on, or when the link is down. */
  drained(): Promise<void>;
  /**
   * Round trip to the server: all that was published before has been taken, in JetStream by the stream,
   * unless it was reported as lost. Rejects when the link is down.
   */
  flush(): Promise<void>;
  /** Takes requests from the shared plane: queue group in Core, durable consumer in JetStream. */
  consumeRequests(
    handler: (delivery: Delivery) => void,
    options?: RequestOptions,
  ): RequestConsumer;
  /** Listens on one plane of this process; one subscription for the plane, never one per flow. */
  consumePlane(plane: Plane, handler: (message: Inbound) => void): void;
  /** Listens on the cancel plane that all receivers share (`cancel._pool`, extensions.md section 1). */
  consumePoolCancels(handler: (message: Inbound) => void): void;
  /** Calls `listener` at each change of `connected`. */
  onConnection(listener: (connected: boolean) => void): void;
  /** Calls `listener` at each change of `status().notReady`. */
  onReadiness(listener: (notReady: string | null) => void): void;
  status(): TransportStatus;
  /** `mode_details` of /observability/nats (http-surface.md section 6.4). Never rejects. */
  inspect(): Promise<Readonly<Record<string, unknown>>>;
  /** Sends what is pending (bounded by 2 s), then closes. */
  close(): Promise<void>;
}
