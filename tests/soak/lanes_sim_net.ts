/**
 * Time and the link of the simulation: events in their order, messages that are lost, doubled, late.
 * @module
 */
import type { Random, Schedule } from "./lanes_sim_schedule.ts";

/** One message between two processes. */
export type Message =
  | { kind: "request"; id: string; window: number }
  | { kind: "first"; id: string; epoch: Uint8Array; limit: number }
  | { kind: "frame"; id: string; bytes: Uint8Array; bodyBytes: number; limit: number }
  | { kind: "cancel"; id: string; epoch: Uint8Array | null }
  | { kind: "ping" | "pong" };

/** What the link needs to know of a process. */
export interface Station {
  readonly index: number;
  readonly dead: boolean;
  readonly linked: boolean;
  deliver(from: Station, message: Message): void;
}

interface Event {
  readonly at: number;
  readonly order: number;
  readonly run: () => void;
}

/** Simulated time, in ms. */
export class Simulation {
  readonly #heap: Event[] = [];
  #order = 0;
  now = 0;

  at(at: number, run: () => void): void {
    const heap = this.#heap;
    const event = { at: Math.max(at, this.now), order: this.#order++, run };
    let i = heap.length;
    heap.push(event);
    while (i > 0) {
      const parent = (i - 1) >> 1;
      if (before(heap[parent]!, event)) break;
      heap[i] = heap[parent]!;
      i = parent;
    }
    heap[i] = event;
  }

  /** Runs the next event; false when there is none up to `until`. */
  step(until: number): boolean {
    const heap = this.#heap;
    const first = heap[0];
    if (first === undefined || first.at > until) return false;
    const last = heap.pop()!;
    if (heap.length > 0) {
      let i = 0;
      for (;;) {
        let child = 2 * i + 1;
        if (child >= heap.length) break;
        if (child + 1 < heap.length && before(heap[child + 1]!, heap[child]!)) child++;
        if (!before(heap[child]!, last)) break;
        heap[i] = heap[child]!;
        i = child;
      }
      heap[i] = last;
    }
    this.now = first.at;
    first.run();
    return true;
  }
}

function before(a: Event, b: Event): boolean {
  return a.at < b.at || (a.at === b.at && a.order < b.order);
}

/** What went over the link. */
export interface Traffic {
  lanes: number;
  control: number;
  bodyBytes: number;
  lostBytes: number;
  lostMessages: number;
  reordered: number;
}

/** At most once, mostly in order, between any two processes. */
export class Link {
  readonly #busyUntil = new Map<number, number>();
  readonly #lastAt = new Map<number, number>();
  readonly traffic: Traffic = {
    lanes: 0,
    control: 0,
    bodyBytes: 0,
    lostBytes: 0,
    lostMessages: 0,
    reordered: 0,
  };

  constructor(
    readonly simulation: Simulation,
    readonly schedule: Schedule,
    readonly random: Random,
  ) {}

  send(from: Station, to: Station, message: Message): void {
    if (from.dead || !from.linked) return;
    const { schedule: s, random, traffic, simulation } = this;
    const body = message.kind === "frame" ? message.bodyBytes : 0;
    if (body > 0) traffic.lanes++;
    else if (message.kind !== "ping" && message.kind !== "pong") traffic.control++;
    traffic.bodyBytes += body;
    const key = from.index * 10 + to.index;
    let start = simulation.now;
    if (s.bytesPerMs > 0) {
      start = Math.max(start, this.#busyUntil.get(key) ?? 0) + (body + 100) / s.bytesPerMs;
      this.#busyUntil.set(key, start);
    }
    if (this.#isLost(from, message, body)) {
      traffic.lostMessages++;
      traffic.lostBytes += Math.max(1, body);
      return;
    }
    const put = (extraMs: number, inOrder: boolean) => {
      let at = start + random.between(s.delayMinMs, s.delayMaxMs) + extraMs;
      if (inOrder) {
        at = Math.max(at, this.#lastAt.get(key) ?? 0);
        this.#lastAt.set(key, at);
      }
      simulation.at(at, () => to.deliver(from, message));
    };
    if (random.chance(s.reorder)) {
      traffic.reordered++;
      put(random.between(0, s.reorderMs), false);
    } else put(0, true);
    if (random.chance(s.duplicate)) {
      traffic.reordered++; // the copy may overtake what was sent behind
      put(random.between(0, 300), false);
    }
    if (s.lateDuplicate > 0 && random.chance(s.lateDuplicate)) {
      put(random.between(5000, 45_000), false);
    }
  }

  #isLost(from: Station, message: Message, body: number): boolean {
    const { schedule: s, random, simulation: { now } } = this;
    const direction = from.index === 0 ? 1 : 2;
    if ((s.largeLost & direction) !== 0 && body > 8000) return true;
    const isLane = message.kind !== "ping" && message.kind !== "pong";
    for (const { start, end, directions, lanesOnly } of s.outages) {
      if (now >= start && now < end && (directions & direction) !== 0 && (!lanesOnly || isLane)) {
        return true;
      }
    }
    return random.chance(s.loss);
  }
}
