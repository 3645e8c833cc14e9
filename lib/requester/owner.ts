/**
 * The receiver that a flow is bound to, and what is said to it.
 * @module
 */
import { GrantCounter } from "../flow/credit_window.ts";
import { creditHeaders, encodeCredit } from "../protocol/credit.ts";
import { hex } from "../protocol/hex.ts";
import { cancelSubject, controlSubject, isServiceId, POOL_TOKEN } from "../protocol/subjects.ts";
import type { RequesterContext } from "./context.ts";

/** One receiver, in one execution of one request. */
export class Owner {
  readonly #context: RequesterContext;
  readonly #requestId: string;
  readonly #epoch: Uint8Array | null;
  /** `""` when it gave none that can stand in a subject: then it is told by the pool's cancels only. */
  readonly serviceId: string;
  #grants: GrantCounter | null = null;

  /** @param epoch of the execution; null for a Ruby peer */
  constructor(
    context: RequesterContext,
    requestId: string,
    serviceId: string,
    epoch: Uint8Array | null,
  ) {
    this.#context = context;
    this.#requestId = requestId;
    this.serviceId = isServiceId(serviceId) ? serviceId : "";
    this.#epoch = epoch;
  }

  /** Where it hears of the flow. */
  get controlSubject(): string {
    return controlSubject(this.#context.roots, this.serviceId || POOL_TOKEN, this.#requestId);
  }

  /** Gives the first credit; `consumed` of `grant` counts from here. */
  startCredit(): void {
    this.#grants = new GrantCounter(this.#context.creditSizes());
    this.#publishCredit(this.#grants.first());
  }

  /**
   * Grants what the client has taken, in batches; nothing before `startCredit`.
   * @param consumed body bytes that the client's socket has taken since then
   */
  grant(consumed: number): void {
    const bytes = this.#grants?.next(consumed) ?? 0;
    if (bytes > 0) this.#publishCredit(bytes);
  }

  /** Ends this execution. */
  cancel(reason: string): void {
    this.#context.publishCancel(
      cancelSubject(this.#context.roots, this.serviceId || POOL_TOKEN, this.#requestId),
      {
        requestId: this.#requestId,
        reason,
        epoch: this.#epoch === null ? null : hex(this.#epoch),
      },
    );
  }

  #publishCredit(bytes: number): void {
    if (this.serviceId === "") return;
    const { transport, roots, serviceId } = this.#context;
    transport.publish(
      controlSubject(roots, this.serviceId, this.#requestId),
      [encodeCredit(
        { requestId: this.#requestId, direction: "response", bytes, serviceId },
        new Date(),
      )],
      { headers: creditHeaders("response", this.#requestId) },
    );
  }
}
