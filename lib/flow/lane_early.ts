/**
 * Frames that overtook the first event of their flow: kept for it, within bounds.
 * @module
 */
import { type Frame, FrameType, sameBytes } from "../protocol/frames.ts";
import { LANE_RESERVE_BYTES } from "./memory_budget.ts";

const MOST_FRAMES = 32;

type Early = Extract<Frame, { type: typeof FrameType.Data | typeof FrameType.Eof }>;

/** At most the reserve of a lane; what does not fit is lost, and will be asked for. */
export class EarlyFrames {
  #frames: Early[] = [];
  #bytes = 0;

  /** Keeps a copy. */
  keep(frame: Early): void {
    if (frame.type === FrameType.Data && frame.head !== null) return;
    const size = frame.type === FrameType.Data ? frame.body.length : frame.trailers.length;
    if (this.#frames.length >= MOST_FRAMES || this.#bytes + size > LANE_RESERVE_BYTES) return;
    this.#bytes += size;
    const epoch = frame.epoch.slice();
    if (frame.type === FrameType.Data) {
      this.#frames.push({ ...frame, epoch, body: frame.body.slice() });
    } else this.#frames.push({ ...frame, epoch, trailers: frame.trailers.slice() });
  }

  /** Gives those of the epoch that the flow is bound to now. */
  replay(flow: { readonly epoch: Uint8Array; receive(frame: Frame): void }): void {
    const frames = this.#frames;
    this.#frames = [];
    for (const frame of frames) if (sameBytes(frame.epoch, flow.epoch)) flow.receive(frame);
  }
}
