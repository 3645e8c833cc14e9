/**
 * One tunnel on the requester's side: opened over NATS, bound to the receiver that answers first, then
 * carried by two lanes until it ends once.
 * @module
 */
import { type FailureCode, FAILURES, isFailureCode } from "../errors.ts";
import type { ByteFlow } from "../flow/byte_flow.ts";
import { ContractFlow } from "../flow/contract_flow.ts";
import { endDetail, flowEndOf } from "../flow/flow_end.ts";
import type { LaneFlow } from "../flow/lane_flow.ts";
import type { LaneApp, LaneEnd, LaneSizes } from "../flow/lane_types.ts";
import type { Flow, FlowEnd } from "../flow/registry.ts";
import { TunnelPump } from "../flow/tunnel_pump.ts";
import { decodeEvent } from "../protocol/events.ts";
import { decodeFrame, type Frame, FrameError, FrameType, isFrame } from "../protocol/frames.ts";
import { isObject, isText, parseJson } from "../protocol/json.ts";
import { natsStatus, NO_RESPONDERS } from "../protocol/nats_headers.ts";
import { decodeSessionEvent, type SessionEstablished } from "../protocol/session.ts";
import { downstreamSubject, isServiceId, upstreamSubject } from "../protocol/subjects.ts";
import type { Inbound } from "../transport/types.ts";
import type { RequesterContext } from "./context.ts";
import { Owner } from "./owner.ts";
import { PoolQuestion } from "./pool_question.ts";
import type { SessionClient, SessionHandle } from "./session_types.ts";

export interface SessionOptions {
  readonly flow: Flow;
  readonly replyTo: string;
  readonly client: SessionClient;
}

/** Longest text of a receiver that a client is shown. */
const MAX_ERROR_CHARS = 512;

/** The text of a receiver's failure, which stands in a JSON body. */
function errorOf(body: Uint8Array): string | null {
  const value = parseJson(body);
  return isObject(value) && isText(value.error) ? value.error.slice(0, MAX_ERROR_CHARS) : null;
}

type Established = SessionEstablished & { readonly type: "session_established" };

/** A session from its publish to its end. */
export class Session implements LaneApp, SessionHandle {
  readonly #context: RequesterContext;
  readonly #options: SessionOptions;
  readonly #flow: Flow;
  readonly #pool: PoolQuestion;
  /** Filled in when the receiver is known. */
  readonly #subjects = { subject: "", reply: "" };
  readonly #sizes: { -readonly [K in keyof LaneSizes]: LaneSizes[K] };
  readonly #lane: LaneFlow | null;
  #owner: Owner | null = null;
  /** With a nats-proxy, in place of the lanes. */
  #contract: ContractFlow | null = null;
  #pump: TunnelPump | null = null;
  #ended = false;

  constructor(context: RequesterContext, options: SessionOptions) {
    this.#context = context;
    this.#options = options;
    const flow = this.#flow = options.flow;
    this.#pool = new PoolQuestion(context, {
      requestId: flow.id,
      replyTo: options.replyTo,
      isOwned: () => this.#owner !== null || this.#ended,
      fail: (code, message) => this.fail(code, message),
    });
    this.#subjects.reply = downstreamSubject(context.roots, context.serviceId, flow.id);
    this.#sizes = { ...context.lanes.sizes(0) };
    this.#lane = context.lanes.open({
      id: flow.id,
      role: "requester",
      epoch: null,
      sends: true,
      receives: true,
      responseHead: false,
      closeBy: "lane",
      limit: 0,
      answerTimeoutMs: context.responseTimeoutMs,
      sizes: this.#sizes,
      app: this,
      subjects: Object.assign(this.#subjects, {
        cancel: (epoch: Uint8Array | null, reason: string) => {
          if (epoch === null) this.#pool.cancel(reason);
          else this.#owner?.cancel(reason);
        },
      }),
    });
  }

  /** What the envelope grants; 0 when there is no memory for the session. */
  get window(): number {
    return this.#lane?.limit ?? 0;
  }

  /** Takes one message of the flow's reply subject. Never throws. */
  receive(message: Inbound): void {
    if (this.#ended) return;
    const { data, headers } = message;
    if (headers !== null && data.length === 0 && natsStatus(headers) === NO_RESPONDERS) {
      this.#pool.nobodyListens();
      return;
    }
    if (isFrame(data)) {
      this.#frame(data);
      return;
    }
    const event = decodeSessionEvent(data);
    if (event === null) this.#otherEvent(data);
    else if (event.type === "session_established") this.#established(event);
    else this.#contract?.peerClosed(event.reason);
  }

  /** Takes one message of the plane for target bytes. */
  receiveDownstream(message: Inbound): void {
    if (this.#contract !== null) this.#contract.receive(message);
    else if (message.headers === null && isFrame(message.data)) this.#frame(message.data);
  }

  /** The connection to NATS broke: lanes bring again what was lost, a nats-proxy does not. */
  linkLost(): void {
    this.#contract?.connectionLost();
  }

  /** Ends with a failure of this side, for example at the end of SHUTDOWN_GRACE. */
  stop(code: FailureCode): void {
    this.#lane?.reset(code);
    this.#contract?.reset(code);
  }

  abandon(): void {
    if (this.#pump === null) this.#lane?.reset("canceled");
  }

  /** JetStream has not taken the request: nobody will ever answer. */
  lost(reason: string): void {
    if (this.#owner === null) this.fail("nats_down", `The request was lost: ${reason}`);
  }

  /** There is no session: tells the client, and whoever may still get the request. */
  fail(code: FailureCode, message: string): void {
    if (this.#ended) return;
    this.#finish(code, message);
    this.#lane?.reset(code);
    this.#options.client.failed(code, message);
  }

  head(): void {}

  data(bytes: Uint8Array): void {
    this.#pump?.data(bytes);
  }

  eof(): void {
    this.#pump?.eof();
  }

  room(): void {
    this.#pump?.room();
  }

  ended(end: LaneEnd): void {
    if (this.#pump !== null) this.#pump.ended(end);
    if (this.#ended) return;
    const code = flowEndOf(end);
    this.#finish(code, endDetail(end));
    if (this.#pump !== null || code === "ok" || code === "canceled") return;
    const seconds = this.#context.responseTimeoutMs / 1000;
    const text = code === "response_timeout"
      ? `Session establishment timeout: no answer within ${seconds} s`
      : `The session ended before it was established: ${code}`;
    this.#options.client.failed(code, text);
  }

  #frame(data: Uint8Array): void {
    let frame: Frame;
    try {
      frame = decodeFrame(data);
    } catch (error) {
      if (!(error instanceof FrameError)) throw error;
      this.#context.logger.debug("bad frame of a session", { detail: error.message });
      return;
    }
    if (frame.type === FrameType.Data && frame.head !== null) {
      this.#refused(frame.head.info, frame.body);
    } else this.#context.lanes.host.receive(this.#flow.id, frame);
  }

  /** A response head where a session was asked for: it says why there is none. */
  #refused(infoBytes: Uint8Array, body: Uint8Array): void {
    if (this.#owner !== null) return; // another execution of the same request
    const info = this.#context.infoCache.read(infoBytes);
    if (info === null) return;
    this.#flow.peer = info.receiverServiceId;
    const code = isFailureCode(info.code) ? info.code : "target_broken";
    this.#lane?.drop();
    this.fail(code, errorOf(body) ?? `The receiver refused the session: ${code}`);
  }

  #established(event: Established): void {
    const { receiverServiceId: receiver, natsway } = event;
    if (natsway === null) {
      this.#establishedContract(event);
      return;
    }
    const { host } = this.#context.lanes;
    const { peer, epoch } = natsway;
    const first = { epoch, instance: peer.instance, limit: peer.window, whole: false };
    if (this.#owner !== null) {
      if (host.first(this.#flow.id, receiver, first) === "cancel") {
        this.#context.cancelForeign(this.#flow.id, receiver, epoch);
      }
      return;
    }
    if (!isServiceId(receiver)) {
      this.fail("target_broken", "The receiver gave no SERVICE_ID that can be used");
      return;
    }
    this.#bind(receiver, epoch);
    Object.assign(this.#sizes, this.#context.lanes.sizes(peer.maxMsg));
    const pump = this.#attach(event, this.#lane!);
    host.first(this.#flow.id, receiver, first);
    if (pump === null) this.#lane?.reset("canceled");
    else pump.start();
  }

  /** The receiver is a nats-proxy: the session goes on in the contract's form. */
  #establishedContract(event: Established): void {
    const { receiverServiceId: receiver } = event;
    if (this.#owner !== null) return;
    if (!isServiceId(receiver)) {
      this.fail("target_broken", "The receiver gave no SERVICE_ID that can be used");
      return;
    }
    this.#lane?.drop();
    this.#bind(receiver, null);
    const { transport, lanes, serviceId, streamTimeoutMs, idleDeadlines, logger } = this.#context;
    const contract: ContractFlow = this.#contract = new ContractFlow({
      side: "requester",
      id: this.#flow.id,
      serviceId,
      subject: this.#subjects.subject,
      eventSubject: "",
      traceHeaders: null,
      wire: {
        publish: (subject, parts, options) => transport.publish(subject, parts, options),
        get ready() {
          return lanes.ready(contract);
        },
        cancel: (reason) => this.#owner?.cancel(reason),
      },
      sink: this,
      clock: idleDeadlines,
      sizes: this.#context.creditSizes(),
      creditTimeoutMs: streamTimeoutMs,
      logger,
    });
    const pump = this.#attach(event, contract);
    if (pump === null) {
      contract.reset("canceled");
      return;
    }
    contract.open();
    pump.start();
  }

  #bind(receiver: string, epoch: Uint8Array | null): void {
    const { roots } = this.#context;
    this.#owner = new Owner(this.#context, this.#flow.id, receiver, epoch);
    this.#subjects.subject = upstreamSubject(roots, receiver, this.#flow.id);
    this.#flow.peer = receiver;
    this.#flow.state = "open";
    this.#flow.status = 200;
  }

  /** Answers the client and takes its socket; null when it has left. */
  #attach(event: Established, flow: ByteFlow): TunnelPump | null {
    const socket = this.#options.client.established({
      host: event.bindHost,
      port: event.bindPort,
    });
    if (socket === null) return null;
    const { idleTimeoutMs, idleDeadlines } = this.#context;
    this.#pump = new TunnelPump({
      socket,
      flow,
      onBytes: (read, written) => {
        this.#flow.sentBytes = read;
        this.#flow.receivedBytes = written;
      },
      idleMs: idleTimeoutMs,
      deadlines: idleDeadlines,
      onEnd: (end) => this.#finish(flowEndOf(end), endDetail(end)),
    });
    return this.#pump;
  }

  /** What is no event of a session: a failure, in the form that every peer has. */
  #otherEvent(data: Uint8Array): void {
    const event = decodeEvent(data);
    if (event === null) return;
    if (this.#owner !== null) {
      this.#contract?.peerFailed();
      return;
    }
    this.#lane?.drop();
    const name = event.type === "other" ? event.name : event.type;
    const code = event.type === "response_start" && isFailureCode(event.code)
      ? event.code
      : "target_broken";
    this.fail(code, `Session failed: Expected session_established, got ${name}`);
  }

  #finish(end: FlowEnd, detail: string | undefined): void {
    if (this.#ended) return;
    this.#ended = true;
    if (end !== "ok" && this.#pump === null && end !== "canceled") {
      this.#flow.status = FAILURES[end].http;
    }
    this.#context.finished(this.#flow, end, detail);
  }
}
