/**
 * A set for things that come and go with each request.
 *
 * V8 keeps the old tables of a `Map` or `Set` that is used in this way linked to the new ones. Once one
 * of them is old to the collector, all that is entered afterwards, and gone again, survives every minor
 * collection until the next full one.
 * @module
 */

/** Something that can be in one bag at a time. */
export interface BagItem {
  /** Set by the bag alone; -1 outside of it. */
  bagIndex: number;
}

/** Items in no order. */
export class Bag<T extends BagItem> implements Iterable<T> {
  readonly #items: T[] = [];

  get size(): number {
    return this.#items.length;
  }

  /** Adds an item that is in no bag. */
  add(item: T): void {
    item.bagIndex = this.#items.length;
    this.#items.push(item);
  }

  /** Removes an item; does nothing when it is not in the bag. */
  delete(item: T): void {
    const index = item.bagIndex;
    if (this.#items[index] !== item) return;
    const last = this.#items.pop()!;
    if (last !== item) {
      this.#items[index] = last;
      last.bagIndex = index;
    }
    item.bagIndex = -1;
  }

  /** The items that are in the bag now; it may be changed meanwhile. */
  [Symbol.iterator](): IterableIterator<T> {
    return [...this.#items].values();
  }
}
