/**
 * How a receiver answers, whatever form its requester understands.
 * @module
 */
import type { FailureCode } from "../errors.ts";
import type { LaneEnd } from "../flow/lane_types.ts";
import type { ResponseHead } from "../http1/head.ts";
import type { Transport } from "../transport/types.ts";

/** Answers one request. After `finish` or `fail` nothing more is published. */
export interface Responder {
  /**
   * Takes the head, and the beginning of the body that is already at hand, as views. Resolves when all
   * of it has been published; until then the views must stay.
   * @param last the body is complete with this
   */
  head(
    head: ResponseHead,
    buffer: Uint8Array,
    start: number,
    end: number,
    last: boolean,
  ): Promise<void> | void;
  /** Takes more of the body; as `head`. */
  body(buffer: Uint8Array, start: number, end: number, last: boolean): Promise<void> | void;
  /** Answers with a failure, or breaks the response off when a head is out. */
  fail(code: FailureCode, text: string): void;
  /** A grant of incremental credit came. */
  credit(bytes: number): void;
  /** Keeps an idle response from the time limit that its requester may have. */
  keepAlive(): void;
  /** Nobody waits any more: nothing is published from now on, waiters go on. */
  cancel(reason: string): void;
  /** How it ended; what has been published may have to be sent again until then. */
  settled(): Promise<LaneEnd> | LaneEnd;
  /** Called once at its end, from whichever side. */
  onEnded: ((end: LaneEnd) => void) | null;
  readonly headSent: boolean;
  readonly ended: boolean;
  /** Ended because there was no connection to NATS when something had to be published. */
  readonly lost: boolean;
  /** Body bytes published. */
  readonly bodyBytes: number;
  /** Status that was published, 0 before. */
  readonly status: number;
}

/** Lets an answer wait for the connection to NATS to come back. */
export class ConnectionGate {
  readonly #transport: Transport;
  readonly #waiters = new Set<() => void>();

  constructor(transport: Transport) {
    this.#transport = transport;
    transport.onConnection((connected) => {
      if (!connected) return;
      for (const waiter of this.#waiters) waiter();
      this.#waiters.clear();
    });
  }

  /** Whether there is a connection now. */
  get open(): boolean {
    return this.#transport.connected;
  }

  /** Resolves when there is a connection, or after `timeoutMs`. */
  async wait(timeoutMs: number): Promise<void> {
    if (this.open) return;
    let timer: ReturnType<typeof setTimeout> | undefined;
    await new Promise<void>((resolve) => {
      this.#waiters.add(resolve);
      timer = setTimeout(() => {
        this.#waiters.delete(resolve);
        resolve();
      }, timeoutMs);
    });
    clearTimeout(timer);
  }
}
