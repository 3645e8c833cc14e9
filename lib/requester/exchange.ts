/**
 * One HTTP request under way: binds to the receiver that answers first, writes its response to the
 * client, grants credit as the client takes it, and ends once.
 * @module
 */
import { type FailureCode, FAILURES, isFailureCode } from "../errors.ts";
import type { Deadline } from "../flow/deadlines.ts";
import { hex } from "../flow/ids.ts";
import type { Flow, FlowEnd } from "../flow/registry.ts";
import type { Fields } from "../http1/fields.ts";
import { parseFieldBlock } from "../http1/parse.ts";
import { answerError, answerFailure } from "../ingress/answers.ts";
import type { ResponseWriter } from "../ingress/response_writer.ts";
import { decodeEvent, type ResponseEvent } from "../protocol/events.ts";
import { decodeFrame, type Frame, FrameError, FrameType, isFrame } from "../protocol/frames.ts";
import { natsStatus, NO_RESPONDERS } from "../protocol/nats_headers.ts";
import { cancelSubject, isServiceId, POOL_TOKEN, requestSubject } from "../protocol/subjects.ts";
import type { Inbound } from "../transport/types.ts";
import type { RequesterContext } from "./context.ts";
import { EventAnswer } from "./event_answer.ts";
import { Owner } from "./owner.ts";

/** What an exchange is about. */
export interface ExchangeOptions {
  readonly flow: Flow;
  readonly response: ResponseWriter;
  readonly replyTo: string;
  /**
   * Sends the request again under a new id, since the receiver that got it cannot carry it; false when
   * that is not to be done, or has been done often enough.
   */
  readonly sendAgain: () => boolean;
}

/** An exchange from its publish to its end. */
export class HttpExchange {
  readonly #context: RequesterContext;
  readonly #options: ExchangeOptions;
  readonly #flow: Flow;
  readonly #response: ResponseWriter;
  #deadline: Deadline | null;
  #owner: Owner | null = null;
  /** Next number of the response lane; the head is number 0. */
  #next = 0;
  /** Body bytes that came with the first frame, before any credit. */
  #ungranted = 0;
  #events: EventAnswer | null = null;
  #noResponders = 0;
  /** A cancel was published to the whole pool. */
  #poolTold = false;
  #ended = false;

  constructor(context: RequesterContext, options: ExchangeOptions) {
    this.#context = context;
    this.#options = options;
    this.#flow = options.flow;
    this.#response = options.response;
    this.#response.onGone = () => this.#clientGone();
    this.#deadline = context.responseDeadlines.start(() => {
      const seconds = context.responseTimeoutMs / 1000;
      this.#fail("response_timeout", `No response from bridge within ${seconds}s`);
    });
  }

  /** Takes one message of the flow's reply subject. Never throws. */
  receive(message: Inbound): void {
    if (this.#ended) return;
    const { data, headers } = message;
    if (headers !== null && data.length === 0 && natsStatus(headers) === NO_RESPONDERS) {
      this.#nobodyListens();
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
      this.#context.logger.warn("bad frame", { request_id: this.#flow.id, detail: error.message });
      return;
    }
    this.#frame(frame);
  }

  /** The connection to NATS broke: what was under way may have been lost. */
  linkLost(): void {
    // Before the first event nothing can be spliced; the answer may still come.
    if (this.#owner !== null) this.#fail("nats_down", "The connection to NATS was lost");
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
    if (this.#owner !== null && !this.#owner.owns(frame.epoch)) {
      this.#cancelForeign(frame);
      return;
    }
    switch (frame.type) {
      case FrameType.Data:
        if (frame.head !== null) this.#head(frame, frame.head);
        else this.#data(frame.offset, frame.body, frame.fin);
        return;
      case FrameType.Close: {
        if (this.#owner === null) return;
        const code = isFailureCode(frame.reason) ? frame.reason : "internal";
        this.#fail(code, `The receiver broke the response off: ${code}`);
        return;
      }
      case FrameType.Probe:
        this.#heard();
        this.#probed(frame.sent, frame.serial);
    }
  }

  #head(
    frame: Extract<Frame, { type: typeof FrameType.Data }>,
    head: NonNullable<Extract<Frame, { type: typeof FrameType.Data }>["head"]>,
  ): void {
    if (this.#owner !== null) return; // a repeat
    const info = this.#context.infoCache.read(head.info);
    let fields: Fields;
    try {
      if (info === null) throw new FrameError("head frame without a peer");
      const { maxHeaderBytes } = this.#context;
      if (head.fields.length > maxHeaderBytes) {
        this.#publishPoolCancel("upstream_error");
        const message = `The response head is over MAX_HEADER_BYTES (${maxHeaderBytes})`;
        this.#fail("head_too_large", message);
        return;
      }
      fields = parseFieldBlock(head.fields, 0, head.fields.length);
    } catch (error) {
      this.#refuseHead("The receiver sent a head that cannot be used", error);
      return;
    }
    if (head.status < 200) {
      // An interim head is not the first event; what would follow a 101 cannot be carried yet.
      if (head.status === 101) this.#refuseHead("The receiver switched protocols unasked");
      return;
    }
    this.#context.learnLimit(info.peer.maxMsg);
    // A whole response needs no deadline, and its epoch no longer than this call.
    this.#bind(info.receiverServiceId, frame.fin ? frame.epoch : frame.epoch.slice(), frame.fin);
    this.#next = 1;
    this.#response.start({
      status: head.status,
      reason: head.reason,
      fields,
      lines: this.#context.viaLine,
      declaredLength: head.declaredLength,
      completeLength: frame.fin ? frame.body.length : -1,
    });
    this.#flow.status = head.status;
    if (frame.fin) {
      this.#take(frame.body, true, isFailureCode(info.code) ? info.code : "ok");
      return;
    }
    this.#ungranted = frame.body.length;
    this.#data(1, frame.body, false);
    if (!this.#ended) this.#startCredit();
  }

  #refuseHead(message: string, detail?: unknown): void {
    this.#fail("target_broken", message, detail);
  }

  #data(offset: number, body: Uint8Array, fin: boolean): void {
    if (this.#owner === null || this.#ended) return;
    if (offset > this.#next) {
      this.#owner?.cancel("gap");
      this.#fail("gap", "Part of the response was lost on its way");
      return;
    }
    // A repeat, in whole or in part: only what continues is new.
    const known = this.#next - offset;
    if (known > body.length || (known > 0 && known === body.length && !fin)) return;
    const fresh = known === 0 ? body : body.subarray(known);
    this.#heard();
    this.#take(fresh, fin, "ok");
  }

  /** Passes body octets that continue at `next` on. */
  #take(fresh: Uint8Array, fin: boolean, end: FlowEnd): void {
    this.#next += fresh.length;
    this.#flow.receivedBytes += fresh.length;
    this.#response.body(fresh);
    if (this.#overCredit()) return;
    if (this.#response.ended) {
      this.#owner?.cancel("upstream_error");
      this.#finish("target_broken", "The body is longer than its Content-Length");
      return;
    }
    if (!fin) return;
    this.#response.end();
    this.#finish(end);
  }

  #event(event: ResponseEvent): void {
    if (this.#owner?.isNatsway) return;
    this.#events ??= new EventAnswer({
      flow: this.#flow,
      response: this.#response,
      viaLine: this.#context.viaLine,
      bind: (serviceId) => this.#bind(serviceId, null),
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

  #bind(serviceId: string, epoch: Uint8Array | null, whole = false): void {
    this.#owner = new Owner(this.#context, this.#flow.id, serviceId, epoch);
    this.#flow.peer = this.#owner.serviceId;
    this.#flow.state = "open";
    if (!whole) this.#heard();
  }

  /** Something of the flow came from a natsway peer: its silence is counted anew. */
  #heard(): void {
    if (!this.#owner?.isNatsway) return;
    this.#deadline?.cancel();
    this.#deadline = this.#context.peerDeadlines.start(() => {
      this.#owner?.cancel("peer_lost");
      this.#fail("peer_lost", "The receiver has not been heard of within PEER_TIMEOUT");
    });
  }

  /** The same for a Ruby peer, which must send each next event in STREAM_RESPONSE_TIMEOUT. */
  #heardEvent(): void {
    if (this.#owner === null || this.#ended) return;
    this.#deadline?.cancel();
    this.#deadline = this.#context.streamDeadlines?.start(() => {
      const seconds = this.#context.streamTimeoutMs / 1000;
      this.#owner?.cancel("upstream_error");
      this.#fail("response_timeout", `No response from bridge within ${seconds}s`);
    }) ?? null;
  }

  /** Lets the receiver go on, and grants more as the client's socket takes what came. */
  #startCredit(): void {
    this.#owner?.startCredit();
    this.#response.onTaken = () => {
      const { receivedBytes } = this.#flow;
      this.#owner?.grant(receivedBytes - this.#ungranted - this.#response.pendingBytes);
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

  /** Says what has arrived; a probe that shows a loss ends the flow, since nothing is sent again yet. */
  #probed(sent: number, serial: number): void {
    if (sent > this.#next && this.#owner !== null) {
      this.#owner.cancel("gap");
      this.#fail("gap", "Part of the response was lost on its way");
    } else this.#owner?.answerProbe(this.#next, serial);
  }

  /**
   * The server says that nobody listens. Receivers that are merely full left the queue group, but all
   * hear a cancel of the pool: a second answer of this kind means that there is none at all.
   */
  #nobodyListens(): void {
    this.#noResponders++;
    if (this.#noResponders > 1 || this.#owner !== null) return;
    if (!this.#publishPoolCancel("no_receiver", this.#options.replyTo)) {
      this.#fail("nats_down", "The connection to NATS was lost");
      return;
    }
    this.#context.transport.flush().then(() => {
      if (this.#owner !== null) return; // one was there after all
      if (this.#noResponders > 1) {
        this.#fail("no_receiver", "No receiver is listening; start one with the same subjects");
      } else this.#fail("overloaded", "All receivers are saturated");
    }, () => this.#fail("nats_down", "The connection to NATS was lost"));
  }

  #clientGone(): void {
    if (this.#owner === null) this.#publishPoolCancel("downstream_disconnect");
    else this.#owner?.cancel("downstream_disconnect");
    this.#finish("canceled");
  }

  #publishPoolCancel(reason: string, reply?: string): boolean {
    this.#poolTold = true;
    const { roots, serviceId, publishCancel } = this.#context;
    const cancel = { requestId: this.#flow.id, reason, epoch: null };
    if (this.#options.sendAgain !== undefined && reply === undefined) {
      // Not every receiver listens for the pool's cancels: one that does not hears the early form.
      publishCancel(requestSubject(roots, serviceId, this.#flow.id), cancel);
    }
    return publishCancel(cancelSubject(roots, POOL_TOKEN, this.#flow.id), cancel, reply);
  }

  /** Frames of another execution are dropped, and it is ended once its owner is known. */
  #cancelForeign(frame: Frame): void {
    let serviceId = "";
    if (frame.type === FrameType.Probe) serviceId = frame.serviceId;
    else if (frame.type === FrameType.Data && frame.head !== null && !frame.fin) {
      serviceId = this.#context.infoCache.read(frame.head.info)?.receiverServiceId ?? "";
    }
    if (!isServiceId(serviceId)) return;
    this.#context.publishCancel(
      cancelSubject(this.#context.roots, serviceId, this.#flow.id),
      { requestId: this.#flow.id, reason: "foreign_epoch", epoch: hex(frame.epoch) },
    );
  }

  /** Answers with the failure while nothing was sent, else breaks the response off. */
  #fail(code: FailureCode, message: string, detail?: unknown): void {
    if (this.#ended) return;
    // Whoever may still get the request, or runs it already, need not.
    if (this.#owner === null && !this.#poolTold) this.#publishPoolCancel(code);
    if (this.#response.started) this.#response.abort();
    else {
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
    this.#context.finished(this.#flow, end, detail);
  }
}
