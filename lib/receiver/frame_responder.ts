/**
 * Answers a natsway requester with binary frames (extensions.md section 3).
 * @module
 */
import {
  type FailureAnswer,
  type FailureCode,
  FAILURES,
  FlowError,
  NatswayError,
} from "../errors.ts";
import { SendWindow } from "../flow/credit_window.ts";
import { latin1, reasonPhrase } from "../http1/encode.ts";
import type { ResponseHead } from "../http1/head.ts";
import {
  encodeClose,
  encodeDataPrefix,
  encodeHeadPrefix,
  encodeProbe,
  FRAME_HEADER_BYTES,
  FrameFlag,
  type FrameHead,
} from "../protocol/frames.ts";
import { jsonBytes } from "../protocol/json.ts";
import type { PeerInfo } from "../protocol/peer.ts";
import { encodeResponseInfo } from "../protocol/response_info.ts";
import type { Transport } from "../transport/types.ts";
import type { Responder } from "./responder.ts";
import { crossingBlock, declaredLength } from "./response_block.ts";

export interface FrameResponderOptions {
  readonly transport: Transport;
  /** Reply subject, checked. */
  readonly subject: string;
  /** Subject on which this receiver hears of the flow, for probes. */
  readonly controlSubject: string;
  readonly serviceId: string;
  readonly epoch: Uint8Array;
  /** The info of every head of this process without a failure, encoded. */
  readonly info: Uint8Array;
  readonly self: PeerInfo;
  /** Largest message, frame and all: the smaller of both servers' limits. */
  readonly maxMessageBytes: number;
  /** Largest body in one frame. */
  readonly frameBytes: number;
  /** Body bytes that the first frame may hold. */
  readonly firstWindow: number;
  readonly creditCap: number;
}

/** A response as frames. */
export class FrameResponder implements Responder {
  readonly #options: FrameResponderOptions;
  readonly #window: SendWindow;
  #offset = 0;
  #serial = 0;
  headSent = false;
  ended = false;
  lost = false;
  bodyBytes = 0;
  status = 0;

  constructor(options: FrameResponderOptions) {
    this.#options = options;
    this.#window = new SendWindow(options.creditCap, 0);
  }

  head(
    head: ResponseHead,
    buffer: Uint8Array,
    start: number,
    end: number,
    last: boolean,
  ): Promise<void> | void {
    if (this.ended) return;
    const reason = head.hasReason(reasonPhrase(head.status)) ? NOTHING : latin1(head.reason);
    const fields = crossingBlock(head);
    const room = this.#publishHead(
      {
        status: head.status,
        reason,
        info: this.#options.info,
        fields,
        declaredLength: declaredLength(head),
      },
      buffer,
      start,
      end,
      last,
    );
    if (start + room < end) return this.#body(buffer, start + room, end, last);
  }

  body(buffer: Uint8Array, start: number, end: number, last: boolean): Promise<void> | void {
    if (this.ended) return;
    // The common case needs no promise: all of it fits one frame and the credit at hand.
    const size = end - start;
    const { frameBytes, transport } = this.#options;
    if (size <= this.#window.credit && size <= this.#mostBody) {
      if (size > 0 || last) this.#publishData(buffer.subarray(start, end), last);
      return transport.pendingBytes > frameBytes ? transport.drained() : undefined;
    }
    return this.#body(buffer, start, end, last);
  }

  fail(code: FailureCode, text: string): void {
    if (this.ended) return;
    if (this.headSent) {
      this.#publish([encodeClose(this.#options.epoch, this.#offset, code)]);
      this.#end();
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
      // The window is for bodies of targets: who asks for the flow's end in two parts gets no more.
      const sent = this.#publishHead(head, body, 0, body.length, true);
      if (sent < body.length) this.#publish([encodeClose(this.#options.epoch, this.#offset, code)]);
    } catch (error) {
      if (!(error instanceof NatswayError)) throw error;
      // Not even this fits what the requester says that it can take.
    }
    this.#end();
  }

  credit(bytes: number): void {
    this.#window.grant(bytes);
  }

  cancel(): void {
    this.#end();
  }

  /** Asks the requester whether it still knows the flow; the answer comes on the control plane. */
  probe(): void {
    if (this.ended || !this.headSent) return;
    const { epoch, serviceId, controlSubject } = this.#options;
    this.#serial++;
    this.#publish([encodeProbe(epoch, this.#offset, this.#serial, serviceId)], controlSubject);
  }

  /** Most body octets in one frame. */
  get #mostBody(): number {
    const { frameBytes, maxMessageBytes } = this.#options;
    return Math.min(frameBytes, maxMessageBytes - FRAME_HEADER_BYTES);
  }

  /**
   * Publishes the head frame with as much body as it may hold; returns how much.
   * @throws {FlowError} `head_too_large`; nothing was published
   */
  #publishHead(
    head: FrameHead,
    buffer: Uint8Array,
    start: number,
    end: number,
    last: boolean,
  ): number {
    const { epoch, maxMessageBytes, frameBytes, firstWindow } = this.#options;
    const prefix = encodeHeadPrefix(epoch, head, last);
    if (prefix.length > maxMessageBytes) {
      throw new FlowError(
        "head_too_large",
        `The response head of ${prefix.length} bytes is over max_payload (${maxMessageBytes})`,
      );
    }
    const room = Math.min(end - start, maxMessageBytes - prefix.length, frameBytes, firstWindow);
    const whole = room === end - start;
    if (!whole && last) prefix[1] = prefix[1]! & ~FrameFlag.Fin; // it comes with the rest
    this.headSent = true;
    this.status = head.status;
    this.#offset = 1 + room;
    this.bodyBytes = room;
    if (!this.#publish([prefix, buffer.subarray(start, start + room)])) return room;
    if (whole && last) this.#end();
    return room;
  }

  async #body(buffer: Uint8Array, start: number, end: number, last: boolean): Promise<void> {
    const { frameBytes, transport } = this.#options;
    const most = this.#mostBody;
    let at = start;
    while (at < end && !this.ended) {
      if (this.#window.credit === 0) await this.#window.wait();
      if (this.ended) return;
      const size = Math.min(end - at, most, this.#window.credit);
      this.#publishData(buffer.subarray(at, at + size), last && at + size === end);
      at += size;
      if (transport.pendingBytes > frameBytes) await transport.drained();
    }
    if (last && start === end && !this.ended) this.#publishData(NOTHING, true);
  }

  #publishData(bytes: Uint8Array, fin: boolean): void {
    const prefix = encodeDataPrefix(this.#options.epoch, this.#offset, fin);
    this.#window.take(bytes.length);
    this.#offset += bytes.length;
    this.bodyBytes += bytes.length;
    if (this.#publish([prefix, bytes]) && fin) this.#end();
  }

  /** False when there is no connection: the requester's flow has ended or will, so this one ends. */
  #publish(parts: Uint8Array[], reply?: string): boolean {
    const { transport, subject } = this.#options;
    if (transport.publish(subject, parts, reply === undefined ? {} : { reply })) return true;
    this.lost = true;
    this.#end();
    return false;
  }

  #end(): void {
    this.ended = true;
    this.#window.close();
  }
}

const NOTHING = new Uint8Array(0);
