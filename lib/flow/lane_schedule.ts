/**
 * When whom to call: a heap of due times without timers of its own.
 * @module
 */

/** Something that wants to be called at a time. Only the schedule changes `queuedAt`. */
export interface Scheduled {
  /** The time under which it stands in the schedule, in ms; Infinity for none. */
  queuedAt: number;
  /** Its place in the heap, -1 for none. */
  heapIndex: number;
  /** It is due, or was when it was queued: it acts and says anew when it wants to be called. */
  run(): void;
}

/**
 * A heap of those that want to be called. A time that moves back costs nothing: the item is called at the
 * old one and asks again. So a lane in full flight, whose deadlines move with each frame, touches the heap
 * seldom.
 */
export class LaneSchedule {
  readonly #heap: Scheduled[] = [];
  readonly #onEarlier: (at: number) => void;

  /** @param onEarlier the earliest time has moved forward */
  constructor(onEarlier: (at: number) => void) {
    this.#onEarlier = onEarlier;
  }

  /** The earliest time at which {@linkcode LaneSchedule.run} has something to do, or Infinity. */
  get nextAt(): number {
    return this.#heap[0]?.queuedAt ?? Infinity;
  }

  /** Calls `item` at `at`, or earlier. */
  set(item: Scheduled, at: number): void {
    if (at >= item.queuedAt || at === Infinity) return;
    const earlier = at < this.nextAt;
    item.queuedAt = at;
    if (item.heapIndex < 0) item.heapIndex = this.#heap.push(item) - 1;
    this.#up(item, item.heapIndex);
    if (earlier) this.#onEarlier(at);
  }

  /** Forgets an item. */
  remove(item: Scheduled): void {
    const at = item.heapIndex;
    if (at < 0) return;
    item.heapIndex = -1;
    item.queuedAt = Infinity;
    const last = this.#heap.pop()!;
    if (last === item) return;
    this.#down(last, at);
    this.#up(last, last.heapIndex);
  }

  /** Calls all that are due at `now`. */
  run(now: number): void {
    for (;;) {
      const item = this.#heap[0];
      if (item === undefined || item.queuedAt > now) return;
      this.remove(item);
      item.run();
    }
  }

  #up(item: Scheduled, at: number): void {
    const heap = this.#heap;
    while (at > 0) {
      const parent = (at - 1) >> 1;
      const above = heap[parent]!;
      if (above.queuedAt <= item.queuedAt) break;
      heap[at] = above;
      above.heapIndex = at;
      at = parent;
    }
    heap[at] = item;
    item.heapIndex = at;
  }

  #down(item: Scheduled, at: number): void {
    const heap = this.#heap;
    for (;;) {
      let child = 2 * at + 1;
      if (child >= heap.length) break;
      if (child + 1 < heap.length && heap[child + 1]!.queuedAt < heap[child]!.queuedAt) child++;
      const below = heap[child]!;
      if (below.queuedAt >= item.queuedAt) break;
      heap[at] = below;
      below.heapIndex = at;
      at = child;
    }
    heap[at] = item;
    item.heapIndex = at;
  }
}
