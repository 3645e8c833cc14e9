/**
 * A map by id for what comes and goes with each request; see `bag.ts` for why it is no `Map`.
 * @module
 */

const SMALLEST = 256;
/** Peers choose ids: with a secret start they cannot choose ones that meet in one place. */
const seed = crypto.getRandomValues(new Uint32Array(1))[0]! | 1;

function hash(id: string): number {
  let value = seed;
  for (let i = 0; i < id.length; i++) value = Math.imul(value ^ id.charCodeAt(i), 0x01000193);
  return value ^ (value >>> 15);
}

/** Values by id, in no order. Open addressing with linear probing; nothing of a deleted one stays. */
export class IdTable<T> {
  #ids: (string | null)[] = new Array<string | null>(SMALLEST).fill(null);
  #values: (T | null)[] = new Array<T | null>(SMALLEST).fill(null);
  #size = 0;

  get size(): number {
    return this.#size;
  }

  get(id: string): T | undefined {
    return this.#values[this.#find(id)] ?? undefined;
  }

  set(id: string, value: T): void {
    let at = this.#find(id);
    if (this.#ids[at] === null) {
      if (this.#size * 2 >= this.#ids.length) {
        this.#resize(this.#ids.length * 2);
        at = this.#find(id);
      }
      this.#ids[at] = id;
      this.#size++;
    }
    this.#values[at] = value;
  }

  delete(id: string): void {
    let hole = this.#find(id);
    if (this.#ids[hole] === null) return;
    this.#size--;
    const mask = this.#ids.length - 1;
    // What was put behind its own place because of this entry moves up.
    for (let at = (hole + 1) & mask; this.#ids[at] !== null; at = (at + 1) & mask) {
      const home = hash(this.#ids[at]!) & mask;
      if (((at - home) & mask) < ((at - hole) & mask)) continue;
      this.#ids[hole] = this.#ids[at]!;
      this.#values[hole] = this.#values[at]!;
      hole = at;
    }
    this.#ids[hole] = null;
    this.#values[hole] = null;
    // Much later than it grew: the number of flows swings.
    if (this.#size * 64 < this.#ids.length && this.#ids.length > SMALLEST) {
      this.#resize(this.#ids.length / 4);
    }
  }

  /** The values that are in the table now; it may be changed meanwhile. */
  values(): T[] {
    return this.#values.filter((value) => value !== null);
  }

  /** Where `id` is, or where it would go. */
  #find(id: string): number {
    const mask = this.#ids.length - 1;
    let at = hash(id) & mask;
    while (this.#ids[at] !== null && this.#ids[at] !== id) at = (at + 1) & mask;
    return at;
  }

  #resize(length: number): void {
    const ids = this.#ids;
    const values = this.#values;
    this.#ids = new Array<string | null>(length).fill(null);
    this.#values = new Array<T | null>(length).fill(null);
    for (let i = 0; i < ids.length; i++) {
      const id = ids[i]!;
      if (id === null) continue;
      const at = this.#find(id);
      this.#ids[at] = id;
      this.#values[at] = values[i]!;
    }
  }
}
