/**
 * One budget for what all flows of a process may have in the air: granted to peers and not yet with the
 * local socket, or kept to be sent again (extensions.md section 5).
 * @module
 */

/** What each lane of a flow may hold without asking: 8 KiB to receive, 8 KiB to keep. */
export const LANE_RESERVE_BYTES = 8 * 1024;
/** Set aside for each flow that MAX_FLOWS allows. */
export const FLOW_RESERVE_BYTES = 2 * LANE_RESERVE_BYTES;
/** No single grant takes more than this part of what is free. */
const GRANT_DIVISOR = 16;
/** The smallest piece that a waiter can use: a buffer of the pool. */
const PIECE_BYTES = 4 * 1024;

/** Someone who could not go on for want of budget. */
export interface BudgetWaiter {
  /** There is some again. Only makes a note: nothing is taken while this runs. */
  budgetFreed(): void;
}

export interface MemoryBudgetOptions {
  /** FLOW_MEMORY_BYTES. */
  readonly totalBytes: number;
  /** MAX_FLOWS. */
  readonly maxFlows: number;
}

/** Counts; it holds no memory itself. */
export class MemoryBudget {
  readonly #maxFlows: number;
  /** What may be used beyond the reserve of all flows. */
  readonly #sharedBytes: number;
  readonly #waiters = new Set<BudgetWaiter>();
  #flows = 0;
  #usedBytes = 0;
  /** Lanes whose window is larger than the first grant. */
  grown = 0;

  /** What each of them may have at most, so that none lives on the others' share. */
  get fairWindowBytes(): number {
    return Math.floor(this.#sharedBytes / 4 / Math.max(1, this.grown));
  }

  /** @throws {RangeError} the reserve of `maxFlows` flows is over `totalBytes` */
  constructor({ totalBytes, maxFlows }: MemoryBudgetOptions) {
    this.#maxFlows = maxFlows;
    this.#sharedBytes = totalBytes - maxFlows * FLOW_RESERVE_BYTES;
    if (this.#sharedBytes < 0) {
      throw new RangeError(
        `${maxFlows} flows reserve ${
          maxFlows * FLOW_RESERVE_BYTES
        } bytes, the budget is ${totalBytes}`,
      );
    }
  }

  /** Bytes beyond the reserve that nobody uses; below 0 only by heads, which cannot wait. */
  get freeBytes(): number {
    return this.#sharedBytes - this.#usedBytes;
  }

  /** Bytes in use beyond the reserve of the flows. */
  get usedBytes(): number {
    return this.#usedBytes;
  }

  /** Flows that have their reserve now. */
  get flows(): number {
    return this.#flows;
  }

  /** The most that one grant may take now. */
  get grantableBytes(): number {
    return Math.max(0, Math.floor(this.freeBytes / GRANT_DIVISOR));
  }

  /** Takes the reserve of one flow; false when `maxFlows` have theirs. */
  open(): boolean {
    if (this.#flows >= this.#maxFlows) return false;
    this.#flows++;
    return true;
  }

  /** Gives the reserve of one flow back. */
  close(): void {
    this.#flows--;
  }

  /** Changes what someone holds beyond its reserve from `fromBytes` to `toBytes`. */
  change(fromBytes: number, toBytes: number): void {
    this.#usedBytes += toBytes - fromBytes;
    if (toBytes < fromBytes) this.wake();
  }

  /** Calls `waiter` once, in its turn, when there is budget. */
  wait(waiter: BudgetWaiter): void {
    this.#waiters.add(waiter);
  }

  /** Forgets a waiter; another may have its turn. */
  leave(waiter: BudgetWaiter): void {
    if (this.#waiters.delete(waiter)) this.wake();
  }

  /** Calls as many waiters as could take something. Who was called and takes nothing calls this. */
  wake(): void {
    if (this.#waiters.size === 0) return;
    let pieces = Math.floor(this.freeBytes / PIECE_BYTES);
    for (const waiter of this.#waiters) {
      if (pieces-- <= 0) return;
      this.#waiters.delete(waiter);
      waiter.budgetFreed();
    }
  }
}
