/**
 * One HTTP request under way: binds to the receiver that answers first, writes its response to the
 * client, grants credit as the client takes it, and ends once.
 * @module
 */
import { type FailureCode, FAILURES, isFailureCode } from "../errors.ts";
import { GrantCounter } from "../flow/credit_window.ts";
import type { Deadline } from "../flow/deadlines.ts";
import { hex } from "../flow/ids.ts";
import type { Flow, FlowEnd } from "../flow/registry.ts";
import type { Fields } from "../http1/fields.ts";
import { FieldId, fieldIdOf, isHopByHop, isToken } from "../http1/field.ts";
import { parseFieldBlock } from "../http1/parse.ts";
import { answerError, answerFailure } from "../ingress/answers.ts";
import type { ResponseWriter } from "../ingress/response_writer.ts";
import { type Credit, creditHeaders, encodeCredit } from "../protocol/credit.ts";
import { decodeEvent, type EventHeaders, type ResponseEvent } from "../protocol/events.ts";
import {
  decodeFrame,
  encodeClose,
  encodeWindow,
  type Frame,
  FrameError,
  FrameType,
  isFrame,
  sameBytes,
} from "../protocol/frames.ts";
import { natsStatus, NO_RESPONDERS } from "../protocol/nats_headers.ts";
import { cancelSubject, controlSubject, isServiceId, POOL_TOKEN } from "../protocol/subjects.ts";
import type { Inbound } from "../transport/types.ts";
import type { RequesterContext } from "./context.ts";

type ResponseStartEvent = Extract<ResponseEvent, { type: "response_start" }>;

/** The receiver that a flow is bound to. */
interface Owner {
  /** `""` when it gave none that can stand in a subject: then it is told by the pool's cancels only. */
  readonly serviceId: string;
  /** Null for a Ruby peer. */
  readonly epoch: Uint8Array | null;
}

/** An exchange from its publish to its end. */
export class HttpExchange {
  readonly #context: RequesterContext;
  readonly #flow: Flow;
  readonly #response: ResponseWriter;
  readonly #replyTo: string;
  #deadline: Deadline | null;
  #owner: Owner | null = null;
  /** Next number of the response lane; the head is number 0. */
  #next = 0;
  #grants: GrantCounter | null = null;
  /** Body bytes that came with the first frame, before any credit. */
  #ungranted = 0;
  /** Head of a buffered answer of a Ruby peer that has not been written yet. */
  #heldStart: ResponseStartEvent | null = null;
  #streaming = false;
  #noResponders = 0;
  #ended = false;

  constructor(
    context: RequesterContext,
    flow: Flow,
    response: ResponseWriter,
    replyTo: string,
  ) {
    this.#context = context;
    this.#flow = flow;
    this.#response = response;
    this.#replyTo = replyTo;
    response.onGone = () => this.#clientGone();
    this.#deadline = context.responseDeadlines.start(() => {
      this.#publishPoolCancel("response_timeout");
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
    this.#cancelOwner("downstream_disconnect");
    this.#fail(code, message);
  }

  #frame(frame: Frame): void {
    if (this.#owner !== null) {
      const { epoch } = this.#owner;
      if (epoch === null || !sameBytes(epoch, frame.epoch)) {
        this.#cancelForeign(frame);
        return;
      }
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
        if (this.#owner !== null) this.#answerProbe(frame.sent, frame.serial);
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
    this.#bind(info.receiverServiceId, frame.epoch.slice());
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
      this.#data(1, frame.body, true, isFailureCode(info.code) ? info.code : "ok");
      return;
    }
    this.#ungranted = frame.body.length;
    this.#grants = new GrantCounter(this.#context.creditSizes());
    this.#data(1, frame.body, false);
    if (this.#ended) return;
    this.#grant(this.#grants.first());
    this.#response.onTaken = () => this.#taken();
  }

  #refuseHead(message: string, detail?: unknown): void {
    this.#publishPoolCancel("upstream_error");
    this.#fail("target_broken", message, detail);
  }

  #data(offset: number, body: Uint8Array, fin: boolean, end: FlowEnd = "ok"): void {
    if (this.#owner === null || this.#ended) return;
    if (offset > this.#next) {
      this.#cancelOwner("gap");
      this.#fail("gap", "Part of the response was lost on its way");
      return;
    }
    // A repeat, in whole or in part: only what continues is new.
    const known = this.#next - offset;
    if (known > body.length || (known > 0 && known === body.length && !fin)) return;
    const fresh = known === 0 ? body : body.subarray(known);
    this.#heard();
    this.#next += fresh.length;
    this.#flow.receivedBytes += fresh.length;
    this.#response.body(fresh);
    if (this.#response.ended) {
      this.#cancelOwner("upstream_error");
      this.#finish("target_broken", "The body is longer than its Content-Length");
      return;
    }
    if (!fin) return;
    this.#response.end();
    this.#finish(end);
  }

  #event(event: ResponseEvent): void {
    if (this.#owner !== null && this.#owner.epoch !== null) return; // bound to a natsway peer
    if (this.#owner === null && event.type !== "response_start") {
      const name = event.type === "other" ? event.name : event.type;
      this.#fail("target_broken", `Expected response_start, got ${name}`);
      return;
    }
    this.#heardEvent();
    switch (event.type) {
      case "response_start":
        this.#eventStart(event);
        return;
      case "response_chunk":
        this.#writeHeldStart(-1);
        this.#flow.receivedBytes += event.body.length;
        this.#response.body(event.body);
        if (this.#response.ended) {
          this.#cancelOwner("upstream_error");
          this.#finish("target_broken", "The body is longer than its Content-Length");
        }
        return;
      case "response_end":
        this.#writeHeldStart(0);
        this.#response.end();
        this.#finish("ok");
        return;
      case "response_error": {
        const code = isFailureCode(event.code) ? event.code : "target_broken";
        this.#fail(code, "Unexpected event response_error", event.error);
        return;
      }
      case "other":
        this.#cancelOwner("upstream_error");
        this.#fail("target_broken", `Unexpected event ${event.name}`);
    }
  }

  #eventStart(start: ResponseStartEvent): void {
    if (this.#owner !== null) {
      this.#cancelOwner("upstream_error");
      this.#fail("target_broken", "Unexpected event response_start");
      return;
    }
    this.#bind(start.receiverServiceId, null);
    this.#streaming = start.streaming;
    this.#heldStart = start;
    this.#flow.status = start.status;
    this.#heardEvent();
    if (!start.streaming) return;
    this.#writeHeldStart(-1);
    this.#grants = new GrantCounter(this.#context.creditSizes());
    this.#grant(this.#grants.first());
    this.#response.onTaken = () => this.#taken();
  }

  #writeHeldStart(completeLength: number): void {
    const start = this.#heldStart;
    if (start === null) return;
    this.#heldStart = null;
    const { block, contentLength } = eventFieldBlock(start.headers);
    this.#response.start({
      status: start.status,
      fields: parseFieldBlock(block, 0, block.length),
      lines: this.#context.viaLine,
      declaredLength: this.#streaming ? -1 : contentLength,
      completeLength,
    });
  }

  #bind(serviceId: string, epoch: Uint8Array | null): void {
    this.#owner = { serviceId: isServiceId(serviceId) ? serviceId : "", epoch };
    this.#flow.peer = this.#owner.serviceId;
    this.#flow.state = "open";
    this.#deadline?.cancel();
    this.#deadline = null;
    if (epoch !== null) this.#heard();
  }

  /** Something of the flow came from a natsway peer: its silence is counted anew. */
  #heard(): void {
    if (this.#owner === null || this.#owner.epoch === null) return;
    this.#deadline?.cancel();
    this.#deadline = this.#context.peerDeadlines.start(() => {
      this.#cancelOwner("peer_lost");
      this.#fail("peer_lost", "The receiver has not been heard of within PEER_TIMEOUT");
    });
  }

  /** The same for a Ruby peer, which must send each next event in STREAM_RESPONSE_TIMEOUT. */
  #heardEvent(): void {
    if (this.#owner === null || this.#context.streamDeadlines === null) return;
    this.#deadline?.cancel();
    this.#deadline = this.#context.streamDeadlines.start(() => {
      const seconds = this.#context.streamTimeoutMs / 1000;
      this.#cancelOwner("upstream_error");
      this.#fail("response_timeout", `No response from bridge within ${seconds}s`);
    });
  }

  #taken(): void {
    if (this.#grants === null || this.#ended) return;
    const consumed = this.#flow.receivedBytes - this.#ungranted - this.#response.pendingBytes;
    const bytes = this.#grants.next(consumed);
    if (bytes > 0) this.#grant(bytes);
  }

  #grant(bytes: number): void {
    const { serviceId } = this.#owner!;
    if (serviceId === "") return;
    const credit: Credit = {
      requestId: this.#flow.id,
      direction: "response",
      bytes,
      serviceId: this.#context.serviceId,
    };
    this.#context.transport.publish(
      controlSubject(this.#context.roots, serviceId, this.#flow.id),
      [encodeCredit(credit, new Date())],
      { headers: creditHeaders("response", this.#flow.id) },
    );
  }

  /** Says what has arrived; a probe that shows a loss ends the flow, since nothing is sent again yet. */
  #answerProbe(sent: number, serial: number): void {
    const owner = this.#owner!;
    if (sent > this.#next) {
      this.#cancelOwner("gap");
      this.#fail("gap", "Part of the response was lost on its way");
      return;
    }
    if (owner.serviceId === "") return;
    const window = encodeWindow(owner.epoch!, this.#next, this.#next, serial);
    this.#context.transport.publish(
      controlSubject(this.#context.roots, owner.serviceId, this.#flow.id),
      [window],
    );
  }

  /**
   * The server says that nobody listens. Receivers that are merely full left the queue group, but all
   * hear a cancel of the pool: a second answer of this kind means that there is none at all.
   */
  #nobodyListens(): void {
    this.#noResponders++;
    if (this.#noResponders > 1 || this.#owner !== null) return;
    if (!this.#publishPoolCancel("no_receiver", this.#replyTo)) {
      this.#fail("nats_down", "The connection to NATS was lost");
      return;
    }
    this.#context.transport.flush().then(() => {
      if (this.#noResponders > 1) {
        this.#fail("no_receiver", "No receiver is listening; start one with the same subjects");
      } else this.#fail("overloaded", "All receivers are saturated");
    }, () => this.#fail("nats_down", "The connection to NATS was lost"));
  }

  #clientGone(): void {
    if (this.#owner === null) this.#publishPoolCancel("downstream_disconnect");
    else this.#cancelOwner("downstream_disconnect");
    this.#finish("canceled");
  }

  #publishPoolCancel(reason: string, reply?: string): boolean {
    return this.#context.publishCancel(
      cancelSubject(this.#context.roots, POOL_TOKEN, this.#flow.id),
      { requestId: this.#flow.id, reason, epoch: null },
      reply,
    );
  }

  #cancelOwner(reason: string): void {
    if (this.#owner === null) return;
    const { serviceId, epoch } = this.#owner;
    this.#context.publishCancel(
      cancelSubject(this.#context.roots, serviceId || POOL_TOKEN, this.#flow.id),
      { requestId: this.#flow.id, reason, epoch: epoch === null ? null : hex(epoch) },
    );
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

/** Answers what comes for a flow that this requester does not have. */
export function answerUnknown(context: RequesterContext, message: Inbound): void {
  if (!isFrame(message.data)) return;
  try {
    const frame = decodeFrame(message.data);
    if (frame.type !== FrameType.Probe) return;
    context.transport.publish(
      controlSubject(context.roots, frame.serviceId, message.token),
      [encodeClose(frame.epoch, 0, "gone")],
    );
  } catch (error) {
    // A broken frame, or a service id that is no subject token: nothing to answer.
    context.logger.debug("bad frame for an unknown flow", { detail: String(error) });
  }
}

const encoder = new TextEncoder();
// deno-lint-ignore no-control-regex -- exactly the octets that no field value may hold
const CONTROL = /[\x00-\x08\x0a-\x1f\x7f]/;

/** The headers of a JSON event as field lines; what is no field of HTTP is left out. */
function eventFieldBlock(headers: EventHeaders): { block: Uint8Array; contentLength: number } {
  let text = "";
  let contentLength = -1;
  for (const [name, content] of Object.entries(headers)) {
    const id = fieldIdOf(name);
    if (!isToken(name) || isHopByHop(id)) continue;
    for (const value of typeof content === "string" ? [content] : content) {
      if (CONTROL.test(value)) continue;
      if (id !== FieldId.ContentLength) text += `${name}: ${value.trim()}\r\n`;
      else if (/^\d{1,15}$/.test(value)) contentLength = Number(value);
    }
  }
  return { block: encoder.encode(text), contentLength };
}
