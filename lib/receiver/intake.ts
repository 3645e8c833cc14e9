/**
 * What comes over the request plane: read, checked, answered where it cannot be used, and handed to the
 * dispatch (wire-protocol.md sections 4 and 9).
 * @module
 */
import { FAILURES, FlowError } from "../errors.ts";
import { newEpoch } from "../flow/ids.ts";
import type { Flow, FlowKind, FlowRegistry } from "../flow/registry.ts";
import type { Logger } from "../logger.ts";
import {
  decodeEnvelope,
  type Envelope,
  type HttpPayload,
  Operation,
  readHttpPayload,
} from "../protocol/envelope.ts";
import { FEATURE_RAW, type PeerInfo } from "../protocol/peer.ts";
import { readSessionPayload } from "../protocol/session.ts";
import {
  isReplySubject,
  isServiceId,
  requesterOf,
  resolveReply,
  type Roots,
} from "../protocol/subjects.ts";
import type { Delivery, Inbound } from "../transport/types.ts";
import { showTarget } from "./dial.ts";
import type { Dispatch } from "./dispatch.ts";
import { EventResponder } from "./event_responder.ts";
import type { Executions } from "./executions.ts";
import { FrameResponder } from "./frame_responder.ts";
import { HttpExecution, type HttpExecutionContext, type HttpJob } from "./http_execution.ts";
import type { Responders } from "./responders.ts";
import { type SessionContext, SessionExecution } from "./session_execution.ts";
import { traceHeaders } from "./trace_headers.ts";
import { requestHead } from "./upstream_request.ts";

export interface IntakeOptions {
  readonly registry: FlowRegistry;
  readonly logger: Logger;
  readonly roots: Roots;
  /** Null when UPSTREAM_URL is not set. */
  readonly upstream: { readonly authority: string; readonly prefix: string } | null;
  readonly upstreamHost: "upstream" | "client";
  readonly maxHeaderBytes: number;
  /** Wait that a requester without a word of its own is taken to have. */
  readonly responseTimeoutMs: number;
  readonly executions: Executions;
  readonly dispatch: Dispatch;
  readonly responders: Responders;
  /** Null when UPSTREAM_URL is not set. */
  readonly http: HttpExecutionContext | null;
  readonly sessions: SessionContext;
  /** Counts and logs what was dropped. */
  readonly drop: (reason: string) => void;
}

type RequestEnvelope = Extract<Envelope, { kind: "request" }>;

/** Failures of this receiver alone, of which JetStream may try another one. */
const ELSEWHERE: ReadonlySet<string> = new Set(["overloaded", "no_upstream", "stopping"]);
const ELSEWHERE_RETRY_MS = 500;

/** What every execution is made from. */
type Job = Pick<
  HttpJob,
  "epoch" | "delivery" | "flow" | "responder" | "ttlMs" | "arrivedMs"
>;

/** One for a receiver. */
export class Intake {
  readonly #options: IntakeOptions;

  constructor(options: IntakeOptions) {
    this.#options = options;
  }

  /** Takes one message of the request plane. */
  take(delivery: Delivery): void {
    const envelope = decodeEnvelope(delivery.data, delivery.reply, delivery.headers);
    switch (envelope.kind) {
      case "drop":
        this.#options.drop(envelope.text);
        if (envelope.done) delivery.ack();
        else delivery.term(envelope.text);
        return;
      case "cancel":
        this.#options.executions.cancel(
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
        this.#request(delivery, envelope);
    }
  }

  /** Nobody has settled the request in all its deliveries: its client need not wait any longer. */
  exhausted(message: Inbound): void {
    const envelope = decodeEnvelope(message.data, message.reply, message.headers);
    if (envelope.kind !== "request") return;
    const { requestId, replyTo, peer, operation } = envelope;
    const subject = resolveReply(replyTo, this.#options.roots.response, requestId);
    if (subject === null) return;
    const text = "No receiver has finished the request in any of its deliveries";
    this.#responder(subject, requestId, newEpoch(), peer, operation, null).fail("peer_lost", text);
  }

  /** In the form that the requester understands. */
  #responder(
    subject: string,
    requestId: string,
    epoch: Uint8Array,
    peer: PeerInfo | null,
    operation: string,
    trace: Uint8Array | null,
  ): FrameResponder | EventResponder {
    return peer !== null && peer.features.includes(FEATURE_RAW)
      ? this.#options.responders.frame(subject, requestId, epoch, peer)
      : this.#options.responders.event(subject, requestId, operation, trace);
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
      this.#options.drop(`${text}, and no reply subject that may be used`);
      return;
    }
    this.#options.responders.event(subject, null, Operation.Http, null).refuse(400, text);
    this.#options.drop(text);
  }

  #request(delivery: Delivery, envelope: RequestEnvelope): void {
    const { roots, logger } = this.#options;
    const subject = resolveReply(envelope.replyTo, roots.response, envelope.requestId);
    if (subject === null) {
      this.#options.drop("reply subject that may not be used");
      delivery.term("reply subject");
      return;
    }
    if (this.#options.executions.wasCancelled(envelope.requestId)) {
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
      this.#options.responders.event(subject, null, operation, null).refuse(503, text);
      delivery.term(text);
      this.#options.drop("an operation that is not known");
      return;
    }
    const request = readHttpPayload(envelope.payload);
    if (typeof request === "string") {
      this.#options.responders.event(subject, null, operation, null).refuse(400, request);
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
      this.#options.responders.event(subject, null, Operation.Tcp, null).refuse(400, text);
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
        new SessionExecution(this.#options.sessions, {
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
      const { http } = this.#options;
      if (http === null) throw new FlowError("no_upstream", "Receiver is missing UPSTREAM_URL");
      return new HttpExecution(http, { ...job, request, head });
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
    const { operation } = envelope;
    const responder = this.#responder(subject, requestId, epoch, peer, operation, trace);
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
      this.#options.executions.add(execution);
      if (!this.#options.dispatch.submit({ run: (release) => void execution.run(release) })) {
        this.#options.executions.remove(execution);
        throw new FlowError("overloaded", "The receiver is saturated (RECEIVER_MAX_INFLIGHT)");
      }
    } catch (error) {
      if (!(error instanceof FlowError)) throw error;
      if (flow !== null) {
        flow.status = FAILURES[error.code].http;
        registry.close(flow, error.code, error.message);
      }
      // Nothing was touched: another receiver may do better.
      if (ELSEWHERE.has(error.code) && delivery.lastDelivery === false) {
        delivery.nak(ELSEWHERE_RETRY_MS);
        return;
      }
      if (error.code === "no_upstream" && responder instanceof EventResponder) {
        responder.refuse(503, error.message);
      } else responder.fail(error.code, error.message);
      delivery.term(error.code);
    }
  }
}
