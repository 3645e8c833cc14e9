/**
 * A session as nats-proxy understands it: incremental credit, no sequence numbers, nothing is sent
 * again, no half-close (wire-protocol.md sections 7 and 10). One class for both roles; no socket, no
 * NATS, no timer of its own.
 * @module
 */
import { isFailureCode, MessageTooLargeError } from "../errors.ts";
import { creditHeaders, encodeCredit, readCredit } from "../protocol/credit.ts";
import { encodeResponseError } from "../protocol/events.ts";
import { natsHeader } from "../protocol/nats_headers.ts";
import {
  decodeSessionEvent,
  encodeSessionClose,
  SessionFrame,
  sessionHeaders,
} from "../protocol/session.ts";
import type { Inbound, PublishOptions } from "../transport/types.ts";
import type { ByteFlow } from "./byte_flow.ts";
import type { ContractFlowOptions } from "./contract_flow_types.ts";
import { FramePace } from "./contract_pace.ts";
import { GrantCounter, SendWindow } from "./credit_window.ts";
import type { Deadline } from "./deadlines.ts";
import type { LaneEnd } from "./lane_types.ts";

/** R waits so long for data behind a close: the two travel on different subjects. */
const DRAIN_MS = 100;

/** What a frame is for its receiver, by `Nats-Frame-Type`; null stands for a message without one. */
const INCOMING = {
  requester: new Map<string | null, "data" | "close" | "credit">([
    [SessionFrame.DataDownstream, "data"],
    ["session_credit_upstream", "credit"],
  ]),
  receiver: new Map<string | null, "data" | "close" | "credit">([
    [null, "data"],
    [SessionFrame.Data, "data"],
    ["session_data_upstream", "data"],
    [SessionFrame.Close, "close"],
    ["session_credit_downstream", "credit"],
  ]),
};

/** Reasons of a peer's close after which bytes may be missing, and what they mean here. */
const BROKEN_OFF: ReadonlyMap<string, string> = new Map([
  ["client_disconnected", "reset"],
  ["hijack_not_supported", "canceled"],
  ["cancel_requested", "canceled"],
]);

/** Frames come in with `receive`, a receiver's events with `peerClosed` and `peerFailed`. */
export class ContractFlow implements ByteFlow {
  readonly #options: ContractFlowOptions;
  readonly #requester: boolean;
  readonly #window: SendWindow;
  readonly #grants: GrantCounter;
  readonly #pace: FramePace;
  readonly #dataOptions: PublishOptions;
  readonly #creditOptions: PublishOptions;
  /** An `offer` was not taken whole. */
  #blocked = false;
  #creditWait: Deadline | null = null;
  /** Bytes that the peer may have sent, has sent, and that the socket has taken. */
  #granted = 0;
  #received = 0;
  #consumed = 0;
  /** This side has said its end. */
  #finished = false;
  /** The peer has said its end. */
  #peerFinished = false;
  /** Runs behind an end; started anew by data. */
  #quiet: Deadline | null = null;
  /** The socket was told that all is there. */
  #eof = false;
  #end: LaneEnd | null = null;

  constructor(options: ContractFlowOptions) {
    this.#options = options;
    const { side, id, sizes, clock } = options;
    this.#requester = side === "requester";
    this.#window = new SendWindow(sizes.cap, 0);
    this.#grants = new GrantCounter(sizes);
    this.#pace = new FramePace(clock, () => this.pump());
    const frame = this.#requester ? SessionFrame.Data : SessionFrame.DataDownstream;
    this.#dataOptions = { headers: sessionHeaders(frame, id) };
    this.#creditOptions = { headers: creditHeaders(this.#grantedDirection, id) };
  }

  /** Null while it lives. */
  get end(): LaneEnd | null {
    return this.#end;
  }

  /** Gives the first credit: right after `session_established` was sent or received. */
  open(): void {
    if (this.#end === null) this.#grant(this.#grants.first());
  }

  offer(buffer: Uint8Array, start: number, end: number): number {
    const { subject, sizes } = this.#options;
    let at = start;
    while (at < end && this.#maySend(end - at)) {
      const size = Math.min(end - at, sizes.chunk, this.#window.credit);
      this.#window.take(size);
      this.#publish(subject, buffer.subarray(at, at + size), this.#dataOptions);
      at += size;
    }
    return at - start;
  }

  /**
   * The socket has said all. The contract has no half-close: the peer stops sending, and what it sent
   * before still arrives. A receiver waits for that until it is quiet, since a requester that is told
   * `target_closed` says nothing; a requester waits for the receiver's own close.
   */
  finish(): void {
    if (this.#end !== null || this.#finished) return;
    this.#finished = true;
    this.#stopCreditWait();
    // A requester whose target has closed first sends nothing back.
    if (!this.#requester) this.#sayClosed("target_closed");
    else if (!this.#peerFinished) this.#sayClosed("client_closed");
    this.#awaitQuiet();
  }

  delivered(bytes: number): void {
    if (this.#end !== null) return;
    this.#consumed += bytes;
    if (!this.#peerFinished) {
      const grant = this.#grants.next(this.#consumed);
      if (grant > 0) this.#grant(grant);
    }
    this.#settle();
  }

  reset(reason: string): void {
    this.#endWith({ reason, byPeer: false }, () => {
      if (this.#finished || (this.#requester && this.#peerFinished)) return;
      const timeout = reason === "flow_credit_timeout";
      if (this.#requester) this.#sayClosed(timeout ? reason : "client_disconnected");
      else if (reason === "reset" || reason.startsWith("target_")) this.#sayBroken(reason);
      else this.#sayClosed(reason);
    });
  }

  /** The transport takes data again, see `ContractWire.ready`. */
  pump(): void {
    if (!this.#blocked || this.#end !== null) return;
    this.#blocked = false;
    this.#options.sink.room();
  }

  /** Takes a message of the session's plane: subject 4 at a requester, 3 at a receiver. */
  receive(message: Inbound): void {
    if (this.#end !== null) return;
    const { headers, data } = message;
    const type = headers === null ? null : natsHeader(headers, "Nats-Frame-Type");
    switch (INCOMING[this.#options.side].get(type)) {
      case "data":
        this.#data(data);
        return;
      case "close": {
        const event = decodeSessionEvent(data);
        this.peerClosed(event?.type === "session_close" ? event.reason : "");
        return;
      }
      case "credit":
        this.#credited(data);
        return;
      default:
        this.#dropped(`a frame of type ${type ?? "none"}`);
    }
  }

  /**
   * The peer has said its end, by frame or by event: what is still on its way is awaited, unless the
   * reason says that bytes are missing.
   */
  peerClosed(reason: string): void {
    if (this.#end !== null || this.#eof) return;
    const broken = BROKEN_OFF.get(reason) ?? (isFailureCode(reason) ? reason : null);
    if (broken !== null) {
      this.#endWith({ reason: broken, byPeer: true }, () => this.#sayTargetClosed());
      return;
    }
    this.#peerFinished = true;
    this.#stopCreditWait();
    this.#awaitQuiet();
  }

  /** For a requester: a `response_error`, or an event that no session has, came in place of a close. */
  peerFailed(): void {
    this.#endWith(
      { reason: "target_broken", byPeer: true },
      () => this.#options.wire.cancel("upstream_error"),
    );
  }

  /** For a receiver: the requester has cancelled the session. */
  canceled(reason: string): void {
    this.#endWith({ reason, byPeer: true }, () => {
      if (!this.#finished) this.#sayClosed("cancel_requested");
    });
  }

  /** The connection to NATS is lost: what was on its way is, too, and nothing brings it again. */
  connectionLost(): void {
    if (!this.#eof) this.#endWith({ reason: "nats_down", byPeer: false }, () => {});
  }

  /** The direction that this side grants. */
  get #grantedDirection(): "downstream" | "upstream" {
    return this.#requester ? "downstream" : "upstream";
  }

  /** Whether one more frame may go; else `room` is called once it may. */
  #maySend(bytes: number): boolean {
    if (this.#end !== null || this.#finished) return false;
    // What the client still says, after the target has closed, has nowhere to go.
    if (this.#requester && this.#peerFinished) return false;
    this.#blocked = true;
    if (!this.#options.wire.ready) return false;
    if (this.#window.credit === 0) {
      this.#awaitCredit();
      return false;
    }
    this.#blocked = !this.#pace.mayGo(bytes);
    return !this.#blocked;
  }

  #awaitCredit(): void {
    const { creditTimeoutMs, clock } = this.#options;
    if (creditTimeoutMs === 0 || this.#creditWait !== null || this.#peerFinished) return;
    this.#creditWait = clock.start(creditTimeoutMs, () => this.reset("flow_credit_timeout"));
  }

  #stopCreditWait(): void {
    this.#creditWait?.cancel();
    this.#creditWait = null;
  }

  #credited(data: Uint8Array): void {
    const { id } = this.#options;
    const bytes = readCredit(data, id, this.#requester ? "upstream" : "downstream");
    if (bytes === null) {
      this.#dropped("a credit that is none of this session");
      return;
    }
    this.#stopCreditWait();
    this.#window.grant(bytes);
    this.pump();
  }

  #data(bytes: Uint8Array): void {
    const { sink, sizes, logger, id } = this.#options;
    if (this.#eof) {
      this.#dropped("data behind the end");
      return;
    }
    this.#received += bytes.length;
    // One frame of tolerance: the peer's count may be coarser, memory must stay bounded.
    if (this.#received > this.#granted + sizes.chunk) {
      logger.warn("a session was ended: the peer sends more than it was granted", {
        request_id: id,
      });
      this.reset(this.#requester ? "target_broken" : "bad_request");
      return;
    }
    if (this.#quiet !== null) this.#awaitQuiet();
    if (bytes.length > 0) sink.data(bytes);
  }

  #grant(bytes: number): void {
    const { id, serviceId, subject } = this.#options;
    this.#granted += bytes;
    const credit = { requestId: id, direction: this.#grantedDirection, bytes, serviceId };
    this.#publish(subject, encodeCredit(credit, new Date()), this.#creditOptions);
  }

  /** Starts, or starts anew, the wait behind an end. */
  #awaitQuiet(): void {
    const { clock, creditTimeoutMs, drainMs } = this.#options;
    this.#quiet?.cancel();
    this.#quiet = null;
    if (this.#end !== null) return;
    // The receiver answers the client's end with its own close; how far away it is, nobody knows here.
    const answerDue = this.#requester && !this.#peerFinished;
    if (!answerDue) this.#quiet = clock.start(drainMs ?? DRAIN_MS, () => this.#drained());
    else if (creditTimeoutMs > 0) {
      this.#quiet = clock.start(creditTimeoutMs, () => this.#unanswered());
    }
  }

  #drained(): void {
    this.#quiet = null;
    this.#eof = true;
    this.#options.sink.eof();
    this.#settle();
  }

  #unanswered(): void {
    this.#endWith(
      { reason: "peer_lost", byPeer: false },
      () => this.#options.wire.cancel("downstream_disconnect"),
    );
  }

  /** Ends well when the socket has taken all. */
  #settle(): void {
    if (this.#end !== null || !this.#eof || this.#consumed < this.#received) return;
    this.#endWith({ reason: "ok", byPeer: false }, () => {
      const rest = this.#consumed + this.#options.sizes.initial - this.#granted;
      if (rest > 0) this.#grant(rest);
      this.#sayTargetClosed();
    });
  }

  /** A receiver says this once, also when the client has closed first. */
  #sayTargetClosed(): void {
    if (!this.#requester && !this.#finished) this.#sayClosed("target_closed");
  }

  #sayClosed(reason: string): void {
    const { id, subject } = this.#options;
    const close = encodeSessionClose(reason);
    if (!this.#requester) this.#sayEvent(close);
    else this.#publish(subject, close, { headers: sessionHeaders(SessionFrame.Close, id) });
  }

  #sayBroken(reason: string): void {
    this.#sayEvent(encodeResponseError(`Tunnel error: ${reason}`));
  }

  #sayEvent(event: Uint8Array): void {
    const { eventSubject, traceHeaders } = this.#options;
    this.#publish(eventSubject, event, traceHeaders === null ? {} : { headers: traceHeaders });
  }

  #publish(subject: string, data: Uint8Array, options: PublishOptions): void {
    const { wire, logger, id } = this.#options;
    try {
      if (!wire.publish(subject, [data], options)) this.connectionLost();
    } catch (error) {
      if (!(error instanceof MessageTooLargeError)) throw error;
      logger.warn("a frame does not fit", { request_id: id, detail: error.message });
      this.reset("internal");
    }
  }

  #dropped(what: string): void {
    const { logger, id } = this.#options;
    logger.debug("dropped what a session cannot use", { request_id: id, detail: what });
  }

  /** The one end; `say` publishes the last words. */
  #endWith(end: LaneEnd, say: () => void): void {
    if (this.#end !== null) return;
    this.#end = end;
    this.#stopCreditWait();
    this.#quiet?.cancel();
    this.#pace.close();
    this.#window.close();
    say();
    this.#options.sink.ended(end);
  }
}
