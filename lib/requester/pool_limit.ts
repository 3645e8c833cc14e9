/**
 * How large a request may be. The requester knows the `max_payload` of its own server alone; behind a
 * leaf link there may be servers that take less, and such a server (2.15.2 does, 2.9.10 does not)
 * cuts the link on the first message over its own limit, for everybody. So the receivers are asked.
 * @module
 */
import { newId } from "../flow/ids.ts";
import { encodeHello } from "../protocol/hello.ts";
import { natsStatus, NO_RESPONDERS } from "../protocol/nats_headers.ts";
import type { ResponseInfoCache } from "../protocol/response_info.ts";
import { cancelSubject, POOL_TOKEN, responseSubject, type Roots } from "../protocol/subjects.ts";
import type { Inbound, Transport } from "../transport/types.ts";

/** What may be sent to a pool that nothing is known of: the smallest limit that is in common use. */
export const UNASKED_BYTES = 64 * 1024;
/** How long the answers count: a receiver that joined since then may be behind another server. */
const FRESH_MS = 30_000;
/** The same when no receiver answered. */
const SILENT_FRESH_MS = 1_000;
/** Longest wait for the first answer. */
const ANSWER_MS = 1_000;
/** From the first answer on the others are waited for as long again, but at least this long. */
const OTHERS_MS = 50;

/** A question under way. */
interface Round {
  readonly id: string;
  readonly startedMs: number;
  /** Smallest limit in the answers so far. */
  limit: number;
  /** No natsway receiver listens. */
  nobody: boolean;
  readonly done: () => void;
  timer: ReturnType<typeof setTimeout>;
}

/** One for a requester; it asks only when there is something large to send. */
export class PoolLimit {
  readonly #transport: Transport;
  readonly #roots: Roots;
  readonly #serviceId: string;
  readonly #infoCache: ResponseInfoCache;
  /** Smallest limit that a receiver has named; Infinity for none. */
  #named = Infinity;
  /** `performance.now()` until which `#named` stands for all receivers. */
  #freshUntilMs = 0;
  #round: Round | null = null;
  #asking: Promise<void> | null = null;

  constructor(options: {
    readonly transport: Transport;
    readonly roots: Roots;
    readonly serviceId: string;
    readonly infoCache: ResponseInfoCache;
  }) {
    this.#transport = options.transport;
    this.#roots = options.roots;
    this.#serviceId = options.serviceId;
    this.#infoCache = options.infoCache;
    options.transport.onConnection(() => this.#forget());
  }

  /** Largest message, header block and all, that may be published now, in bytes. */
  get bytes(): number {
    const own = Math.min(this.#transport.maxPayload, this.#named);
    return this.known ? own : Math.min(own, UNASKED_BYTES);
  }

  /** Whether asking cannot raise `bytes`: it was done lately, or the own server takes no more. */
  get known(): boolean {
    return this.#transport.maxPayload <= UNASKED_BYTES || performance.now() < this.#freshUntilMs;
  }

  /** A receiver has named its limit, with whatever it answered; 0 for none. */
  learn(maxMsg: number): void {
    if (maxMsg <= 0) return;
    if (maxMsg < this.#named) this.#named = maxMsg;
    if (this.#round !== null && maxMsg < this.#round.limit) this.#round.limit = maxMsg;
  }

  /**
   * Asks all receivers. Resolves within about two seconds, and `known` is true then: for a short while
   * only, when nobody answers, and with the small limit, if somebody listens all the same.
   */
  ask(): Promise<void> {
    return this.#asking ??= this.#ask().finally(() => this.#asking = null);
  }

  /** Takes an answer; false when the message is none. */
  receive(message: Inbound): boolean {
    const round = this.#round;
    if (round === null || message.token !== round.id) return false;
    const { data, headers } = message;
    if (headers !== null && data.length === 0 && natsStatus(headers) === NO_RESPONDERS) {
      round.nobody = true;
      round.done();
      return true;
    }
    const maxMsg = this.#infoCache.read(data)?.peer.maxMsg ?? 0;
    if (maxMsg === 0) return true;
    if (round.limit === Infinity) {
      const othersMs = Math.max(OTHERS_MS, performance.now() - round.startedMs);
      clearTimeout(round.timer);
      round.timer = setTimeout(round.done, othersMs);
    }
    round.limit = Math.min(round.limit, maxMsg);
    return true;
  }

  /** Ends a question under way. */
  close(): void {
    this.#round?.done();
  }

  async #ask(): Promise<void> {
    const id = newId();
    const replyTo = responseSubject(this.#roots, this.#serviceId, id);
    const { promise, resolve: done } = Promise.withResolvers<void>();
    const timer = setTimeout(done, ANSWER_MS);
    const startedMs = performance.now();
    const round: Round = { id, startedMs, limit: Infinity, nobody: false, done, timer };
    this.#round = round;
    const subject = cancelSubject(this.#roots, POOL_TOKEN, id);
    const hello = encodeHello({ requestId: id, replyTo });
    if (!this.#transport.publish(subject, [hello], { reply: replyTo })) done();
    await promise;
    clearTimeout(round.timer);
    this.#round = null;
    const silent = round.limit === Infinity;
    // Where only Ruby receivers may be, the contract's rule holds: the own server's limit.
    this.#named = silent && !round.nobody ? UNASKED_BYTES : round.limit;
    this.#freshUntilMs = performance.now() + (silent ? SILENT_FRESH_MS : FRESH_MS);
  }

  /** After a change of the connection the receivers may be elsewhere. */
  #forget(): void {
    this.#named = Infinity;
    this.#freshUntilMs = 0;
    this.#round?.done();
  }
}
