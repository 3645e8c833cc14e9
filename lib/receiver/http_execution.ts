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
    const { responder, flow, delivery, arrivedMs, ttlMs, request, head } = this.#job;
    const { registry, upstreamTimeoutMs, client, gate, headDeadlines, remove } = this.#context;
    const age = performance.now() - arrivedMs;
    if (responder.ended || age > ttlMs) {
      // Cancelled, or its client has long had its 504: nothing may run.
      responder.cancel("expired");
      remove(this);
      release();
      delivery.ack();
      registry.close(flow, "canceled", "not run: cancelled or expired while it waited");
      return;
    }
    const call = this.#call = new HttpCall({
      client,
      request,
      head,
      responder,
      gate,
      answerTimeoutMs: ttlMs - age,
      // The requester's own clock ends the call too: no need to count what the wait here took.
      headTimeoutMs: upstreamTimeoutMs > 0 ? Math.min(upstreamTimeoutMs, ttlMs) : ttlMs,
      headDeadlines,
      onHead: () => {
        flow.state = "open";
        release();
      },
    });
    const failure = await call.run();
    delivery.ack();
    // The upstream has said all; what is on its way may have to be sent again.
    const settled = responder.settled();
    const end = settled instanceof Promise ? await settled : settled;
    remove(this);
    flow.status = responder.status;
    flow.receivedBytes = responder.bodyBytes;
    if (failure !== null) registry.close(flow, failure.code, failure.message);
    else registry.close(flow, flowEndOf(end), endDetail(end));
  }

  /** The requester has left, or is lost: the upstream need not go on. */
  #responseEnded(end: LaneEnd): void {
    if (end.reason === "ok") return;
    const code = flowEndOf(end);
    const text = endDetail(end) ?? code;
    this.#call?.abort(new FlowError(code === "ok" ? "canceled" : code, text));
  }
}
