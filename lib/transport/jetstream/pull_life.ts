/**
 * What all pullers do about refused pulls: wait longer each time, and give the consumer up in the end.
 * @module
 */
import { backOffMs } from "./back_off.ts";

const FIRST_BACK_OFF_MS = 100;
const MAX_BACK_OFF_MS = 2000;

export interface PullLifeOptions {
  /** After so many refusals in a row the consumer is looked at; a busy one is waited for. */
  readonly mostRefusals: number;
  /** The wait is over: pull again. */
  readonly again: () => void;
  /** The consumer must be looked at. Called once. */
  readonly onGone: (reason: string) => void;
}

/** One for each puller. */
export class PullLife {
  readonly #options: PullLifeOptions;
  #refusals = 0;
  #retry: ReturnType<typeof setTimeout> | undefined;
  #ended = false;

  constructor(options: PullLifeOptions) {
    this.#options = options;
  }

  /** Whether nothing may be pulled: it is over, or backs off. */
  get resting(): boolean {
    return this.#ended || this.#retry !== undefined;
  }

  get ended(): boolean {
    return this.#ended;
  }

  /** A message came: refusals are counted anew. */
  served(): void {
    this.#refusals = 0;
  }

  /** A pull was refused. */
  refused({ kind, text }: { readonly kind: string; readonly text: string }): void {
    const { mostRefusals, again } = this.#options;
    if (++this.#refusals > mostRefusals && kind === "refused") return this.gone(text);
    // Of several pulls that are refused together the first decides.
    if (this.resting) return;
    this.#retry = setTimeout(() => {
      this.#retry = undefined;
      again();
    }, backOffMs(this.#refusals, FIRST_BACK_OFF_MS, MAX_BACK_OFF_MS));
  }

  /** The consumer cannot be used. */
  gone(reason: string): void {
    if (this.#ended) return;
    this.end();
    this.#options.onGone(reason);
  }

  /** Nothing is pulled any more. */
  end(): void {
    this.#ended = true;
    clearTimeout(this.#retry);
    this.#retry = undefined;
  }
}
