/**
 * The windows that envelopes grant before there is a lane: what a response may bring in its first
 * message. They count against the budget like those of live lanes.
 * @module
 */
import { LANE_RESERVE_BYTES, type MemoryBudget } from "../flow/memory_budget.ts";

/** Largest first grant (extensions.md section 5). */
const LARGEST_BYTES = 256 * 1024;

/** One for a requester. */
export class FirstWindows {
  readonly #budget: MemoryBudget;

  constructor(budget: MemoryBudget) {
    this.#budget = budget;
  }

  /** What the next envelope may grant: few different values, since both sides keep what goes with them. */
  next(): number {
    const most = LANE_RESERVE_BYTES + this.#budget.grantableBytes;
    let bytes = LARGEST_BYTES;
    while (bytes > most) bytes /= 2;
    return bytes;
  }

  /** An envelope with this window is on its way. */
  hold(bytes: number): void {
    this.#budget.change(0, bytes - LANE_RESERVE_BYTES);
  }

  /** Its response has come, has a lane now, or never will come. */
  release(bytes: number): void {
    this.#budget.change(bytes - LANE_RESERVE_BYTES, 0);
  }
}
