/**
 * When whom to call: a heap of due times without timers of its own.
 * @module
 */

/** Something that wants to be called at a time. Only the schedule changes `queuedAt`. */
export interface Scheduled {
  /** The time under which it stands in the schedule, in ms; Infinity for none. */
  queuedAt: number;
  /** It is due, or was when it was queued: it acts and says anew when it wants to be called. */
  run(): void;
}

interface Entry {
  readonly at: number;
  readonly item: Scheduled;
}

/**
 * A time that moves back costs nothing: the item is called at the old one and asks again. So a lane in
 * full flight, whose deadlines move with each frame, touches the heap seldom.
 */
export class LaneSchedule {
  readonly #heap: Entry[] = [];
  readonly #onEarlier: (at: number) => void;

  /** @param onEarlier the earliest time has moved forward */
  constructor(onEarlier: (at: number) => void) {
    this.#onEarlier = onEarlier;
  }

  /** The earliest time at which {@linkcode LaneSchedule.run} has something to do, or Infinity. */
  get nextAt(): number {
    return this.#heap[0]?.at ?? Infinity;
  }

  /** Calls `item` at `at`, or earlier. */
  set(item: Scheduled, at: number): void {
    if (at >= item.queuedAt || at === Infinity) return;
    item.queuedAt = at;
    const earlier = at < this.nextAt;
    this.#push({ at, item });
    if (earlier) this.#onEarlier(at);
  }

  /** Calls all that are due at `now`. */
  run(now: number): void {
    const heap = this.#heap;
    while (heap.length > 0 && heap[0]!.at <= now) {
      const { at, item } = this.#pop();
      if (item.queuedAt !== at) continue; // it stands there again, earlier, and was called
      item.queuedAt = Infinity;
      item.run();
    }
  }

  #push(entry: Entry): void {
    const heap = this.#heap;
    let i = heap.length;
    heap.push(entry);
    while (i > 0) {
      const parent = (i - 1) >> 1;
      if (heap[parent]!.at <= entry.at) break;
      heap[i] = heap[parent]!;
      i = parent;
    }
    heap[i] = entry;
  }

  #pop(): Entry {
    const heap = this.#heap;
    const top = heap[0]!;
    const last = heap.pop()!;
    if (heap.length === 0) return top;
    let i = 0;
    for (;;) {
      let child = 2 * i + 1;
      if (child >= heap.length) break;
      if (child + 1 < heap.length && heap[child + 1]!.at < heap[child]!.at) child++;
      if (heap[child]!.at >= last.at) break;
      heap[i] = heap[child]!;
      i = child;
    }
    heap[i] = last;
    return top;
  }
}
