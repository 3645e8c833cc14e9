/**
 * The receiver: takes requests from its pool's queue and carries them out against the upstream.
 * @module
 */
import { FlowError } from "../errors.ts";
import { DeadlinesByLength } from "../flow/deadlines.ts";
import { newEpoch } from "../flow/ids.ts";
import type { Flow, FlowRegistry } from "../flow/registry.ts";
import type { Logger } from "../logger.ts";
import { decodeCancel } from "../protocol/cancel.ts";
import {
  decodeEnvelope,
  type Envelope,
  type HttpPayload,
  Operation,
  readHttpPayload,
} from "../protocol/envelope.ts";
import { FEATURE_RAW } from "../protocol/peer.ts";
import { isReplySubject, resolveReply, type Roots } from "../protocol/subjects.ts";
import type { Delivery, Inbound, RequestConsumer, Transport } from "../transport/types.ts";
import type { Target } from "./dial.ts";
import { Dispatch } from "./dispatch.ts";
import { EventResponder } from "./event_responder.ts";
import { type Execution, Executions } from "./executions.ts";
import { HttpCall } from "./http_call.ts";
import { Liveness } from "./liveness.ts";
import { ConnectionGate } from "./responder.ts";
import { Responders } from "./responders.ts";
import { traceHeaders } from "./trace_headers.ts";
import { UpstreamClient } from "./upstream_client.ts";
import { upstreamHead } from "./upstream_request.ts";

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
  readonly maxInflight: number;
  readonly maxHeaderBytes: number;
  readonly frameBytes: number;
}

type RequestEnvelope = Extract<Envelope, { kind: "request" }>;

/** What a request needs from its delivery to its end. */
interface Job {
  readonly delivery: Delivery;
  readonly execution: Execution;
  readonly flow: Flow;
  readonly request: HttpPayload;
  readonly head: string;
  readonly ttlMs: number;
  readonly arrivedMs: number;
}

/** Receiver's half of the bridge. */
export class Receiver {
  readonly #options: ReceiverOptions;
  readonly #dispatch: Dispatch;
  readonly #executions: Executions;
  readonly #client: UpstreamClient | null;
  readonly #headDeadlines = new DeadlinesByLength();
  readonly #gate: ConnectionGate;
  readonly #responders: Responders;
  readonly #liveness: Liveness;
  #consumer: RequestConsumer | null = null;
  #draining = false;
  /** Messages that were dropped, by reason. */
  readonly dropped = new Map<string, number>();

  constructor(options: ReceiverOptions) {
    this.#options = options;
    this.#executions = new Executions(options.responseTimeoutMs);
    this.#gate = new ConnectionGate(options.transport);
    this.#responders = new Responders(options);
    this.#liveness = new Liveness({
      ...options,
      executions: this.#executions,
      onBadFrame: (text) => this.#drop(text),
    });
    this.#client = options.upstream === null ? null : new UpstreamClient({
      target: options.upstream,
      connectTimeoutMs: options.connectTimeoutMs,
      maxHeaderBytes: options.maxHeaderBytes,
    });
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
    transport.consumePlane("cancel", (message) => this.#cancel(message));
    transport.consumePoolCancels((message) => this.#cancel(message));
    transport.consumePlane("control", (message) => this.#liveness.control(message));
    this.#liveness.start();
  }

  /** Leaves the pool; what has been taken is finished. Resolves when no more comes. */
  async drain(): Promise<void> {
    this.#draining = true;
    await this.#consumer?.pause();
  }

  /** Breaks off whatever is still under way. */
  stop(): void {
    this.#draining = true;
    this.#liveness.stop();
    for (const execution of [...this.#executions.all()]) {
      const failure = new FlowError("stopping", "natsway is stopping");
      execution.responder.fail(failure.code, failure.message);
      execution.call?.abort(failure);
    }
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
    this.#open(delivery, envelope, subject, request);
  }

  /** Enters the flow, and hands it to the dispatch. */
  #open(
    delivery: Delivery,
    envelope: RequestEnvelope,
    subject: string,
    request: HttpPayload,
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
      flow = registry.open(requestId, "http", request.method, request.path);
      flow.peer = requesterOf(subject);
      flow.sentBytes = request.body?.length ?? 0;
      const head = this.#upstreamHead(request);
      const execution: Execution = {
        id: requestId,
        epoch,
        responder,
        call: null,
        heardMs: performance.now(),
      };
      const job: Job = {
        delivery,
        execution,
        flow,
        request,
        head,
        ttlMs: peer === null || peer.ttlMs === 0 ? responseTimeoutMs : peer.ttlMs,
        arrivedMs: execution.heardMs,
      };
      this.#executions.add(execution);
      if (!this.#dispatch.submit({ run: (release) => void this.#run(job, release) })) {
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

  /** @throws {FlowError} the request cannot be sent to any upstream */
  #upstreamHead(request: HttpPayload): string {
    const { upstream, upstreamHost, maxHeaderBytes } = this.#options;
    if (/^https?:\/\//i.test(request.path)) {
      if (!URL.canParse(request.path)) {
        throw new FlowError("bad_request", "Invalid proxy target URL");
      }
      throw new FlowError("target_denied", "This version does not serve proxy requests");
    }
    if (upstream === null) throw new FlowError("no_upstream", "Receiver is missing UPSTREAM_URL");
    const head = upstreamHead(request, {
      prefix: upstream.prefix,
      authority: upstream.authority,
      host: upstreamHost,
    });
    // The requester has checked the client's; Via and X-Forwarded-* came on top.
    if (head.length > maxHeaderBytes + ADDED_HEAD_BYTES) {
      const text = `The request head is over the receiver's MAX_HEADER_BYTES (${maxHeaderBytes})`;
      throw new FlowError("head_too_large", text);
    }
    return head;
  }

  async #run(job: Job, release: () => void): Promise<void> {
    const { execution, flow, delivery } = job;
    const { responder } = execution;
    const { registry, upstreamTimeoutMs } = this.#options;
    const age = performance.now() - job.arrivedMs;
    if (responder.ended || age > job.ttlMs) {
      // Cancelled, or its client has long had its 504: nothing may run.
      responder.cancel("expired");
      this.#executions.remove(execution);
      release();
      delivery.ack();
      registry.close(flow, "canceled", "not run: cancelled or expired while it waited");
      return;
    }
    const left = job.ttlMs - age;
    const call = new HttpCall({
      client: this.#client!,
      request: job.request,
      head: job.head,
      responder,
      gate: this.#gate,
      answerTimeoutMs: left,
      // The requester's own clock ends the call too: no need to count what the wait here took.
      headTimeoutMs: upstreamTimeoutMs > 0 ? Math.min(upstreamTimeoutMs, job.ttlMs) : job.ttlMs,
      headDeadlines: this.#headDeadlines,
      onHead: () => {
        flow.state = "open";
        release();
      },
    });
    execution.call = call;
    execution.heardMs = performance.now();
    const failure = await call.run();
    this.#executions.remove(execution);
    delivery.ack();
    flow.status = responder.status;
    flow.receivedBytes = responder.bodyBytes;
    registry.close(flow, failure?.code ?? "ok", failure?.message);
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

/** What may stand in a head besides what the client sent and the prefix of UPSTREAM_URL. */
const ADDED_HEAD_BYTES = 8192;

/** SERVICE_ID of the requester: the last but one token of its reply subject. */
function requesterOf(subject: string): string {
  const end = subject.lastIndexOf(".");
  return subject.slice(subject.lastIndexOf(".", end - 1) + 1, end);
}
