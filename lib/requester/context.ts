/**
 * What all exchanges of a requester share.
 * @module
 */
import type { Deadlines, DeadlinesByLength } from "../flow/deadlines.ts";
import type { LaneDriver } from "../flow/lane_driver.ts";
import type { Flow, FlowEnd } from "../flow/registry.ts";
import type { Logger } from "../logger.ts";
import type { CreditSizes } from "../protocol/credit.ts";
import type { ResponseInfoCache } from "../protocol/response_info.ts";
import type { Roots } from "../protocol/subjects.ts";
import type { Transport } from "../transport/types.ts";
import type { FirstWindows } from "./first_windows.ts";

export interface RequesterContext {
  readonly transport: Transport;
  /** Whether answers would be heard: connected, and listening for them. */
  readonly isListening: () => boolean;
  readonly roots: Roots;
  readonly serviceId: string;
  /** Ruby receivers may be in the pool (PEERS=mixed). */
  readonly mixed: boolean;
  /** Largest head of a response, in bytes. */
  readonly maxHeaderBytes: number;
  readonly logger: Logger;
  /** Wait for the first event. */
  readonly responseDeadlines: Deadlines;
  readonly responseTimeoutMs: number;
  /** Wait for each next event of a Ruby peer; null for no limit. */
  readonly streamDeadlines: Deadlines | null;
  readonly streamTimeoutMs: number;
  /** How long a tunnel may be idle; 0 for ever. */
  readonly idleTimeoutMs: number;
  readonly idleDeadlines: DeadlinesByLength;
  readonly lanes: LaneDriver;
  readonly windows: FirstWindows;
  readonly infoCache: ResponseInfoCache;
  /** A receiver has named the largest message that its server takes, in bytes; 0 for none. */
  learnLimit(maxMsg: number): void;
  /** The `Via` line for responses, with CRLF, or `""`. */
  readonly viaLine: string;
  creditSizes(): CreditSizes;
  /** Publishes a cancel; false when there is no connection. */
  publishCancel(
    subject: string,
    cancel: { requestId: string; reason: string; epoch: string | null },
    reply?: string,
  ): boolean;
  /** Ends an execution that no flow is bound to at its owner; `epoch` is null for a Ruby peer's. */
  cancelForeign(requestId: string, serviceId: string, epoch: Uint8Array | null): void;
  /** Called once by each exchange and session. */
  finished(flow: Flow, end: FlowEnd, detail: string | undefined): void;
}
