/**
 * The sending end of a lane (extensions.md section 4): takes bytes as far as the consumer's credit and
 * the own budget go, keeps them until they are acknowledged, sends them again on demand.
 * @module
 */
import { KeptBytes } from "./lane_kept.ts";
import type { LaneOutput } from "./lane_output.ts";
import type { LaneSizes, LaneTimes } from "./lane_types.ts";
import type { BudgetWaiter, MemoryBudget } from "./memory_budget.ts";

/** After so many restarts from one number without movement a lane may be given up. */
const HOPELESS_RESTARTS = 3;

export interface LaneSenderOptions {
  readonly output: LaneOutput;
  readonly budget: MemoryBudget;
  readonly sizes: LaneSizes;
  readonly times: LaneTimes;
  readonly now: () => number;
  /** The lane starts with a head, which has number 0. */
  readonly startsWithHead: boolean;
  /** After an `offer` that was not taken whole: more may be offered. */
  readonly onRoom: () => void;
  /** A probe was sent. */
  readonly onProbe: () => void;
  /** Is noted at the budget when that is what stops the lane. */
  readonly waiter: BudgetWaiter;
}

/** Numbers from 0: the head if there is one, each byte, `eof`, `close`. */
export class LaneSender {
  readonly #options: LaneSenderOptions;
  readonly #kept: KeptBytes;
  #head: Uint8Array | null = null;
  /** The head frame is the flow's first event: FIN in it would mean that nothing is kept. */
  #headIsFirst = false;
  #trailers: Uint8Array = EMPTY;
  #reason = "";
  #next = 0;
  #sent = 0;
  #limit = 0;
  /** Next number to publish: below `sent` while something is sent again. */
  #cursor = 0;
  /** Numbers below this have been published at least once. */
  #published = 0;
  #eofAt = -1;
  #closeAt = -1;
  /** The last offer was cut short by credit or budget. */
  #stopped = false;
  /** The last offer was cut short. */
  #waiting = false;
  /** When `next` moved, or what stands there was published first; and published again. */
  #movedAt = -Infinity;
  #resentAt = -Infinity;
  /** When the last window came. */
  #newsAt = -Infinity;
  #probedAt = -Infinity;
  #serial = 0;
  /** Value of `sent` for which the budget's stop has been probed. */
  #stopProbedAt = -1;
  #restartFrom = -1;
  #restartedAt = -Infinity;
  /** Serial of the probe behind the last restart; Infinity while that is not published yet. */
  #restartSerial = Infinity;
  #restarts = 0;
  /** When an answer to the latest probe first showed a loss; -1 for none. */
  #gapAt = -1;

  constructor(options: LaneSenderOptions) {
    this.#options = options;
    this.#kept = new KeptBytes(options.budget, options.startsWithHead ? 1 : 0);
  }

  /** First number that is not acknowledged. */
  get next(): number {
    return this.#next;
  }

  /** First number that was not sent. */
  get sent(): number {
    return this.#sent;
  }

  /** First number that may not be sent. */
  get limit(): number {
    return this.#limit;
  }

  /** When `next` moved last, or what stands there was sent first. */
  get movedAt(): number {
    return this.#movedAt;
  }

  /** Memory held to send again, in bytes. */
  get keptBytes(): number {
    return this.#kept.capacityBytes;
  }

  get eofAcknowledged(): boolean {
    return this.#eofAt >= 0 && this.#next > this.#eofAt;
  }

  get closeAcknowledged(): boolean {
    return this.#closeAt >= 0 && this.#next > this.#closeAt;
  }

  /** The consumer's first limit, from a first event or an envelope. */
  open(limit: number): void {
    this.#newsAt = this.#options.now();
    if (limit > this.#limit) this.#limit = limit;
    this.pump();
  }

  /**
   * Sends the head with what it may hold of `buffer[start..end)`; returns how much that is. Later
   * bytes follow by `offer`. With `last`, and if `isFirst` and all of it fits, that is the whole lane:
   * nothing is kept or acknowledged.
   * @param prefix a HEAD frame without its body; changed, and copied if it has to be kept
   * @param isFirst nothing of this flow was published before
   */
  head(
    prefix: Uint8Array,
    buffer: Uint8Array,
    start: number,
    end: number,
    last: boolean,
    isFirst: boolean,
  ): { taken: number; whole: boolean } {
    const { output, sizes } = this.#options;
    const size = end - start;
    const most = Math.min(
      size,
      sizes.frameBytes,
      Math.max(0, sizes.maxMessageBytes - prefix.length),
      Math.max(0, this.#limit - 1),
    );
    if (isFirst && last && most === size) {
      output.head(prefix, buffer.subarray(start, end), true);
      this.#eofAt = 1 + size;
      this.#next =
        this.#sent =
        this.#cursor =
        this.#published =
          2 + size;
      return { taken: size, whole: true };
    }
    this.#head = prefix.slice();
    this.#headIsFirst = isFirst;
    this.#kept.setExtra(prefix.length);
    const taken = Math.min(most, this.#kept.roomBytes);
    if (taken > 0) this.#kept.append(buffer.subarray(start, start + taken));
    this.#sent = 1 + taken;
    this.pump();
    if (last && taken === size) this.finish(EMPTY);
    return { taken, whole: false };
  }

  /** Publishes the head frame as the first event once more. */
  repeatHead(): void {
    if (this.#head !== null) this.#publishHead(this.#head);
  }

  /**
   * Takes what it may of `buffer[start..end)`, publishes it and returns how much that is. When it is not
   * all, `onRoom` is called as soon as there is room again.
   * @param last nothing follows: the end is sent with the last byte; to be said again with the rest
   */
  offer(buffer: Uint8Array, start: number, end: number, last: boolean): number {
    if (this.#eofAt >= 0 || this.#closeAt >= 0) return 0;
    const { output, sizes, now } = this.#options;
    let at = start;
    this.#waiting = this.#stopped = false;
    while (at < end && output.ready && this.#cursor === this.#sent) {
      if (this.#options.startsWithHead && this.#head === null && this.#sent === 0) break;
      const size = Math.min(
        end - at,
        sizes.frameBytes,
        this.#edge - this.#sent,
        this.#kept.roomBytes,
      );
      if (size <= 0) {
        this.#stopped = true;
        break;
      }
      const body = buffer.subarray(at, at + size);
      this.#kept.append(body);
      at += size;
      const fin = last && at === end;
      if (this.#sent === this.#next) this.#movedAt = now();
      output.data(this.#sent, body, fin);
      this.#sent += size;
      if (fin) this.#eofAt = this.#sent++;
      this.#cursor = this.#published = this.#sent;
    }
    if (at < end) {
      this.#waiting = true;
      if (this.#stopped && this.#edge > this.#sent) this.#stoppedByBudget();
    } else if (last && this.#eofAt < 0) this.finish(EMPTY);
    return at - start;
  }

  /** Half-close: nothing follows what was taken. Needs no credit. */
  finish(trailers: Uint8Array): void {
    if (this.#eofAt >= 0 || this.#closeAt >= 0) return;
    this.#waiting = this.#stopped = false;
    this.#trailers = trailers;
    this.#eofAt = this.#sent++;
    this.pump();
  }

  /** Breaks the lane off behind what was taken, also behind its `eof`. Needs no credit. */
  close(reason: string): void {
    if (this.#closeAt >= 0) return;
    this.#waiting = this.#stopped = false;
    this.#reason = reason;
    this.#closeAt = this.#sent++;
    this.pump();
  }

  /** Publishes what is due, then asks for more if there is room. */
  pump(): void {
    const { output } = this.#options;
    while (this.#cursor < this.#sent) {
      if (!(this.#cursor < this.#bodyEnd ? output.ready : output.open)) return;
      this.#publish(this.#cursor);
    }
    if (this.#restartSerial === Infinity && this.#restarts > 0 && output.open) {
      this.probe();
      this.#restartSerial = this.#serial;
    }
    if (!this.#waiting || !output.ready) return;
    if (!this.#stopped || (this.#edge > this.#sent && this.#kept.roomBytes > 0)) {
      this.#waiting = this.#stopped = false;
      this.#options.onRoom();
    } else if (this.#edge > this.#sent) this.#stoppedByBudget();
  }

  /** Asks the consumer for its window. */
  probe(): void {
    const { output, now, onProbe } = this.#options;
    if (!output.open) return;
    this.#serial++;
    this.#probedAt = now();
    onProbe();
    output.probe(this.#sent, this.#serial);
  }

  /** Takes the consumer's word. False when that cannot be: it acknowledges what was never sent. */
  window(next: number, limit: number, serial: number, resend: boolean): boolean {
    if (next > this.#sent) return false;
    const now = this.#options.now();
    const moved = next > this.#next;
    this.#newsAt = now;
    if (moved) {
      this.#next = next;
      this.#movedAt = now;
      if (this.#cursor < next) this.#cursor = next;
      this.#kept.release(next);
      if (this.#head !== null && next > 0) {
        this.#head = null;
        this.#kept.setExtra(0);
      }
    }
    if (limit > this.#limit) this.#limit = limit;
    if (moved || next === this.#sent) this.#gapAt = -1;
    else if (
      this.#gapAt < 0 && serial > 0 && serial >= this.#serial && this.#next < this.#sent
    ) this.#gapAt = now;
    if (resend && next === this.#next && next < this.#sent) this.#restart(serial, now);
    this.pump();
    return true;
  }

  /** The own budget may have room again. */
  budgetFreed(): void {
    if (this.#stopped) this.pump();
  }

  /** Reconnected: what was on its way may be lost, so the lane is probed at once if it waits. */
  reconnected(): void {
    this.#gapAt = -1;
    this.#movedAt =
      this.#resentAt =
      this.#newsAt =
      this.#probedAt =
        -Infinity;
    this.pump();
  }

  /** When {@linkcode LaneSender.needsProbe} will be true, or Infinity. */
  get probeAt(): number {
    const unacknowledged = this.#next < this.#sent;
    if (!unacknowledged && !this.#stopped) return Infinity;
    const since = unacknowledged ? Math.max(this.#movedAt, this.#resentAt) : this.#newsAt;
    return Math.max(since, this.#probedAt) + this.#options.times.probeMs;
  }

  /** When the last probe was sent, or -Infinity. */
  get probedAt(): number {
    return this.#probedAt;
  }

  /** When the lane is to be given up with `gap` unless something changes, or Infinity. */
  get gapDueAt(): number {
    if (this.#gapAt < 0 || this.#restarts < HOPELESS_RESTARTS || this.#next >= this.#sent) {
      return Infinity;
    }
    return Math.max(this.#gapAt, this.#movedAt) + this.#options.times.peerTimeoutMs;
  }

  /** Gives all memory back; the lane must not be used afterwards. */
  release(): void {
    this.#kept.clear();
    this.#head = null;
    this.#waiting = this.#stopped = false;
    this.#options.budget.leave(this.#options.waiter);
  }

  /** How far bytes may go: no peer makes this side keep more than the largest window. */
  get #edge(): number {
    return Math.min(this.#limit, this.#next + this.#options.sizes.largestWindowBytes);
  }

  /** Number behind the last byte that was taken. */
  get #bodyEnd(): number {
    return this.#eofAt >= 0 ? this.#eofAt : this.#closeAt >= 0 ? this.#closeAt : this.#sent;
  }

  #restart(serial: number, now: number): void {
    const from = this.#next;
    if (from === this.#restartFrom) {
      // Only an answer to the probe behind the last restart says that this one was lost as well.
      if (serial < this.#restartSerial) return;
      if (now - this.#restartedAt < this.#options.times.restartMs) return;
      this.#restarts++;
    } else this.#restarts = 1;
    this.#restartFrom = from;
    this.#restartedAt = now;
    this.#restartSerial = Infinity;
    this.#cursor = from;
  }

  #publish(at: number): void {
    const { output, sizes, now } = this.#options;
    if (at === this.#next) {
      if (at < this.#published) this.#resentAt = now();
      else this.#movedAt = now();
    }
    if (at === this.#eofAt) {
      output.eof(at, this.#trailers);
      this.#cursor = at + 1;
    } else if (at === this.#closeAt) {
      output.close(at, this.#reason);
      this.#cursor = at + 1;
    } else if (at === 0 && this.#head !== null) this.#cursor = this.#publishHead(this.#head);
    else {
      const end = this.#bodyEnd;
      const body = this.#kept.view(at, Math.min(sizes.frameBytes, end - at));
      const fin = at + body.length === this.#eofAt && this.#trailers.length === 0;
      output.data(at, body, fin);
      this.#cursor = at + body.length + (fin ? 1 : 0);
    }
    if (this.#published < this.#cursor) this.#published = this.#cursor;
  }

  /** Returns the number behind the frame. */
  #publishHead(head: Uint8Array): number {
    const { output, sizes } = this.#options;
    const room = Math.min(sizes.frameBytes, sizes.maxMessageBytes - head.length, this.#bodyEnd - 1);
    const body = room > 0 ? this.#kept.view(1, room) : EMPTY;
    const fin = !this.#headIsFirst && 1 + body.length === this.#eofAt &&
      this.#trailers.length === 0;
    output.head(head, body, fin);
    return 1 + body.length + (fin ? 1 : 0);
  }

  #stoppedByBudget(): void {
    const { budget, waiter } = this.#options;
    budget.wait(waiter);
    if (this.#stopProbedAt === this.#sent) return;
    this.#stopProbedAt = this.#sent;
    this.probe();
  }
}

const EMPTY = new Uint8Array(0);
