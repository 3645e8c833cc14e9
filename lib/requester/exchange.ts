/**
 * One HTTP request under way: binds to the receiver that answers first, writes its response to the
 * client, and ends once.
 * @module
 */
import { type FailureCode, FAILURES, isFailureCode } from "../errors.ts";
import type { Deadline } from "../flow/deadlines.ts";
import { endDetail, flowEndOf } from "../flow/flow_end.ts";
import type { LaneFlow } from "../flow/lane_flow.ts";
import type { LaneEnd } from "../flow/lane_types.ts";
import type { Flow, FlowEnd } from "../flow/registry.ts";
import type { Fields } from "../http1/fields.ts";
import { parseFieldBlock } from "../http1/parse.ts";
import { answerError, answerFailure } from "../ingress/answers.ts";
import type { ResponseWriter } from "../ingress/response_writer.ts";
import { decodeEvent, type ResponseEvent } from "../protocol/events.ts";
import { decodeFrame, type Frame, FrameError, FrameType, isFrame } from "../protocol/frames.ts";
import { natsStatus, NO_RESPONDERS } from "../protocol/nats_headers.ts";
import type { ResponseInfo } from "../protocol/response_info.ts";
import { isServiceId } from "../protocol/subjects.ts";
import type { Inbound } from "../transport/types.ts";
import type { RequesterContext } from "./context.ts";
import { EventAnswer } from "./event_answer.ts";
import { LaneAnswer } from "./lane_answer.ts";
import { brokenOffText, contentTypeOf, inBandError } from "./late_error.ts";
import { Owner } from "./owner.ts";
import { PoolQuestion } from "./pool_question.ts";

export interface ExchangeOptions {
  readonly flow: Flow;
  readonly response: ResponseWriter;
  readonly replyTo: string;
  /** The `window` of the envelope, counted at the budget until the response has a lane. */
  readonly window: number;
  /**
   * Sends the request again under a new id, since the receiver that got it cannot carry it; false when
   * that is not to be done, or has been done often enough.
   */
  readonly sendAgain: () => boolean;
}

type HeadFrame = Extract<Frame, { type: typeof FrameType.Data }>;

/** An exchange from its publish to its end. */
export class HttpExchange {
  readonly #context: RequesterContext;
  readonly #options: ExchangeOptions;
  readonly #flow: Flow;
  readonly #response: ResponseWriter;
  readonly #pool: PoolQuestion;
  #deadline: Deadline | null;
  /** A receiver that answers with events. */
  #owner: Owner | null = null;
  #events: EventAnswer | null = null;
  /** Of a natsway receiver whose response is more than one message. */
  #lane: LaneFlow | null = null;
  /** Media type of the response, for late errors. */
  #contentType = "";
  #ended = false;

  constructor(context: RequesterContext, options: ExchangeOptions) {
    this.#context = context;
    this.#options = options;
    this.#flow = options.flow;
    this.#response = options.response;
    this.#pool = new PoolQuestion(context, {
      requestId: options.flow.id,
      replyTo: options.replyTo,
      isOwned: () => this.#isOwned || this.#ended,
      fail: (code, message) => this.#fail(code, message),
    });
    context.windows.hold(options.window);
    this.#response.onGone = () => this.#clientGone();
    this.#deadline = context.responseDeadlines.start(() => {
      const seconds = context.responseTimeoutMs / 1000;
      this.#fail("response_timeout", `No response from bridge within ${seconds}s`);
    });
  }

  get #isOwned(): boolean {
    return this.#owner !== null || this.#lane !== null;
  }

  /** Takes one message of the flow's reply subject. Never throws. */
  receive(message: Inbound): void {
    if (this.#ended) return;
    const { data, headers } = message;
    if (headers !== null && data.length === 0 && natsStatus(headers) === NO_RESPONDERS) {
      this.#pool.nobodyListens();
      return;
    }
    if (!isFrame(data)) {
      const event = decodeEvent(data);
      if (event !== null) this.#event(event);
      return;
    }
    let frame: Frame;
    try {
      frame = decodeFrame(data);
    } catch (error) {
      if (!(error instanceof FrameError)) throw error;
      // Not of a peer that can be trusted with the rest, unless the lane goes on without it.
      if (this.#lane === null) {
        this.#fail("target_broken", "The receiver sent a broken frame", error);
      } else this.#context.logger.debug("bad frame of a response", { detail: error.message });
      return;
    }
    this.#frame(frame);
  }

  /** The connection to NATS broke: what a Ruby peer had under way may have been lost. */
  linkLost(): void {
    // Before the first event nothing can be spliced; a lane brings what is missing again.
    if (this.#owner !== null) this.#fail("nats_down", "The connection to NATS was lost");
  }

  /** JetStream has not taken the request: nobody will ever answer. */
  lost(reason: string): void {
    if (!this.#isOwned) this.#fail("nats_down", `The request was lost: ${reason}`);
  }

  /** The request could not be published: answers with `status`. */
  refuse(code: FailureCode, status: number, message: string): void {
    if (this.#ended) return;
    this.#flow.status = status;
    answerError(this.#response, status, message, code);
    this.#finish(code, message);
  }

  /** Ends with a failure of this side, for example at the end of SHUTDOWN_GRACE. */
  stop(code: FailureCode, message: string): void {
    this.#owner?.cancel("downstream_disconnect");
    this.#fail(code, message);
  }

  #frame(frame: Frame): void {
    const { flow } = this.#options;
    if (frame.type === FrameType.Data && frame.head !== null) {
      this.#head(frame, frame.head);
      return;
    }
    if (this.#lane !== null) this.#context.lanes.host.receive(flow.id, frame);
    // Who waits for its first event answers no probe, and who has an owner no stranger's.
    else if (this.#owner !== null && frame.type === FrameType.Probe) {
      this.#context.cancelForeign(flow.id, frame.serviceId, frame.epoch);
    }
  }

  #head(frame: HeadFrame, head: NonNullable<HeadFrame["head"]>): void {
    const info = this.#context.infoCache.read(head.info);
    // An interim head is not the first event.
    if (head.status < 200 && head.status !== 101) return;
    if (this.#isOwned) {
      if (info !== null) this.#headAgain(frame, info);
      return;
    }
    let fields: Fields;
    try {
      if (info === null) throw new FrameError("head frame without a peer");
      const { maxHeaderBytes } = this.#context;
      if (head.fields.length > maxHeaderBytes) {
        const message = `The response head is over MAX_HEADER_BYTES (${maxHeaderBytes})`;
        this.#fail("head_too_large", message);
        return;
      }
      fields = parseFieldBlock(head.fields, 0, head.fields.length);
    } catch (error) {
      this.#fail("target_broken", "The receiver sent a head that cannot be used", error);
      return;
    }
    if (head.status === 101) {
      this.#fail("target_broken", "The receiver switched protocols unasked");
      return;
    }
    this.#context.learnLimit(info.peer.maxMsg);
    this.#flow.peer = info.receiverServiceId;
    this.#flow.state = "open";
    if (frame.fin) this.#whole(frame, head, fields, info);
    else if (isServiceId(info.receiverServiceId)) this.#openLane(frame, fields, info);
    else this.#fail("target_broken", "The receiver gave no SERVICE_ID that can be used");
  }

  /** The whole response in one message: the common case, with nothing to keep or to acknowledge. */
  #whole(
    frame: HeadFrame,
    head: NonNullable<HeadFrame["head"]>,
    fields: Fields,
    info: ResponseInfo,
  ): void {
    this.#response.start({
      status: head.status,
      reason: head.reason,
      fields,
      lines: this.#context.viaLine,
      declaredLength: head.declaredLength,
      completeLength: frame.body.length,
    });
    this.#flow.status = head.status;
    this.#flow.receivedBytes = frame.body.length;
    this.#response.body(frame.body);
    if (this.#response.ended) {
      this.#finish("target_broken", "The body is longer than its Content-Length");
      return;
    }
    this.#response.end();
    this.#finish(isFailureCode(info.code) ? info.code : "ok");
  }

  #openLane(frame: HeadFrame, fields: Fields, info: ResponseInfo): void {
    const { lanes, windows, viaLine } = this.#context;
    const { flow, response, window, replyTo } = this.#options;
    const { receiverServiceId, peer } = info;
    this.#contentType = contentTypeOf(fields);
    const answer = new LaneAnswer({
      response,
      flow,
      fields,
      viaLine,
      ended: (end) => this.#laneEnded(end),
    });
    windows.release(window);
    const owner = new Owner(this.#context, flow.id, receiverServiceId, frame.epoch.slice());
    const lane = lanes.open({
      id: flow.id,
      role: "requester",
      epoch: null,
      sends: false,
      receives: true,
      responseHead: true,
      closeBy: "cancel",
      limit: 0,
      granted: window,
      answerTimeoutMs: Infinity,
      sizes: lanes.sizes(peer.maxMsg),
      app: answer,
      subjects: {
        subject: owner.controlSubject,
        reply: replyTo,
        cancel: (_epoch, reason) => owner.cancel(reason),
      },
    });
    if (lane === null) {
      windows.hold(window);
      owner.cancel("overloaded");
      this.#fail("overloaded", "No memory for another flow (FLOW_MEMORY_BYTES, MAX_FLOWS)");
      return;
    }
    this.#deadline?.cancel();
    this.#lane = answer.lane = lane;
    const event = { epoch: frame.epoch, instance: peer.instance, limit: 0, whole: false };
    lanes.host.first(flow.id, receiverServiceId, event);
    lanes.host.receive(flow.id, frame);
  }

  /** A head that is not the first: a repeat of the own one, or of another execution. */
  #headAgain(frame: HeadFrame, info: ResponseInfo): void {
    const { flow } = this.#options;
    const { receiverServiceId: serviceId, peer: { instance } } = info;
    if (this.#lane === null) {
      if (!frame.fin) this.#context.cancelForeign(flow.id, serviceId, frame.epoch);
      return;
    }
    const { host } = this.#context.lanes;
    const event = { epoch: frame.epoch, instance, limit: 0, whole: false };
    const verdict = host.first(flow.id, serviceId, event);
    if (verdict === "taken") host.receive(flow.id, frame);
    else if (verdict === "cancel" && !frame.fin) {
      this.#context.cancelForeign(flow.id, serviceId, frame.epoch);
    }
  }

  #laneEnded(end: LaneEnd): void {
    if (this.#ended) return;
    const code = flowEndOf(end);
    if (code === "ok") this.#finish("ok");
    else if (code === "canceled") {
      this.#response.abort();
      this.#finish(code, endDetail(end));
    } else {this.#fail(
        code,
        brokenOffText(code),
        endDetail(end),
      );}
  }

  #event(event: ResponseEvent): void {
    if (this.#lane !== null) return;
    this.#events ??= new EventAnswer({
      flow: this.#flow,
      response: this.#response,
      viaLine: this.#context.viaLine,
      bind: (serviceId) => this.#bind(serviceId),
      onHead: (contentType) => this.#contentType = contentType,
      startCredit: () => this.#startCredit(),
      fail: (code, message, options) => {
        if (options?.cancel === true) this.#owner?.cancel("upstream_error");
        this.#fail(code, message, options?.detail);
      },
      overCredit: () => this.#overCredit(),
      finish: (end, detail) => {
        if (end !== "ok") this.#owner?.cancel("upstream_error");
        this.#finish(end, detail);
      },
      sendAgain: () => this.#sendAgain(),
    });
    this.#events.take(event);
    this.#heardEvent();
  }

  /** Hands the request to another exchange, or says why it cannot be carried. */
  #sendAgain(): boolean {
    const { serviceId } = this.#owner!;
    this.#response.onGone = null;
    this.#finish("peer_lacks", `${serviceId} does not know natsway's operations`);
    if (!this.#options.sendAgain()) {
      const message =
        "Only nats-proxy receivers were found, which cannot carry this request: have " +
        "natsway receivers alone, or at least one and PEERS=mixed";
      this.#flow.status = FAILURES.peer_lacks.http;
      answerFailure(this.#response, "peer_lacks", message);
    }
    return true;
  }

  #bind(serviceId: string): void {
    this.#owner = new Owner(this.#context, this.#flow.id, serviceId, null);
    this.#flow.peer = this.#owner.serviceId;
    this.#flow.state = "open";
  }

  /** A Ruby peer must send each next event in STREAM_RESPONSE_TIMEOUT. */
  #heardEvent(): void {
    if (this.#owner === null || this.#ended) return;
    this.#deadline?.cancel();
    this.#deadline = this.#context.streamDeadlines?.start(() => {
      const seconds = this.#context.streamTimeoutMs / 1000;
      this.#owner?.cancel("upstream_error");
      this.#fail("response_timeout", `No response from bridge within ${seconds}s`);
    }) ?? null;
  }

  /** Lets a Ruby peer go on, and grants more as the client's socket takes what came. */
  #startCredit(): void {
    this.#owner?.startCredit();
    this.#response.onTaken = () => {
      this.#owner?.grant(this.#flow.receivedBytes - this.#response.pendingBytes);
    };
  }

  /** Ends a flow whose receiver sends without credit: its client would cost more memory than allowed. */
  #overCredit(): boolean {
    const { transport, creditSizes } = this.#context;
    if (this.#response.pendingBytes <= creditSizes().cap + transport.maxPayload) return false;
    this.#owner?.cancel("upstream_error");
    this.#fail("target_broken", "The receiver sends more than it was granted");
    return true;
  }

  #clientGone(): void {
    if (this.#lane !== null) {
      this.#lane.reset("downstream_disconnect");
      return;
    }
    if (this.#owner === null) this.#pool.cancel("downstream_disconnect");
    else this.#owner.cancel("downstream_disconnect");
    this.#finish("canceled");
  }

  /** Answers with the failure while nothing was sent, else breaks the response off. */
  #fail(code: FailureCode, message: string, detail?: unknown): void {
    if (this.#ended) return;
    if (!this.#isOwned) this.#pool.cancel(code);
    if (this.#response.started) {
      // Neither type has an end of its own: the message is broken off behind it all the same.
      if (!this.#response.ended && this.#response.openEnded) {
        const { midLine } = this.#response;
        this.#response.body(inBandError(this.#contentType, message, midLine));
      }
      this.#response.abort();
    } else {
      this.#flow.status = FAILURES[code].http;
      answerFailure(this.#response, code, message);
    }
    const text = detail === undefined
      ? message
      : `${message}: ${detail instanceof Error ? detail.message : detail}`;
    this.#finish(code, text);
  }

  #finish(end: FlowEnd, detail?: string): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#deadline?.cancel();
    this.#response.onGone = null;
    this.#response.onTaken = null;
    if (this.#lane === null) this.#context.windows.release(this.#options.window);
    else this.#lane.reset(end);
    this.#context.finished(this.#flow, end, detail);
  }
}
