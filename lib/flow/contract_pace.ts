/**
 * Keeps a session from sending many tiny frames: nats-proxy queues 132 of them for a session and then
 * stops to read its connection, whatever their size (wire-protocol.md section 7).
 * @module
 */
import type { ContractClock } from "./contract_flow_types.ts";
import type { Deadline } from "./deadlines.ts";

/** A frame of at least so many bytes is not tiny. */
const SMALL_BYTES = 4096;
/** So many tiny frames may go in {@linkcode PERIOD_MS}: no dialogue comes near it. */
const MOST_FRAMES = 32;
const PERIOD_MS = 10;

/** Counts tiny frames; what is held back meanwhile gathers in the socket and makes a larger one. */
export class FramePace {
  readonly #clock: ContractClock;
  readonly #onRoom: () => void;
  #period: Deadline | null = null;
  #frames = 0;

  /** @param onRoom called after each period in which something went or was held back */
  constructor(clock: ContractClock, onRoom: () => void) {
    this.#clock = clock;
    this.#onRoom = onRoom;
  }

  /** Whether a frame of `bytes` may go now; if so it is counted. */
  mayGo(bytes: number): boolean {
    if (bytes >= SMALL_BYTES) return true;
    if (this.#period === null) {
      this.#frames = 0;
      this.#period = this.#clock.start(PERIOD_MS, () => {
        this.#period = null;
        this.#onRoom();
      });
    }
    if (this.#frames === MOST_FRAMES) return false;
    this.#frames++;
    return true;
  }

  close(): void {
    this.#period?.cancel();
  }
}
