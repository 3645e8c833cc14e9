/**
 * What is said to the whole pool about a request whose receiver is not known yet: cancels, and the
 * question whether there is anybody at all.
 * @module
 */
import type { FailureCode } from "../errors.ts";
import { cancelSubject, POOL_TOKEN, requestSubject } from "../protocol/subjects.ts";
import type { RequesterContext } from "./context.ts";

export interface PoolQuestionOptions {
  readonly requestId: string;
  readonly replyTo: string;
  /** Whether a receiver has answered. */
  readonly isOwned: () => boolean;
  readonly fail: (code: FailureCode, message: string) => void;
}

/** One for each request. */
export class PoolQuestion {
  readonly #context: RequesterContext;
  readonly #options: PoolQuestionOptions;
  #noResponders = 0;
  #told = false;

  constructor(context: RequesterContext, options: PoolQuestionOptions) {
    this.#context = context;
    this.#options = options;
  }

  /** Whoever may still get the request, or runs it already, need not. Said once. */
  cancel(reason: string): void {
    if (this.#told) return;
    const { roots, serviceId, mixed, publishCancel } = this.#context;
    const { requestId } = this.#options;
    if (mixed) {
      // A Ruby receiver does not listen for the pool's cancels: it hears the early form.
      const cancel = { requestId, reason, epoch: null };
      publishCancel(requestSubject(roots, serviceId, requestId), cancel);
    }
    this.#tell(reason);
  }

  /**
   * The server says that nobody listens. Receivers that are merely full left the queue group, but all
   * hear a cancel of the pool: a second answer of this kind means that there is none at all.
   */
  nobodyListens(): void {
    const { isOwned, fail, replyTo } = this.#options;
    this.#noResponders++;
    if (this.#noResponders > 1 || isOwned()) return;
    if (!this.#tell("no_receiver", replyTo)) {
      fail("nats_down", "The connection to NATS was lost");
      return;
    }
    this.#context.transport.flush().then(() => {
      if (isOwned()) return; // one was there after all
      if (this.#noResponders > 1) {
        fail("no_receiver", "No receiver is listening; start one with the same subjects");
      } else fail("overloaded", "All receivers are saturated");
    }, () => fail("nats_down", "The connection to NATS was lost"));
  }

  #tell(reason: string, reply?: string): boolean {
    this.#told = true;
    const { requestId } = this.#options;
    const subject = cancelSubject(this.#context.roots, POOL_TOKEN, requestId);
    return this.#context.publishCancel(subject, { requestId, reason, epoch: null }, reply);
  }
}
