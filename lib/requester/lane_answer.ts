/**
 * A response that comes over a lane, on its way to the client.
 * @module
 */
import type { LaneFlow } from "../flow/lane_flow.ts";
import type { LaneApp, LaneEnd } from "../flow/lane_types.ts";
import type { Flow } from "../flow/registry.ts";
import type { Fields } from "../http1/fields.ts";
import type { ResponseWriter } from "../ingress/response_writer.ts";
import type { FrameHead } from "../protocol/frames.ts";

export interface LaneAnswerOptions {
  readonly response: ResponseWriter;
  readonly flow: Flow;
  /** Of the head that is to come, parsed. */
  readonly fields: Fields;
  readonly viaLine: string;
  /** Called once. A response that is not complete has not been broken off yet. */
  readonly ended: (end: LaneEnd) => void;
}

/** What the lane of one response brings; `lane` is to be set before anything comes. */
export class LaneAnswer implements LaneApp {
  readonly #options: LaneAnswerOptions;
  lane: LaneFlow | null = null;
  #delivered = 0;
  #complete = false;

  constructor(options: LaneAnswerOptions) {
    this.#options = options;
  }

  head(head: FrameHead): void {
    const { response, flow, fields, viaLine } = this.#options;
    response.onTaken = () => this.#taken(response.pendingBytes);
    response.start({
      status: head.status,
      reason: head.reason,
      fields,
      lines: viaLine,
      declaredLength: head.declaredLength,
    });
    flow.status = head.status;
    flow.state = "open";
  }

  data(bytes: Uint8Array): void {
    const { response, flow } = this.#options;
    flow.receivedBytes += bytes.length;
    response.body(bytes);
    // What goes beyond a declared length has broken the response off.
    if (response.ended) this.lane?.reset("target_broken");
    else if (response.pendingBytes === 0) this.#taken(0);
  }

  eof(): void {
    const { response } = this.#options;
    this.#complete = true;
    response.end();
    // The connection may serve the next request meanwhile; what this one waits for is that all is out.
    response.flushed().then(() => this.#taken(0), () => this.lane?.reset("canceled"));
  }

  room(): void {}

  ended(end: LaneEnd): void {
    const { response } = this.#options;
    const short = this.#complete && end.reason === "ok" && !response.endedWhole;
    this.#options.ended(short ? { reason: "target_broken", byPeer: false } : end);
  }

  #taken(pendingBytes: number): void {
    const taken = this.#options.flow.receivedBytes - pendingBytes;
    if (taken <= this.#delivered) return;
    const bytes = taken - this.#delivered;
    this.#delivered = taken;
    this.lane?.delivered(bytes);
  }
}
