/**
 * The receiver: takes requests from its pool's queue and carries them out against the upstream.
 * @module
 */
import { FlowError } from "../errors.ts";
import { DeadlinesByLength } from "../flow/deadlines.ts";
import { newEpoch } from "../flow/ids.ts";
import { LaneDriver } from "../flow/lane_driver.ts";
import type { MemoryBudget } from "../flow/memory_budget.ts";
import type { Flow, FlowKind, FlowRegistry } from "../flow/registry.ts";
import type { Logger } from "../logger.ts";
import { decodeCancel } from "../protocol/cancel.ts";
import {
  decodeEnvelope,
  type Envelope,
  type HttpPayload,
  Operation,
  readHttpPayload,
} from "../protocol/envelope.ts";
import { readCredit } from "../protocol/credit.ts";
import { decodeFrame, FrameError, isFrame } from "../protocol/frames.ts";
import { FEATURE_RAW } from "../protocol/peer.ts";
import { readSessionPayload } from "../protocol/session.ts";
import {
  isReplySubject,
  isServiceId,
  requesterOf,
  resolveReply,
  responseSubject,
  type Roots,
} from "../protocol/subjects.ts";
import type { Delivery, Inbound, RequestConsumer, Transport } from "../transport/types.ts";
import { showTarget, type Target } from "./dial.ts";
import { Dispatch } from "./dispatch.ts";
import { EventResponder } from "./event_responder.ts";
import { type Execution, Executions } from "./executions.ts";
import { FrameResponder } from "./frame_responder.ts";
import { HttpExecution, type HttpExecutionContext, type HttpJob } from "./http_execution.ts";
import { ConnectionGate } from "./responder.ts";
import { Responders } from "./responders.ts";
import { type SessionContext, SessionExecution } from "./session_execution.ts";
import { StreamKeeper } from "./stream_keeper.ts";
import { traceHeaders } from "./trace_headers.ts";
import { UpstreamClient } from "./upstream_client.ts";
import { requestHead } from "./upstream_request.ts";

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

type RequestEnvelope = Extract<Envelope, { kind: "request" }>;

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
  readonly #http: HttpExecutionContext | null;
  readonly #sessions: SessionContext;
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
    this.#http = this.#client === null ? null : {
      ...shared,
      client: this.#client,
      headDeadlines: this.#headDeadlines,
    };
    this.#sessions = {
      ...shared,
      lanes: this.#lanes,
      deadlines: this.#idleDeadlines,
      self: () => this.#responders.self(),
      dial: options.dialSession,
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
    });
  }

  /** Begins to take requests. The planes are listened to in the order of wire-protocol.md section 1. */
  start(): void {
    const { transport } = this.#options;
    this.#consumer = transport.consumeRequests((delivery) => this.#request(delivery));
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

  #request(delivery: Delivery): void {
    const envelope = decodeEnvelope(delivery.data, delivery.reply, delivery.headers);
    switch (envelope.kind) {
      case "drop":
        this.#drop(envelope.text);
        delivery.term(envelope.text);
        return;
      case "cancel":
        this.#executions.cancel(
          envelope.cancel.requestId,
          envelope.cancel.epoch,
          envelope.cancel.reason,
        );
        delivery.ack();
        return;
      case "invalid":
        this.#answerInvalid(envelope);
        delivery.term(envelope.text);
        return;
      case "request":
        this.#take(delivery, envelope);
    }
  }

  #answerInvalid(envelope: Extract<Envelope, { kind: "invalid" }>): void {
    const { roots } = this.#options;
    const { replyTo, replyAsIs, requestId, text } = envelope;
    let subject: string | null = null;
    if (replyTo !== null) {
      subject = !replyAsIs
        ? resolveReply(replyTo, roots.response, requestId)
        : isReplySubject(replyTo, roots.response, null)
        ? replyTo
        : null;
    }
    if (subject === null) {
      this.#drop(`${text}, and no reply subject that may be used`);
      return;
    }
    this.#responders.event(subject, null, Operation.Http, null).refuse(400, text);
    this.#drop(text);
  }

  #take(delivery: Delivery, envelope: RequestEnvelope): void {
    const { roots, logger } = this.#options;
    const subject = resolveReply(envelope.replyTo, roots.response, envelope.requestId);
    if (subject === null) {
      this.#drop("reply subject that may not be used");
      delivery.term("reply subject");
      return;
    }
    if (this.#executions.wasCancelled(envelope.requestId)) {
      delivery.ack();
      return;
    }
    const { operation } = envelope;
    if (operation === Operation.Tcp) {
      this.#takeSession(delivery, envelope, subject);
      return;
    }
    if (operation !== Operation.Http && operation !== Operation.NatswayHttp) {
      const text = `No handler registered for operation=${operation.slice(0, 64)}`;
      this.#responders.event(subject, null, operation, null).refuse(503, text);
      delivery.term(text);
      return;
    }
    const request = readHttpPayload(envelope.payload);
    if (typeof request === "string") {
      this.#responders.event(subject, null, operation, null).refuse(400, request);
      delivery.term(request);
      logger.warn("request refused", { request_id: envelope.requestId, detail: request });
      return;
    }
    this.#takeHttp(delivery, envelope, subject, request);
  }

  #takeSession(delivery: Delivery, envelope: RequestEnvelope, subject: string): void {
    const target = readSessionPayload(envelope.payload);
    if (typeof target === "string" || !isServiceId(target.requesterServiceId)) {
      const text = typeof target === "string"
        ? target
        : "Missing requester_service_id for tcp_stream";
      this.#responders.event(subject, null, Operation.Tcp, null).refuse(400, text);
      delivery.term(text);
      this.#options.logger.warn("request refused", {
        request_id: envelope.requestId,
        detail: text,
      });
      return;
    }
    const shown = showTarget({ hostname: target.host, port: target.port });
    this.#open(
      delivery,
      envelope,
      subject,
      ["tcp", "CONNECT", shown],
      (job) =>
        new SessionExecution(this.#sessions, {
          ...job,
          target,
          subject,
          peer: job.responder instanceof FrameResponder ? envelope.peer : null,
        }),
    );
  }

  #takeHttp(
    delivery: Delivery,
    envelope: RequestEnvelope,
    subject: string,
    request: HttpPayload,
  ): void {
    this.#open(delivery, envelope, subject, ["http", request.method, request.path], (job) => {
      job.flow.sentBytes = request.body?.length ?? 0;
      const head = requestHead(request, this.#options);
      return new HttpExecution(this.#http!, { ...job, request, head });
    });
  }

  /** Enters the flow, and hands its execution to the dispatch; what cannot run is answered. */
  #open(
    delivery: Delivery,
    envelope: RequestEnvelope,
    subject: string,
    [kind, method, target]: readonly [FlowKind, string, string],
    make: (job: Job) => HttpExecution | SessionExecution,
  ): void {
    const { registry, responseTimeoutMs } = this.#options;
    const { requestId, peer } = envelope;
    const epoch = newEpoch();
    const trace = traceHeaders(delivery.headers);
    const responder = peer !== null && peer.features.includes(FEATURE_RAW)
      ? this.#responders.frame(subject, requestId, epoch, peer)
      : this.#responders.event(subject, requestId, envelope.operation, trace);
    let flow: Flow | null = null;
    try {
      flow = registry.open(requestId, kind, method, target);
      flow.peer = requesterOf(subject);
      const execution = make({
        epoch,
        delivery,
        flow,
        responder,
        ttlMs: peer === null || peer.ttlMs === 0 ? responseTimeoutMs : peer.ttlMs,
        arrivedMs: performance.now(),
      });
      this.#executions.add(execution);
      if (!this.#dispatch.submit({ run: (release) => void execution.run(release) })) {
        this.#executions.remove(execution);
        throw new FlowError("overloaded", "The receiver is saturated (RECEIVER_MAX_INFLIGHT)");
      }
    } catch (error) {
      if (!(error instanceof FlowError)) throw error;
      if (error.code === "no_upstream" && responder instanceof EventResponder) {
        responder.refuse(503, error.message);
      } else responder.fail(error.code, error.message);
      delivery.term(error.code);
      if (flow !== null) {
        flow.status = responder.status;
        registry.close(flow, error.code, error.message);
      }
    }
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

/** What every execution is made from. */
type Job = Pick<
  HttpJob,
  "epoch" | "delivery" | "flow" | "responder" | "ttlMs" | "arrivedMs"
>;
