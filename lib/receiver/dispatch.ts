/**
 * Bounds how many requests a receiver works on. A slot is held from the delivery to the response head;
 * what finds none waits in a queue of twice as many.
 * @module
 */

export interface DispatchOptions {
  /** RECEIVER_MAX_INFLIGHT. */
  readonly slots: number;
  /** Called when the queue is three quarters full: take no more, if that can be said. */
  onSaturated(): void;
  /** Called when the queue is below one half again. */
  onRelieved(): void;
  /** Called when a slot is free again and nothing waits for it. */
  onFree?(): void;
}

/** A request that waits for a slot. `run` gets a function that gives the slot back, once. */
export interface Work {
  run(release: () => void): void;
}

/** First come, first served. */
export class Dispatch {
  readonly #options: DispatchOptions;
  readonly #queue: Work[] = [];
  #busy = 0;
  #saturated = false;

  constructor(options: DispatchOptions) {
    this.#options = options;
  }

  /** Slots in use. */
  get busy(): number {
    return this.#busy;
  }

  /** How many more would begin at once. */
  get free(): number {
    return Math.max(0, this.#options.slots - this.#busy - this.#queue.length);
  }

  /** Requests that wait. */
  get waiting(): number {
    return this.#queue.length;
  }

  /** Whether the queue has been too full and is not yet below one half. */
  get saturated(): boolean {
    return this.#saturated;
  }

  /** Runs the work now or later; false when the queue is full and it was not taken. */
  submit(work: Work): boolean {
    const { slots } = this.#options;
    if (this.#busy < slots) {
      this.#run(work);
      return true;
    }
    if (this.#queue.length >= slots * 2) return false;
    this.#queue.push(work);
    if (!this.#saturated && this.#queue.length >= slots * 1.5) {
      this.#saturated = true;
      this.#options.onSaturated();
    }
    return true;
  }

  #run(work: Work): void {
    this.#busy++;
    let released = false;
    work.run(() => {
      if (released) return;
      released = true;
      this.#busy--;
      this.#next();
    });
  }

  #next(): void {
    while (this.#busy < this.#options.slots) {
      const work = this.#queue.shift();
      if (work === undefined) break;
      this.#run(work);
    }
    if (this.#saturated && this.#queue.length < this.#options.slots) {
      this.#saturated = false;
      this.#options.onRelieved();
    }
    if (this.#busy < this.#options.slots) this.#options.onFree?.();
  }
}
