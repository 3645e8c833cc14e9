/**
 * The consuming end of a lane (extensions.md sections 4 and 5): takes only what continues, asks for what
 * is missing, grants credit as the local socket takes what came.
 * @module
 */
import type { FrameHead } from "../protocol/frames.ts";
import type { LaneOutput } from "./lane_output.ts";
import type { LaneSizes, LaneTimes } from "./lane_types.ts";
import { LANE_RESERVE_BYTES, type MemoryBudget } from "./memory_budget.ts";

/** Who gets what the lane brings, each number once and in order. */
export interface LaneConsumer {
  head(head: FrameHead): void;
  data(bytes: Uint8Array): void;
  eof(trailers: Uint8Array): void;
  /** In its place: all before it was handed over. */
  close(reason: string): void;
}

export interface LaneReceiverOptions {
  readonly output: LaneOutput;
  readonly budget: MemoryBudget;
  readonly sizes: LaneSizes;
  readonly times: LaneTimes;
  readonly now: () => number;
  /** False: nothing of this lane is granted; it only answers probes. */
  readonly receives: boolean;
  readonly startsWithHead: boolean;
  /** The first limit, where it was announced before; 0: what the budget grants now. */
  readonly granted: number;
  readonly consumer: LaneConsumer;
}

/** The counterpart of {@linkcode LaneSender}. Buffers nothing: what it takes is handed on at once. */
export class LaneReceiver {
  readonly #options: LaneReceiverOptions;
  #next = 0;
  #delivered = 0;
  #limit = 0;
  #windowBytes = 0;
  /** Largest serial of a probe. */
  #serial = 0;
  /** `next` for which a resend was asked, -1 for none. */
  #askedFor = -1;
  #eofAt = -1;
  #closed = false;
  /** When the first frame came that no window has answered yet; -1 for none. */
  #unansweredAt = -1;
  #grantedAt: number;
  /** Counted at the budget among those with a larger window than the first. */
  #grown = false;
  /** What is counted at the budget. */
  #heldBytes = 0;
  /** The lane was one message that wants no answer. */
  #silent = false;

  constructor(options: LaneReceiverOptions) {
    this.#options = options;
    this.#grantedAt = options.now();
    if (!options.receives) return;
    const { granted, budget, sizes } = options;
    this.#windowBytes = this.#limit = granted > 0
      ? granted
      : Math.min(sizes.firstWindowBytes, LANE_RESERVE_BYTES + budget.grantableBytes);
    this.#hold();
  }

  /** First number that is missing. */
  get next(): number {
    return this.#next;
  }

  /** First number that the sender may not send. */
  get limit(): number {
    return this.#limit;
  }

  /** Bytes handed over that the socket has not taken. */
  get undelivered(): number {
    return (this.#eofAt >= 0 ? this.#eofAt : this.#next) - this.#delivered;
  }

  get eofTaken(): boolean {
    return this.#eofAt >= 0;
  }

  /** When a window is due because of frames that were not answered, or Infinity. */
  get windowDueAt(): number {
    return this.#unansweredAt < 0 ? Infinity : this.#unansweredAt + this.#options.times.windowMs;
  }

  /** The first event was the whole response: nothing is answered. */
  beSilent(): void {
    this.#silent = true;
  }

  /** A data frame with or without head. */
  data(offset: number, head: FrameHead | null, body: Uint8Array, fin: boolean): void {
    const { startsWithHead, consumer } = this.#options;
    this.#note();
    if ((head !== null || offset === 0) && (head !== null) !== startsWithHead) return; // no such lane
    const bodyAt = head === null ? offset : 1;
    if (!this.#continues(offset, bodyAt + body.length + (fin ? 1 : 0))) return;
    if (head !== null && this.#next === 0) {
      this.#next = this.#delivered = 1; // heads are no matter of credit
      if (this.#limit < 1 + LANE_RESERVE_BYTES) this.#limit = 1 + LANE_RESERVE_BYTES;
      this.#hold();
      consumer.head(head);
      if (this.#closed) return;
    }
    const known = this.#next - bodyAt;
    // More than was granted is left alone, as if it had not come: memory is not the peer's to spend.
    const most = Math.min(body.length, this.#limit - bodyAt);
    if (known < most) {
      this.#next = bodyAt + most;
      consumer.data(known === 0 && most === body.length ? body : body.subarray(known, most));
    }
    if (fin && this.#next === bodyAt + body.length) this.#end(EMPTY);
  }

  /** An eof frame. */
  eof(offset: number, trailers: Uint8Array): void {
    this.#note();
    if (this.#continues(offset, offset + 1)) this.#end(trailers);
  }

  /** A close frame. */
  close(offset: number, reason: string): void {
    this.#note();
    if (!this.#continues(offset, offset + 1, true)) return;
    this.#next++;
    this.#window();
    this.#closed = true;
    this.#options.consumer.close(reason);
  }

  /** A close that comes when this side has ended the flow itself: only to be acknowledged. */
  acknowledgeClose(offset: number): void {
    this.#next = Math.max(this.#next, offset + 1);
    this.#window();
  }

  /** A probe. `resend`: what is missing may be asked for. */
  probe(sent: number, serial: number, resend: boolean): void {
    this.#serial = Math.max(this.#serial, serial);
    this.#window(resend && this.#next < sent);
  }

  /** The socket has taken `bytes` more. */
  delivered(bytes: number): void {
    this.#delivered += bytes;
    this.#hold();
    if (this.#eofAt < 0 && !this.#closed) this.#grow();
  }

  /** Sends a window when one is due, or at once. */
  answer(): void {
    this.#window();
  }

  /** Nothing more is taken; all memory is given back. */
  release(): void {
    this.#closed = true;
    if (this.#grown) {
      this.#grown = false;
      this.#options.budget.grown--;
    }
    this.#unansweredAt = -1;
    this.#options.budget.change(this.#heldBytes, 0);
    this.#heldBytes = 0;
  }

  #note(): void {
    if (this.#unansweredAt < 0 && !this.#silent) this.#unansweredAt = this.#options.now();
  }

  /** Whether numbers `from` to `to` continue the lane; a gap is asked for once. */
  #continues(from: number, to: number, isClose = false): boolean {
    if (this.#closed || to <= this.#next) return false;
    if (this.#eofAt >= 0 && !isClose) return false;
    if (from <= this.#next) return true;
    if (this.#askedFor !== this.#next) {
      this.#askedFor = this.#next;
      this.#window(true);
    }
    return false;
  }

  #end(trailers: Uint8Array): void {
    this.#eofAt = this.#next++;
    this.#window();
    this.#hold();
    this.#options.consumer.eof(trailers);
  }

  /** A new limit once half of the window is used up. */
  #grow(): void {
    const { budget, sizes, times, now } = this.#options;
    const left = this.#limit - this.#delivered;
    if (left > this.#windowBytes / 2) return;
    const at = now();
    const tookMs = at - this.#grantedAt;
    let bytes = this.#windowBytes;
    if (tookMs < times.growMs) bytes = Math.min(2 * bytes, sizes.largestWindowBytes);
    else if (tookMs > times.shrinkMs && bytes > sizes.firstWindowBytes) {
      bytes = Math.max(sizes.firstWindowBytes, bytes / 2);
    }
    if (bytes > sizes.firstWindowBytes) {
      bytes = Math.max(sizes.firstWindowBytes, Math.min(bytes, budget.fairWindowBytes));
    }
    // What is held stays: the limit never moves back.
    bytes = Math.min(bytes, LANE_RESERVE_BYTES + this.#heldBytes + budget.grantableBytes);
    this.#windowBytes = Math.max(LANE_RESERVE_BYTES, bytes);
    const grown = this.#windowBytes > sizes.firstWindowBytes;
    if (grown !== this.#grown) {
      this.#grown = grown;
      budget.grown += grown ? 1 : -1;
    }
    const limit = this.#delivered + this.#windowBytes;
    this.#grantedAt = at;
    if (limit <= this.#limit) return;
    this.#limit = limit;
    this.#hold();
    this.#window();
  }

  #window(resend = false): void {
    const { output } = this.#options;
    if (this.#silent || !output.open) return;
    this.#unansweredAt = -1;
    output.window(this.#next, this.#limit, this.#serial, resend);
  }

  #hold(): void {
    const end = this.#eofAt >= 0 ? this.#eofAt : this.#limit;
    const held = Math.max(0, end - this.#delivered - LANE_RESERVE_BYTES);
    if (held === this.#heldBytes) return;
    this.#options.budget.change(this.#heldBytes, held);
    this.#heldBytes = held;
  }
}

const EMPTY = new Uint8Array(0);
