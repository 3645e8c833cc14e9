/**
 * What a session in the contract's form needs of its surroundings.
 * @module
 */
import type { Logger } from "../logger.ts";
import type { CreditSizes } from "../protocol/credit.ts";
import type { PublishOptions } from "../transport/types.ts";
import type { ByteSink } from "./byte_flow.ts";
import type { Deadline } from "./deadlines.ts";

/** The way out to NATS. */
export interface ContractWire {
  /**
   * Sends one message; the bytes are copied before this returns. False when there is no connection:
   * nothing was sent.
   * @throws {MessageTooLargeError} the message is larger than `max_payload`.
   */
  publish(subject: string, parts: readonly Uint8Array[], options?: PublishOptions): boolean;
  /** False while so much waits for the kernel that data should too; then call `ContractFlow.pump`. */
  readonly ready: boolean;
  /** For a requester: publishes the cancel of wire-protocol.md section 8 to the flow's receiver. */
  cancel(reason: string): void;
}

/** Starts waits, in ms. {@linkcode DeadlinesByLength} does. */
export interface ContractClock {
  start(durationMs: number, run: () => void): Deadline;
}

export interface ContractFlowOptions {
  readonly side: "requester" | "receiver";
  /** Session id: last token of both subjects. */
  readonly id: string;
  /** The own SERVICE_ID, for credits. */
  readonly serviceId: string;
  /** Where frames go: subject 3 for a requester, 4 for a receiver. */
  readonly subject: string;
  /** Where the events of a receiver go, resolved and checked; `""` for a requester. */
  readonly eventSubject: string;
  /** `traceparent` and `tracestate` of the request as a header block, for every event of a receiver. */
  readonly traceHeaders: Uint8Array | null;
  readonly wire: ContractWire;
  readonly sink: ByteSink;
  readonly clock: ContractClock;
  readonly sizes: CreditSizes;
  /**
   * STREAM_RESPONSE_TIMEOUT: longest wait for credit, and of a requester that has said all for the
   * receiver's next word; 0 for ever.
   */
  readonly creditTimeoutMs: number;
  /** So long must be quiet after an end before nothing more is awaited. @default {100} */
  readonly drainMs?: number;
  readonly logger: Logger;
}
