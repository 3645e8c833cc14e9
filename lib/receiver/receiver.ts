/**
 * The receiver: takes requests from its pool's queue and carries them out against the upstream.
 * @module
 */
import { FlowError } from "../errors.ts";
import { DeadlinesByLength } from "../flow/deadlines.ts";
import { LaneDriver } from "../flow/lane_driver.ts";
import type { MemoryBudget } from "../flow/memory_budget.ts";
import type { FlowRegistry } from "../flow/registry.ts";
import type { Logger } from "../logger.ts";
import { decodeCancel } from "../protocol/cancel.ts";
import { readCredit } from "../protocol/credit.ts";
import { decodeFrame, FrameError, isFrame } from "../protocol/frames.ts";
import { isServiceId, responseSubject, type Roots } from "../protocol/subjects.ts";
import type { Inbound, RequestConsumer, Transport } from "../transport/types.ts";
import type { Target } from "./dial.ts";
import { Dispatch } from "./dispatch.ts";
import { type Execution, Executions } from "./executions.ts";
import { Intake } from "./intake.ts";
import { ConnectionGate } from "./responder.ts";
import { Responders } from "./responders.ts";
import type { SessionContext } from "./session_execution.ts";
import { StreamKeeper } from "./stream_keeper.ts";
import { UpstreamClient } from "./upstream_client.ts";

export interface ReceiverOptions {
  readonly transport: Transport;
  readonly registry: FlowRegistry;
  readonly logger: Logger;
  readonly roots: Roots;
  readonly serviceId: string;
  readonly instance: string;
  /** Null when UPSTREAM_URL is not set. */
  readonly upstream: (Target & { readonly authority: string; readonly prefix: string }) | null;
  readonly upstreamHost: "upstream" | "client";
  /** 0: the requester's own wait decides. */
  readonly upstreamTimeoutMs: number;
  readonly connectTimeoutMs: number;
  /** Wait that a requester without a word of its own is taken to have. */
  readonly responseTimeoutMs: number;
  readonly streamTimeoutMs: number;
  readonly peerTimeoutMs: number;
  /** 0 for ever. */
  readonly idleTimeoutMs: number;
  readonly budget: MemoryBudget;
  /** Pings a peer's instance; null for no presence. */
  readonly ping: ((instance: string) => void) | null;
  /** Dials the target of a session, if the target policy lets it. @throws {FlowError} */
  readonly dialSession: SessionContext["dial"];
  readonly maxInflight: number;
  readonly maxHeaderBytes: number;
  readonly frameBytes: number;
}

/** Receiver's half of the bridge. */
export class Receiver {
  readonly #options: ReceiverOptions;
  readonly #dispatch: Dispatch;
  readonly #executions: Executions;
  readonly #client: UpstreamClient | null;
  readonly #headDeadlines = new DeadlinesByLength();
  readonly #idleDeadlines = new DeadlinesByLength();
  readonly #gate: ConnectionGate;
  readonly #responders: Responders;
  readonly #keeper: StreamKeeper;
  readonly #lanes: LaneDriver;
  readonly #intake: Intake;
  #consumer: RequestConsumer | null = null;
  #draining = false;
  /** Messages that were dropped, by reason. */
  readonly dropped = new Map<string, number>();

  constructor(options: ReceiverOptions) {
    this.#options = options;
    this.#executions = new Executions(options.responseTimeoutMs);
    this.#gate = new ConnectionGate(options.transport);
    const { transport, roots } = options;
    this.#lanes = new LaneDriver({
      ...options,
      answerSubject: (id, requester) =>
        isServiceId(requester) ? responseSubject(roots, requester, id) : null,
    });
    this.#responders = new Responders({ ...options, lanes: this.#lanes });
    this.#keeper = new StreamKeeper(transport, this.#executions, options.streamTimeoutMs);
    this.#client = options.upstream === null ? null : new UpstreamClient({
      target: options.upstream,
      connectTimeoutMs: options.connectTimeoutMs,
      maxHeaderBytes: options.maxHeaderBytes,
    });
    const shared = {
      ...options,
      gate: this.#gate,
      remove: (execution: Execution) => this.#executions.remove(execution),
    };
    this.#dispatch = new Dispatch({
      slots: options.maxInflight,
      onSaturated: () => {
        options.logger.warn("saturated: leaving the pool for a while", {
          setting: "RECEIVER_MAX_INFLIGHT",
          limit: options.maxInflight,
        });
        void this.#consumer?.pause();
      },
      onRelieved: () => {
        if (!this.#draining) this.#consumer?.resume();
      },
      onFree: () => this.#consumer?.more?.(),
    });
    this.#intake = new Intake({
      ...options,
      executions: this.#executions,
      dispatch: this.#dispatch,
      responders: this.#responders,
      http: this.#client === null
        ? null
        : { ...shared, client: this.#client, headDeadlines: this.#headDeadlines },
      sessions: {
        ...shared,
        lanes: this.#lanes,
        deadlines: this.#idleDeadlines,
        self: () => this.#responders.self(),
        dial: options.dialSession,
      },
      drop: (reason) => this.#drop(reason),
    });
  }

  /** Begins to take requests. The planes are listened to in the order of wire-protocol.md section 1. */
  start(): void {
    const { transport } = this.#options;
    this.#consumer = transport.consumeRequests((delivery) => this.#intake.take(delivery), {
      free: () => this.#dispatch.free,
      onExhausted: (message) => this.#intake.exhausted(message),
    });
    transport.consumePlane("sessions.upstream", (message) => this.#upstream(message));
    transport.consumePlane("cancel", (message) => this.#cancel(message));
    transport.consumePoolCancels((message) => this.#cancel(message));
    transport.consumePlane("control", (message) => this.#control(message));
    transport.onConnection((connected) => {
      if (!connected) { for (const execution of [...this.#executions.all()]) execution.linkLost(); }
    });
    this.#keeper.start();
  }

  /** A peer's instance has answered a ping. */
  peerAnswered(instance: string): void {
    this.#lanes.answered(instance);
  }

  /** Leaves the pool; what has been taken is finished. Resolves when no more comes. */
  async drain(): Promise<void> {
    this.#draining = true;
    await this.#consumer?.pause();
  }

  /** Breaks off whatever is still under way. */
  stop(): void {
    this.#draining = true;
    this.#keeper.stop();
    const failure = new FlowError("stopping", "natsway is stopping");
    for (const execution of [...this.#executions.all()]) execution.stop(failure);
    this.#lanes.stop();
    this.#idleDeadlines.close();
    this.#client?.close();
    this.#headDeadlines.close();
  }

  #drop(reason: string): void {
    this.dropped.set(reason, (this.dropped.get(reason) ?? 0) + 1);
    this.#options.logger.warn("request message dropped", { detail: reason });
  }

  /** Client bytes and whatever else a requester says of a session. */
  #upstream(message: Inbound): void {
    for (const execution of this.#executions.get(message.token)) {
      if (execution.receive(message)) return;
    }
    if (message.headers === null && isFrame(message.data)) this.#frame(message);
  }

  /** Credit, and what a natsway requester says of a response. */
  #control(message: Inbound): void {
    const { token, data } = message;
    if (isFrame(data)) {
      this.#frame(message);
      return;
    }
    const executions = this.#executions.get(token);
    if (executions.length === 0) return;
    const bytes = readCredit(data, token, "response");
    if (bytes !== null) { for (const execution of executions) execution.credit(bytes); }
  }

  #frame({ token, data }: Inbound): void {
    try {
      this.#lanes.host.receive(token, decodeFrame(data));
    } catch (error) {
      if (!(error instanceof FrameError)) throw error;
      this.#drop(error.message);
    }
  }

  #cancel(message: Inbound): void {
    const cancel = decodeCancel(message.data);
    if (cancel === null || cancel.requestId !== message.token) {
      if (!this.#responders.hello(message)) this.#drop("cancel that cannot be read");
      return;
    }
    this.#executions.cancel(cancel.requestId, cancel.epoch, cancel.reason);
  }
}
