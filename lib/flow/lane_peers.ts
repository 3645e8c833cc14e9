/**
 * Who is at the other end of the live flows, and whether it answers pings (extensions.md section 6).
 * @module
 */
import type { LaneFlow } from "./lane_flow.ts";
import type { LaneSchedule, Scheduled } from "./lane_schedule.ts";
import type { LaneTimes } from "./lane_types.ts";

export interface LanePeersOptions {
  readonly now: () => number;
  readonly times: LaneTimes;
  readonly schedule: LaneSchedule;
  readonly connected: () => boolean;
  /** Pings an instance, or null where nobody pings. */
  readonly ping: ((instance: string) => void) | null;
}

/** One process at the other end. */
export class LanePeer implements Scheduled {
  readonly #options: LanePeersOptions;
  readonly #flows = new Set<LaneFlow>();
  readonly #onEmpty: () => void;
  /** Silence counts only after a first answer: a peer may not know pings, or may not be allowed to. */
  #answers = false;
  /** When the first ping went out that nothing followed; -1 for none. */
  #quietSince = -1;
  #pingedAt = -Infinity;
  queuedAt = Infinity;
  heapIndex = -1;

  constructor(readonly instance: string, options: LanePeersOptions, onEmpty: () => void) {
    this.#options = options;
    this.#onEmpty = onEmpty;
  }

  /** Whether it has ever answered a ping of this watch. */
  get answers(): boolean {
    return this.#answers;
  }

  add(flow: LaneFlow): void {
    this.#flows.add(flow);
    this.#options.schedule.set(this, this.#dueAt);
  }

  /** A flow with it is over. */
  leave(flow: LaneFlow): void {
    this.#flows.delete(flow);
    if (this.#flows.size === 0) this.#onEmpty();
  }

  /** Anything came from it. */
  heard(): void {
    this.#quietSince = -1;
  }

  /** It answered a ping. */
  answered(): void {
    this.#answers = true;
    this.#quietSince = -1;
  }

  /** Clocks start anew. */
  reconnected(): void {
    this.#quietSince = -1;
    this.#options.schedule.set(this, this.#dueAt);
  }

  run(): void {
    const { now, schedule, connected, ping } = this.#options;
    if (this.#flows.size === 0 || !connected()) return;
    const at = now();
    if (at >= this.#pingAt) {
      this.#pingedAt = at;
      if (this.#quietSince < 0) this.#quietSince = at;
      ping?.(this.instance);
    }
    if (this.#lostAt <= at) {
      this.#quietSince = -1;
      for (const flow of [...this.#flows]) flow.lost("peer_lost");
    }
    schedule.set(this, this.#dueAt);
  }

  get #pingAt(): number {
    const { probeMs, pingMs } = this.#options.times;
    return this.#pingedAt + (this.#quietSince >= 0 ? probeMs : pingMs);
  }

  get #lostAt(): number {
    if (!this.#answers || this.#quietSince < 0) return Infinity;
    return this.#quietSince + this.#options.times.peerTimeoutMs;
  }

  get #dueAt(): number {
    if (this.#flows.size === 0 || !this.#options.connected()) return Infinity;
    return Math.min(this.#pingAt, this.#lostAt);
  }
}

/** The peers with which this process shares flows now. */
export class LanePeers {
  readonly #options: LanePeersOptions;
  readonly #peers = new Map<string, LanePeer>();

  constructor(options: LanePeersOptions) {
    this.#options = options;
  }

  get size(): number {
    return this.#peers.size;
  }

  /** Watches over the peer of a flow; null where nobody pings. */
  join(instance: string, flow: LaneFlow): LanePeer | null {
    if (this.#options.ping === null) return null;
    let peer = this.#peers.get(instance);
    if (peer === undefined) {
      peer = new LanePeer(instance, this.#options, () => this.#peers.delete(instance));
      this.#peers.set(instance, peer);
    }
    peer.add(flow);
    return peer;
  }

  /** An instance has answered a ping. */
  answered(instance: string): void {
    this.#peers.get(instance)?.answered();
  }

  reconnected(): void {
    for (const peer of this.#peers.values()) peer.reconnected();
  }
}
