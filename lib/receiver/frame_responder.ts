/**
 * Answers a natsway requester with binary frames (extensions.md sections 3 and 4): one message where all
 * of the response fits, else a lane.
 * @module
 */
import {
  type FailureAnswer,
  type FailureCode,
  FAILURES,
  FlowError,
  NatswayError,
} from "../errors.ts";
import type { LaneDriver } from "../flow/lane_driver.ts";
import type { LaneFlow } from "../flow/lane_flow.ts";
import type { LaneEnd, LaneSizes } from "../flow/lane_types.ts";
import { latin1, reasonPhrase } from "../http1/encode.ts";
import type { ResponseHead } from "../http1/head.ts";
import { encodeHeadPrefix, type FrameHead } from "../protocol/frames.ts";
import { jsonBytes } from "../protocol/json.ts";
import type { PeerInfo } from "../protocol/peer.ts";
import { encodeResponseInfo } from "../protocol/response_info.ts";
import type { Transport } from "../transport/types.ts";
import type { Responder } from "./responder.ts";
import { crossingBlock, declaredLength } from "./response_block.ts";

export interface FrameResponderOptions {
  readonly transport: Transport;
  readonly lanes: LaneDriver;
  readonly requestId: string;
  /** Reply subject, checked. */
  readonly subject: string;
  /** Subject on which this receiver hears of the flow, for probes. */
  readonly controlSubject: string;
  readonly serviceId: string;
  readonly epoch: Uint8Array;
  /** The info of every head of this process without a failure, encoded. */
  readonly info: Uint8Array;
  readonly self: PeerInfo;
  /** The requester. */
  readonly peer: PeerInfo;
  readonly sizes: LaneSizes;
}

/** A response as frames. */
export class FrameResponder implements Responder {
  readonly #options: FrameResponderOptions;
  #lane: LaneFlow | null = null;
  #end: LaneEnd | null = null;
  #wake: (() => void) | null = null;
  #settle: ((end: LaneEnd) => void) | null = null;
  headSent = false;
  lost = false;
  bodyBytes = 0;
  status = 0;
  onEnded: ((end: LaneEnd) => void) | null = null;

  constructor(options: FrameResponderOptions) {
    this.#options = options;
  }

  get ended(): boolean {
    return this.#end !== null;
  }

  settled(): Promise<LaneEnd> | LaneEnd {
    return this.#end ?? new Promise((resolve) => this.#settle = resolve);
  }

  head(
    head: ResponseHead,
    buffer: Uint8Array,
    start: number,
    end: number,
    last: boolean,
  ): Promise<void> | void {
    if (this.ended) return;
    const frameHead: FrameHead = {
      status: head.status,
      reason: head.hasReason(reasonPhrase(head.status)) ? NOTHING : latin1(head.reason),
      info: this.#options.info,
      fields: crossingBlock(head),
      declaredLength: declaredLength(head),
    };
    const prefix = this.#prefix(frameHead, last);
    if (last && end - start <= this.#mostInFirst(prefix)) {
      this.#publishWhole(frameHead, prefix, buffer, start, end);
      return;
    }
    const lane = this.#openLane();
    this.headSent = true;
    this.status = head.status;
    const taken = lane.respond(prefix, buffer, start, end, last);
    this.bodyBytes += taken;
    // What did not fit beside the head; only an offer that is cut short is told of room.
    if (start + taken < end) return this.body(buffer, start + taken, end, last);
  }

  body(buffer: Uint8Array, start: number, end: number, last: boolean): Promise<void> | void {
    const lane = this.#lane;
    if (lane === null || this.ended) return;
    const taken = lane.offer(buffer, start, end, last);
    this.bodyBytes += taken;
    if (start + taken < end) return this.#rest(buffer, start + taken, end, last);
  }

  fail(code: FailureCode, text: string): void {
    if (this.ended) return;
    if (this.#lane !== null) {
      this.#lane.reset(code);
      return;
    }
    const { serviceId, self } = this.#options;
    const body = jsonBytes({ error: text, code });
    const { http, retryAfterS }: FailureAnswer = FAILURES[code];
    const fields = latin1(
      `Content-Type: application/json\r\nContent-Length: ${body.length}\r\n` +
        (retryAfterS === undefined ? "" : `Retry-After: ${retryAfterS}\r\n`),
    );
    const head: FrameHead = {
      status: http,
      reason: NOTHING,
      info: encodeResponseInfo({ receiverServiceId: serviceId, peer: self, code }),
      fields,
      declaredLength: body.length,
    };
    try {
      // The window is for bodies of targets: this one is as short as a head.
      this.#publishWhole(head, this.#prefix(head, true), body, 0, body.length);
    } catch (error) {
      if (!(error instanceof NatswayError)) throw error;
      // Not even this fits what the requester says that it can take.
      this.#finish({ reason: code, byPeer: false });
    }
  }

  /** Frames know no incremental credit. */
  credit(): void {}

  keepAlive(): void {}

  cancel(reason: string): void {
    if (this.#lane !== null) this.#lane.canceled(reason);
    else this.#finish({ reason, byPeer: true });
  }

  #goOn(): void {
    const wake = this.#wake;
    this.#wake = null;
    wake?.();
  }

  #finish(end: LaneEnd): void {
    if (this.#end !== null) return;
    this.#end = end;
    this.#goOn();
    this.#settle?.(end);
    this.onEnded?.(end);
  }

  /**
   * The head with whatever may stand before a body. Good until the next prefix is made.
   * @throws {FlowError} `head_too_large`; nothing was published
   */
  #prefix(head: FrameHead, last: boolean): Uint8Array {
    const { epoch, sizes } = this.#options;
    const prefix = encodeHeadPrefix(epoch, head, last);
    if (prefix.length < sizes.maxMessageBytes) return prefix;
    throw new FlowError(
      "head_too_large",
      `The response head of ${prefix.length} bytes is over max_payload (${sizes.maxMessageBytes})`,
    );
  }

  /** Most body octets beside a head; the head itself takes one number of the window. */
  #mostInFirst(prefix: Uint8Array): number {
    const { sizes, peer } = this.#options;
    return Math.min(sizes.maxMessageBytes - prefix.length, sizes.frameBytes, peer.window - 1);
  }

  #publishWhole(
    head: FrameHead,
    prefix: Uint8Array,
    buffer: Uint8Array,
    start: number,
    end: number,
  ): void {
    const { transport, subject } = this.#options;
    this.headSent = true;
    this.status = head.status;
    this.bodyBytes = end - start;
    this.lost = !transport.publish(subject, [prefix, buffer.subarray(start, end)]);
    this.#finish({ reason: this.lost ? "nats_down" : "ok", byPeer: false });
  }

  /** @throws {FlowError} `overloaded`: there is no memory for a lane */
  #openLane(): LaneFlow {
    const { lanes, requestId, epoch, peer, sizes, subject, controlSubject } = this.#options;
    const lane = lanes.open({
      id: requestId,
      role: "receiver",
      epoch,
      sends: true,
      receives: false,
      responseHead: true,
      closeBy: "lane",
      limit: peer.window,
      answerTimeoutMs: Infinity,
      sizes,
      app: {
        head: () => {},
        data: () => {},
        eof: () => {},
        room: () => this.#goOn(),
        ended: (end) => this.#finish(end),
      },
      subjects: { subject, reply: controlSubject, cancel: () => {} },
    });
    if (lane === null) {
      const text = "The receiver has no memory for another flow (FLOW_MEMORY_BYTES, MAX_FLOWS)";
      throw new FlowError("overloaded", text);
    }
    lane.joinPeer(peer.instance);
    this.#lane = lane;
    return lane;
  }

  /** Offers what the lane did not take at once, as it makes room. */
  async #rest(buffer: Uint8Array, start: number, end: number, last: boolean): Promise<void> {
    for (let at = start; at < end;) {
      await new Promise<void>((resolve) => this.#wake = resolve);
      if (this.ended) return;
      const taken = this.#lane!.offer(buffer, at, end, last);
      this.bodyBytes += taken;
      at += taken;
    }
  }
}

const NOTHING = new Uint8Array(0);
