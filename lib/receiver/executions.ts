/**
 * What a receiver is carrying out, by request id, and the cancels that came before their request.
 * @module
 */
import type { FlowError } from "../errors.ts";
import { IdTable } from "../flow/id_table.ts";
import { hex } from "../protocol/hex.ts";
import type { Inbound } from "../transport/types.ts";

/** One execution of one request. */
export interface Execution {
  readonly id: string;
  readonly epoch: Uint8Array;
  /** The requester wants no more of it. */
  cancel(reason: string): void;
  /** This process wants no more of it: the requester is told. */
  stop(failure: FlowError): void;
  /** A grant of incremental credit came. */
  credit(bytes: number): void;
  /** Keeps it from the time limit that its requester may have. */
  keepAlive(): void;
  /** Takes a message of the plane for client bytes; false when it is not in the contract's form. */
  receive(message: Inbound): boolean;
  /** The connection to NATS broke: what was under way in the contract's form may have been lost. */
  linkLost(): void;
}

/** Ids that are remembered at most. */
const MAX_REMEMBERED = 10_000;

/** Everything under way, and what must not begin. */
export class Executions {
  readonly #running = new IdTable<Execution[]>();
  /** Cancelled before they came: id to `performance.now()` until which it counts. */
  readonly #cancelled = new Map<string, number>();
  readonly #rememberMs: number;
  #size = 0;

  /** @param rememberMs how long a cancel for an unknown id is remembered */
  constructor(rememberMs: number) {
    this.#rememberMs = rememberMs;
  }

  get size(): number {
    return this.#size;
  }

  /** All executions of an id, with any epoch. */
  get(id: string): readonly Execution[] {
    return this.#running.get(id) ?? NONE;
  }

  *all(): Iterable<Execution> {
    for (const executions of this.#running.values()) yield* executions;
  }

  add(execution: Execution): void {
    const before = this.#running.get(execution.id);
    if (before === undefined) this.#running.set(execution.id, [execution]);
    else before.push(execution);
    this.#size++;
  }

  remove(execution: Execution): void {
    const executions = this.#running.get(execution.id);
    const index = executions?.indexOf(execution) ?? -1;
    if (executions === undefined || index < 0) return;
    executions.splice(index, 1);
    if (executions.length === 0) this.#running.delete(execution.id);
    this.#size--;
  }

  /**
   * Ends the executions of an id: all, or the one with that epoch (hex). Remembers a cancel that
   * found none.
   */
  cancel(id: string, epoch: string | null, reason: string): void {
    const found = this.get(id).filter((one) => epoch === null || hex(one.epoch) === epoch);
    if (found.length === 0 && epoch === null) this.#remember(id);
    for (const execution of found) execution.cancel(reason);
  }

  /** Whether a request was cancelled before it came; asking forgets it. */
  wasCancelled(id: string): boolean {
    if (this.#cancelled.size === 0) return false;
    const until = this.#cancelled.get(id);
    if (until === undefined) return false;
    this.#cancelled.delete(id);
    return until >= performance.now();
  }

  #remember(id: string): void {
    const now = performance.now();
    // The oldest come first: all are remembered equally long.
    for (const [oldId, until] of this.#cancelled) {
      if (until >= now && this.#cancelled.size < MAX_REMEMBERED) break;
      this.#cancelled.delete(oldId);
    }
    this.#cancelled.delete(id); // so that it moves to the end
    this.#cancelled.set(id, now + this.#rememberMs);
  }
}

const NONE: readonly Execution[] = [];
