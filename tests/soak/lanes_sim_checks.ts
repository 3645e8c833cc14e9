/**
 * What must hold in every simulated schedule: every byte or a visible end, no stall, no hoard, no storm.
 * @module
 */
import type { Pair } from "./lanes_sim.ts";
import type { SimApp } from "./lanes_sim_app.ts";
import type { Link, Simulation } from "./lanes_sim_net.ts";
import type { SimProcess } from "./lanes_sim_process.ts";
import {
  FIRST_WINDOW_BYTES,
  FRAME_BYTES,
  PEER_TIMEOUT_MS,
  type Schedule,
  type Span,
} from "./lanes_sim_schedule.ts";

export interface ChecksOptions {
  readonly schedule: Schedule;
  readonly processes: readonly SimProcess[];
  readonly pairs: readonly Pair[];
  readonly simulation: Simulation;
  readonly link: Link;
  readonly violation: (text: string) => void;
}

/** Loss up to which a flow has to live. */
const LIVABLE_LOSS = 0.021;
const MOST_CONTROL_PER_S = 4;

/** When something is broken for all, with what lies close together made one. */
export function mergedSpans(schedule: Schedule): Span[] {
  const spans = [...schedule.outages, ...schedule.disconnects, ...schedule.pauses]
    .map(({ start, end }) => ({ start, end }))
    .sort((a, b) => a.start - b.start);
  const merged: { start: number; end: number }[] = [];
  for (const span of spans) {
    const last = merged.at(-1);
    if (last !== undefined && span.start - last.end < 6000) last.end = Math.max(last.end, span.end);
    else merged.push(span);
  }
  return merged;
}

interface Mark {
  next: number;
  since: number;
  told: boolean;
}

/** Looks on, and looks back at the end. */
export class Checks {
  readonly #o: ChecksOptions;
  readonly #marks = new Map<SimApp, Mark>();
  readonly #heads = new Map<SimApp, number>();
  #idleMs = 0;
  #idleControl = 0;
  #lastControl = 0;
  #lastAt = 0;
  #lastDelivered = 0;
  #wasIdle = false;
  longestStallMs = 0;
  memoryShare = 0;

  constructor(options: ChecksOptions) {
    this.#o = options;
  }

  get idleControlPerS(): number {
    return this.#idleMs > 10_000 ? this.#idleControl / (this.#idleMs / 1000) : 0;
  }

  get deliveredBytes(): number {
    let bytes = 0;
    for (const { requester, receivers } of this.#o.pairs) {
      for (const app of [requester, ...receivers]) bytes += app.delivered;
    }
    return bytes;
  }

  get allOver(): boolean {
    return this.#o.processes.every(({ dead, host }) => dead || host.size === 0);
  }

  /** Four times a second. */
  sample(spans: readonly Span[]): void {
    const { schedule: s, processes, pairs, simulation: { now }, link } = this.#o;
    const broken = spans.some(({ start, end }) => now >= start && now < end + 500) ||
      processes.some(({ dead, paused, linked }) => dead || paused || !linked);
    this.#memory();
    let live = false;
    let moving = false;
    for (const pair of pairs) {
      for (const receiver of pair.receivers) {
        for (
          const [from, to] of [[pair.requester, receiver], [receiver, pair.requester]] as const
        ) {
          if (!this.#bound(pair, receiver)) continue;
          if (from.end !== null || to.end !== null) continue;
          live = true;
          if (this.#moves(pair, from, to, broken)) moving = true;
        }
        this.#head(pair, receiver, broken);
      }
    }
    const delivered = this.deliveredBytes;
    const idle = live && !moving && delivered === this.#lastDelivered;
    if (idle && this.#wasIdle && !broken && s.flows === 1 && s.second === 0) {
      this.#idleMs += now - this.#lastAt;
      this.#idleControl += link.traffic.control - this.#lastControl;
    }
    this.#lastControl = link.traffic.control;
    this.#lastAt = now;
    this.#lastDelivered = delivered;
    this.#wasIdle = idle;
  }

  /** When all is over, or the horizon is reached. */
  final(spans: readonly Span[]): void {
    const { schedule: s, pairs, violation, simulation: { now } } = this.#o;
    this.#memory();
    if (this.idleControlPerS > MOST_CONTROL_PER_S) {
      violation(`idle control ${this.idleControlPerS.toFixed(1)}/s`);
    }
    const mild = spans.every(({ start, end }) => end - start <= PEER_TIMEOUT_MS - 3000) &&
      s.deaths.length === 0 && s.loss <= LIVABLE_LOSS && s.largeLost === 0;
    for (const pair of pairs) {
      this.#allEnded(pair, now);
      const receiver = pair.receivers.find((app) => this.#bound(pair, app));
      if (receiver !== undefined) this.#agree(pair, receiver, mild);
      // A whole response is not repeated; every other first event is.
      const silent = pair.requester.end?.reason === "response_timeout";
      const started = pair.receivers.some((app) => app.started);
      if (silent && mild && started && pair.kind !== "http" && s.answerTimeoutMs >= 30_000) {
        violation(`no first event of ${pair.kind}`);
      }
      if (!mild || pair.kind === "http") continue;
      for (const app of pair.receivers) {
        const ms = app.endedAt - app.bornAt;
        if (app !== receiver && app.end !== null && ms > 26_000 && !app.flow.complete) {
          violation(`an orphan lived for ${Math.round(ms)}`);
        }
      }
    }
    this.#nothingLeft(now);
    this.#noStorm();
  }

  #bound({ requester }: Pair, receiver: SimApp): boolean {
    return requester.flow.bound && requester.peer === receiver;
  }

  #memory(): void {
    const { processes, schedule, violation } = this.#o;
    for (const process of processes) {
      const total = schedule.budgets[process.index]!;
      if (process.dead || schedule.second > 0) continue;
      const bytes = process.memoryBytes;
      this.memoryShare = Math.max(this.memoryShare, bytes / total);
      if (bytes > total) violation(`memory ${bytes} of ${total}`);
      const free = total - schedule.flows * 16 * 1024 - process.budget.usedBytes;
      if (free < 0) violation(`budget overdrawn by ${-free}`);
    }
  }

  /** Whether the lane has something to carry; it must then get on. */
  #moves(pair: Pair, from: SimApp, to: SimApp, broken: boolean): boolean {
    const { schedule: s, simulation: { now }, violation } = this.#o;
    const has = from.hasMore || to.arrived < from.taken;
    let mark = this.#marks.get(from);
    if (mark === undefined) this.#marks.set(from, mark = { next: -1, since: now, told: false });
    const still = mark.next === to.arrived;
    mark.next = to.arrived;
    if (broken || !has || to.stopped || !still || to.heldBytes > 0) {
      mark.since = now;
      return has;
    }
    const ms = now - mark.since;
    if (s.loss <= LIVABLE_LOSS && s.bytesPerMs === 0) {
      this.longestStallMs = Math.max(this.longestStallMs, ms);
    }
    if (ms > stallBoundMs(s) && !mark.told) {
      mark.told = true;
      violation(`stall of ${Math.round(ms)} ${pair.kind} from ${from === pair.requester ? 0 : 1}`);
    }
    return has;
  }

  #head(pair: Pair, receiver: SimApp, broken: boolean): void {
    const { schedule: s, simulation: { now }, violation } = this.#o;
    if (pair.kind !== "upload" || !this.#bound(pair, receiver)) return;
    if (receiver.end !== null || pair.requester.end !== null) return;
    if (!receiver.headSent || pair.requester.headTaken) return;
    if (broken || s.loss > LIVABLE_LOSS || s.bytesPerMs > 0 || s.largeLost !== 0) {
      this.#heads.delete(receiver);
      return;
    }
    const since = this.#heads.get(receiver) ?? now;
    this.#heads.set(receiver, since);
    if (now - since > 7000) violation("the head stalled");
  }

  /** Nobody waits for ever, but behind a slow reader. */
  #allEnded(pair: Pair, now: number): void {
    const { schedule: s, processes, violation } = this.#o;
    if (now < s.horizonMs - 1 && this.allOver) return;
    const apps = [pair.requester, ...pair.receivers];
    const slow = s.class !== "stuck" && apps.some((app) => app.heldBytes > 0);
    const troubles = [...s.outages, ...s.pauses, ...s.disconnects].map(({ end }) => end);
    const last = Math.max(0, ...troubles);
    for (const app of apps) {
      const process = processes.find((one) => one.apps.includes(app));
      if (app.end !== null || process === undefined || process.dead || slow) continue;
      if (now - last > 3 * PEER_TIMEOUT_MS || last >= 1e9 || s.class === "stuck") {
        violation(`${pair.kind} never ended at ${process.index}, bound ${app.flow.bound}`);
      }
    }
  }

  #agree(pair: Pair, receiver: SimApp, mild: boolean): void {
    const { schedule: s, violation } = this.#o;
    const { requester } = pair;
    if (requester.end === null || receiver.end === null) return;
    const anyReset = requester.wasReset || receiver.wasReset;
    const both = `${requester.end.reason}/${receiver.end.reason} ${pair.kind}`;
    const allOk = requester.end.reason === "ok" && receiver.end.reason === "ok";
    if (mild && !anyReset && s.second === 0 && s.bytesPerMs === 0 && !allOk) {
      violation(`mild, but ended ${both}`);
    }
    if (
      s.bytesPerMs > 0 && !anyReset && s.loss <= 0.03 && s.outages.length === 0 && !allOk
    ) violation(`slow link ended ${both}`);
    const lateMs = receiver.endedAt - requester.endedAt;
    if (
      s.class === "stuck" && s.loss <= 0.02 && requester.end.reason === "reset" &&
      receiver.end.byPeer && lateMs > 9000
    ) violation(`the peer was told ${Math.round(lateMs)} late`);
    const tookMs = requester.endedAt - requester.bornAt;
    if (s.class === "poor" && s.loss === 0 && tookMs > 25_000) {
      violation(`with little budget it took ${Math.round(tookMs)}`);
    }
    if (
      receiver.end.byPeer && receiver.end.reason === "gone" && requester.end.reason === "ok" &&
      !this.#o.processes[0]!.dead
    ) violation("gone, though the peer ended well");
  }

  /** An ended flow lets go of everything. */
  #nothingLeft(now: number): void {
    const { processes, violation } = this.#o;
    for (const { dead, apps, host, budget } of processes) {
      if (dead) continue;
      for (const { end, endedAt, flow } of apps) {
        if (end !== null && flow.keptBytes > 0 && now - endedAt > 2 * PEER_TIMEOUT_MS + 5000) {
          violation("retained after its end");
        }
      }
      if (host.size > 0) continue;
      if (budget.usedBytes !== 0 || budget.flows !== 0) {
        violation(`${budget.usedBytes} bytes, ${budget.flows} flows left at the budget`);
      }
    }
  }

  #noStorm(): void {
    const { schedule: s, pairs, link: { traffic }, violation } = this.#o;
    if (s.outages.length + s.pauses.length + s.disconnects.length > 0) return;
    let fresh = 0;
    for (const { requester, receivers } of pairs) {
      for (const app of [requester, ...receivers]) fresh += app.taken;
    }
    const again = traffic.bodyBytes - fresh;
    const bound = 40 * traffic.lostBytes + 8 * FIRST_WINDOW_BYTES +
      traffic.reordered * FRAME_BYTES * 8;
    if (again > bound) violation(`storm: ${again} bytes again for ${traffic.lostBytes} lost`);
  }
}

/** How long a lane may stand still that has something to carry. */
function stallBoundMs(s: Schedule): number {
  if (s.bytesPerMs > 0) {
    return 2.4 * Math.max(PEER_TIMEOUT_MS, 2 * FIRST_WINDOW_BYTES / s.bytesPerMs);
  }
  if (s.largeLost !== 0) return 2 * PEER_TIMEOUT_MS;
  if (s.loss > 0.25) return 3 * PEER_TIMEOUT_MS;
  if (s.loss > 0.1) return 2 * PEER_TIMEOUT_MS + 6000;
  if (s.loss > LIVABLE_LOSS) return PEER_TIMEOUT_MS + 6000;
  return s.flows > 1 ? 11_000 : 7000;
}
