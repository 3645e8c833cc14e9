/**
 * When a flow heard of its peer, when it asked, and what follows from silence (extensions.md sections 3,
 * 4 and 6).
 * @module
 */
import type { LaneTimes } from "./lane_types.ts";

/** Times of one flow; all are of the engine's clock, in ms. */
export class FlowClocks {
  readonly #times: LaneTimes;
  readonly bornAt: number;
  #heardAt: number;
  /** When the first probe went out that nothing has answered yet; -1 for none. */
  #quietSince = -1;
  /** When a receiver's first event was sent last, and first. */
  #firstAt = 0;
  #firstSince = 0;
  #endedAt = 0;
  /** The first event is out, and nothing of the flow came since. */
  unheard = false;

  constructor(times: LaneTimes, now: number) {
    this.#times = times;
    this.bornAt = this.#heardAt = now;
  }

  /** A frame of the flow came. */
  heard(now: number): void {
    this.#heardAt = now;
    this.#quietSince = -1;
    this.unheard = false;
  }

  /** A probe went out. */
  probed(now: number): void {
    if (this.#quietSince < 0) this.#quietSince = now;
  }

  /** The first event went out, for the first time or `again`. */
  firstSent(now: number, again: boolean): void {
    this.#firstAt = now;
    if (again) return;
    this.#firstSince = now;
    this.unheard = true;
  }

  ended(now: number): void {
    this.#endedAt = now;
  }

  /** This process is connected again: silence is counted anew. */
  reconnected(now: number, ended: boolean): void {
    this.#heardAt = this.#firstSince = now;
    this.#quietSince = -1;
    if (ended) this.#endedAt = now;
  }

  /** When the first event is to be sent again. */
  get repeatAt(): number {
    return this.#firstAt + this.#times.probeMs;
  }

  /** When a first event that nobody answers ends its flow. */
  get unheardUntil(): number {
    return Math.max(this.#firstSince, this.#endedAt) + this.#times.peerTimeoutMs;
  }

  /** Until when a close waits for its acknowledgement; `movedAt`: when the lane last got on. */
  closingUntil(movedAt: number): number {
    return Math.max(this.#endedAt, movedAt) + this.#times.peerTimeoutMs;
  }

  /** When the peer is lost unless it is heard before, or Infinity. */
  get peerLostAt(): number {
    return this.#quietSince < 0 ? Infinity : this.#quietSince + this.#times.peerTimeoutMs;
  }

  /**
   * When a probe is due because the flow is idle, or because none was answered.
   * @param probedAt when the last one went out
   * @param peerAnswers the peer answers pings: then the flow's own probes may be rare
   */
  idleProbeAt(probedAt: number, peerAnswers: boolean): number {
    const { peerTimeoutMs, probeMs } = this.#times;
    const again = probedAt + probeMs;
    if (this.#quietSince >= 0) return again;
    return Math.max(again, this.#heardAt + (peerAnswers ? peerTimeoutMs : peerTimeoutMs / 3));
  }
}
