/**
 * Makes the responder that a requester understands.
 * @module
 */
import type { LaneDriver } from "../flow/lane_driver.ts";
import { creditSizes } from "../protocol/credit.ts";
import { decodeHello } from "../protocol/hello.ts";
import { FEATURE_RAW, type PeerInfo } from "../protocol/peer.ts";
import { encodeResponseInfo } from "../protocol/response_info.ts";
import { controlSubject, resolveReply, type Roots } from "../protocol/subjects.ts";
import type { Inbound, Transport } from "../transport/types.ts";
import { EventResponder } from "./event_responder.ts";
import { FrameResponder } from "./frame_responder.ts";

export interface RespondersOptions {
  readonly transport: Transport;
  readonly roots: Roots;
  readonly serviceId: string;
  readonly instance: string;
  readonly lanes: LaneDriver;
  readonly streamTimeoutMs: number;
}

const FEATURES: readonly string[] = [FEATURE_RAW];

/** One responder for each request. */
export class Responders {
  readonly #options: RespondersOptions;
  #infoFor = -1;
  #infoBytes: Uint8Array = new Uint8Array(0);

  constructor(options: RespondersOptions) {
    this.#options = options;
  }

  /** For a natsway peer. `subject` is its reply subject, checked. */
  frame(
    subject: string,
    requestId: string,
    epoch: Uint8Array,
    peer: PeerInfo,
  ): FrameResponder {
    const { transport, roots, serviceId, lanes } = this.#options;
    return new FrameResponder({
      transport,
      lanes,
      requestId,
      subject,
      controlSubject: controlSubject(roots, serviceId, requestId),
      serviceId,
      epoch,
      info: this.#info(),
      self: this.self(),
      peer,
      sizes: lanes.sizes(peer.maxMsg),
    });
  }

  /** For every other peer; `requestId` is null in replies before an operation starts. */
  event(
    subject: string,
    requestId: string | null,
    operation: string,
    trace: Uint8Array | null,
  ): EventResponder {
    const { transport, serviceId, streamTimeoutMs } = this.#options;
    const sizes = creditSizes(transport.maxPayload);
    return new EventResponder({
      transport,
      subject,
      serviceId,
      requestId,
      operation,
      traceHeaders: trace,
      chunkBytes: sizes.chunk,
      creditCap: sizes.cap,
      creditTimeoutMs: streamTimeoutMs,
    });
  }

  /** Tells a requester that asks who is here; false when the message is no such question. */
  hello(message: Inbound): boolean {
    const hello = decodeHello(message.data);
    if (hello === null || hello.requestId !== message.token) return false;
    const { transport, roots } = this.#options;
    const subject = resolveReply(hello.replyTo, roots.response, hello.requestId);
    if (subject === null) return false;
    transport.publish(subject, [this.#info()]);
    return true;
  }

  /** What is said of this process. */
  self(): PeerInfo {
    const { transport, instance } = this.#options;
    return {
      instance,
      features: FEATURES,
      maxMsg: transport.maxPayload,
      ttlMs: 0,
      window: 0,
    };
  }

  /** The info of a head without a failure: made anew only when `max_payload` changes. */
  #info(): Uint8Array {
    const { transport, serviceId } = this.#options;
    if (this.#infoFor !== transport.maxPayload) {
      this.#infoFor = transport.maxPayload;
      this.#infoBytes = encodeResponseInfo({
        receiverServiceId: serviceId,
        peer: this.self(),
        code: null,
      });
    }
    return this.#infoBytes;
  }
}
