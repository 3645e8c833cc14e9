/**
 * One HTTP request at the receiver, from the dispatch to the end of its response.
 * @module
 */
import { FlowError } from "../errors.ts";
import type { DeadlinesByLength } from "../flow/deadlines.ts";
import { endDetail, flowEndOf } from "../flow/flow_end.ts";
import type { LaneEnd } from "../flow/lane_types.ts";
import type { Flow, FlowRegistry } from "../flow/registry.ts";
import type { HttpPayload } from "../protocol/envelope.ts";
import type { Delivery } from "../transport/types.ts";
import type { Execution } from "./executions.ts";
import { HttpCall } from "./http_call.ts";
import type { ConnectionGate, Responder } from "./responder.ts";
import type { UpstreamClient } from "./upstream_client.ts";

/** Methods that may run more than once (RFC 9110 section 9.2.1). */
const SAFE = new Set(["GET", "HEAD", "OPTIONS", "TRACE"]);
/** When a request of unknown age is offered again. */
const AGE_RETRY_MS = 1_000;

/** What all executions of a receiver share. */
export interface HttpExecutionContext {
  readonly registry: FlowRegistry;
  readonly client: UpstreamClient;
  readonly gate: ConnectionGate;
  readonly headDeadlines: DeadlinesByLength;
  /** 0: the requester's own wait decides. */
  readonly upstreamTimeoutMs: number;
  /** Called once, when nothing more can come for it. */
  readonly remove: (execution: Execution) => void;
}

/** What a request brings along. */
export interface HttpJob {
  readonly epoch: Uint8Array;
  readonly delivery: Delivery;
  readonly flow: Flow;
  readonly request: HttpPayload;
  /** The head to send, from `upstreamHead`. */
  readonly head: string;
  readonly responder: Responder;
  /** How long its client waits, in ms from `arrivedMs` (`performance.now()`). */
  readonly ttlMs: number;
  readonly arrivedMs: number;
}

/** See {@linkcode Execution}. */
export class HttpExecution implements Execution {
  readonly #context: HttpExecutionContext;
  readonly #job: HttpJob;
  /** Null while it waits for a slot. */
  #call: HttpCall | null = null;

  constructor(context: HttpExecutionContext, job: HttpJob) {
    this.#context = context;
    this.#job = job;
    job.responder.onEnded = (end) => this.#responseEnded(end);
  }

  get id(): string {
    return this.#job.flow.id;
  }

  get epoch(): Uint8Array {
    return this.#job.epoch;
  }

  cancel(reason: string): void {
    this.#job.responder.cancel(reason);
    this.#call?.abort(new FlowError("canceled", `Cancelled by the requester: ${reason}`));
  }

  stop(failure: FlowError): void {
    this.#job.responder.fail(failure.code, failure.message);
    this.#call?.abort(failure);
  }

  credit(bytes: number): void {
    this.#job.responder.credit(bytes);
  }

  keepAlive(): void {
    this.#job.responder.keepAlive();
  }

  receive(): boolean {
    return false;
  }

  /** Goes on: what a Ruby requester has missed, it will end with a timeout of its own. */
  linkLost(): void {}

  /** Makes the call. `release` gives the slot of the dispatch back, once, as soon as the head is there. */
  async run(release: () => void): Promise<void> {
    const refusal = this.#refusal();
    const why = refusal instanceof Promise ? await refusal : refusal;
    if (why !== null) {
      this.#job.responder.onEnded = null;
      this.#context.remove(this);
      release();
      this.#context.registry.close(this.#job.flow, "canceled", why);
      return;
    }
    const { responder, flow, delivery, request, head, ttlMs } = this.#job;
    const { registry, upstreamTimeoutMs, client, gate, headDeadlines, remove } = this.#context;
    const call = this.#call = new HttpCall({
      client,
      request,
      head,
      responder,
      gate,
      answerTimeoutMs: ttlMs - this.#ageMs,
      // The requester's own clock ends the call too: no need to count what the wait here took.
      headTimeoutMs: upstreamTimeoutMs > 0 ? Math.min(upstreamTimeoutMs, ttlMs) : ttlMs,
      headDeadlines,
      onHead: () => {
        flow.state = "open";
        release();
      },
      // A long response must not hold a place among the unacknowledged.
      onAnswered: () => delivery.ack(),
    });
    const failure = await call.run();
    // The upstream has said all; what is on its way may have to be sent again.
    const settled = responder.settled();
    const end = settled instanceof Promise ? await settled : settled;
    remove(this);
    flow.status = responder.status;
    flow.receivedBytes = responder.bodyBytes;
    if (failure !== null) registry.close(flow, failure.code, failure.message);
    else registry.close(flow, flowEndOf(end), endDetail(end));
  }

  /** How long its client has waited, in ms. */
  get #ageMs(): number {
    const here = performance.now() - this.#job.arrivedMs;
    return Math.max(here, this.#job.delivery.ageMs ?? 0);
  }

  /** Why the request may not run, or null; the delivery is settled then. */
  #refusal(): string | null | Promise<string | null> {
    const { responder, delivery, request, ttlMs } = this.#job;
    if (responder.ended || this.#ageMs > ttlMs) {
      // Cancelled, or its client has long had its 504.
      responder.cancel("expired");
      delivery.ack();
      return "not run: cancelled or expired while it waited";
    }
    if (SAFE.has(request.method)) return null;
    if (delivery.ageMs === null) {
      if (delivery.lastDelivery) {
        responder.fail("overloaded", "The receiver does not know yet how old the request is");
      }
      delivery.nak(AGE_RETRY_MS);
      return "not run here: it is not known how old the request is";
    }
    // What must not be done twice is taken off the stream first (extensions.md section 8).
    const claimed = delivery.claim?.() ?? true;
    if (claimed === true) return null;
    return claimed.then((mine) => {
      if (!mine) return "not run here: another receiver may have it";
      return responder.ended ? "not run: cancelled while it was claimed" : null;
    });
  }

  /** The requester has left, or is lost: the upstream need not go on. */
  #responseEnded(end: LaneEnd): void {
    if (end.reason === "ok") return;
    const code = flowEndOf(end);
    const text = endDetail(end) ?? code;
    this.#call?.abort(new FlowError(code === "ok" ? "canceled" : code, text));
  }
}
