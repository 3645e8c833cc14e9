/**
 * Runs the lane engine of one role: gives it a clock, a timer, and the way out to NATS.
 * @module
 */
import { MessageTooLargeError } from "../errors.ts";
import type { Logger } from "../logger.ts";
import type { Transport } from "../transport/types.ts";
import { AwakeClock } from "./lane_awake_clock.ts";
import type { LaneFlow } from "./lane_flow.ts";
import { LaneHost } from "./lane_host.ts";
import {
  type LaneFlowOptions,
  type LaneSizes,
  laneSizes,
  laneTimes,
  type LaneWire,
} from "./lane_types.ts";
import type { MemoryBudget } from "./memory_budget.ts";

/** While there are flows the clock is read at least this often: see {@linkcode AwakeClock}. */
const LONGEST_WAIT_MS = 250;

export interface LaneDriverOptions {
  readonly transport: Transport;
  readonly logger: Logger;
  readonly serviceId: string;
  readonly peerTimeoutMs: number;
  /** FRAME_BYTES. */
  readonly frameBytes: number;
  readonly budget: MemoryBudget;
  /** Subject on which a peer hears of a flow that is not there; null when its id is no subject token. */
  readonly answerSubject: (id: string, serviceId: string) => string | null;
  /** Pings a peer's instance; null for no presence. */
  readonly ping: ((instance: string) => void) | null;
}

/** How one flow reaches its peer. */
export interface FlowSubjects {
  /** Where all frames of this side go. */
  readonly subject: string;
  /** Where this side hears of the flow, as the reply of probes. */
  readonly reply: string;
  /** Publishes the first event, where that is no frame. */
  readonly first?: () => void;
  /** Cancels the execution of an epoch, or with null whatever the pool runs of this id. */
  readonly cancel: (epoch: Uint8Array | null, reason: string) => void;
}

/** Who waits for the transport to take data again. */
export interface Stalled {
  pump(): void;
}

/** What `open` needs besides the wire, which the driver makes. */
export type FlowOptions = Omit<LaneFlowOptions, "wire"> & { readonly subjects: FlowSubjects };

/** One for each role of a process. */
export class LaneDriver {
  readonly #options: LaneDriverOptions;
  readonly #clock = new AwakeClock(() => performance.now());
  readonly host: LaneHost;
  /** Flows that wait for the transport to take data again, in the order in which they came to wait. */
  readonly #stalled = new Set<Stalled>();
  #timer: ReturnType<typeof setTimeout> | undefined;
  #timerAt = Infinity;
  #stopped = false;
  #serving = false;
  /** The flow whose turn it is. */
  #turn: Stalled | null = null;

  constructor(options: LaneDriverOptions) {
    this.#options = options;
    const { transport, serviceId, peerTimeoutMs, budget, answerSubject, ping } = options;
    this.host = new LaneHost({
      serviceId,
      times: laneTimes(peerTimeoutMs),
      budget,
      now: this.#clock.now,
      connected: transport.connected,
      onDue: (at) => this.#arm(at),
      answer: (id, peer, frame) => {
        const subject = answerSubject(id, peer);
        if (subject !== null) transport.publish(subject, [frame]);
      },
      ping,
    });
    transport.onConnection((connected) => {
      this.host.connectionChanged(connected);
      this.#arm(this.host.nextAt);
    });
  }

  /** Opens a flow; null when the budget has no reserve for it (503 with Retry-After). */
  open(options: FlowOptions): LaneFlow | null {
    const wire = new FlowWire(this, this.#options, options);
    const flow = this.host.open({ ...options, wire });
    wire.flow = flow;
    this.#arm(this.host.nextAt);
    return flow;
  }

  /** The sizes for flows with a peer whose server takes messages of `peerMaxMsg` bytes; 0 for unknown. */
  sizes(peerMaxMsg: number): LaneSizes {
    const { transport, frameBytes } = this.#options;
    const own = transport.maxPayload;
    return laneSizes(peerMaxMsg > 0 ? Math.min(own, peerMaxMsg) : own, frameBytes);
  }

  /** An instance has answered a ping. */
  answered(instance: string): void {
    this.host.peers.answered(instance);
  }

  /** Whether data may be published now; else the flow is pumped in its turn, as soon as it may. */
  ready(flow: Stalled | null): boolean {
    const { transport } = this.#options;
    // Who comes while others wait stands behind them: else those who come often would keep them out.
    if (!transport.congested && (this.#stalled.size === 0 || this.#turn === flow)) return true;
    if (flow !== null) {
      this.#stalled.add(flow);
      if (!this.#serving) void this.#serve();
    }
    return false;
  }

  /** Lets the waiting flows publish, one after another, as far as the transport takes it. */
  async #serve(): Promise<void> {
    const { transport } = this.#options;
    this.#serving = true;
    for (;;) {
      if (transport.congested) await transport.drained();
      else await null;
      const flow = this.#stalled.values().next().value;
      if (flow === undefined) break;
      if (transport.congested) continue;
      this.#stalled.delete(flow);
      this.#turn = flow;
      flow.pump();
      await null; // the socket's side offers in the microtask behind this
      this.#turn = null;
    }
    this.#serving = false;
  }

  /** Stops the timer; flows are to be ended before. */
  stop(): void {
    this.#stopped = true;
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }

  #arm(at: number): void {
    if (this.#stopped || (at === Infinity && this.host.size === 0)) return;
    const now = this.#clock.now();
    const due = Math.min(Math.max(at, now), now + LONGEST_WAIT_MS);
    if (this.#timer !== undefined) {
      if (this.#timerAt <= due) return;
      clearTimeout(this.#timer);
    }
    this.#timerAt = due;
    this.#timer = setTimeout(this.#run, due - now);
  }

  readonly #run = (): void => {
    this.#timer = undefined;
    this.host.run();
    this.#arm(this.host.nextAt);
  };
}

/** The wire of one flow. */
class FlowWire implements LaneWire {
  readonly #driver: LaneDriver;
  readonly #transport: Transport;
  readonly #logger: Logger;
  readonly #subjects: FlowSubjects;
  readonly #probeOptions: { readonly reply: string };
  flow: LaneFlow | null = null;

  constructor(
    driver: LaneDriver,
    { transport, logger }: LaneDriverOptions,
    { subjects }: FlowOptions,
  ) {
    this.#driver = driver;
    this.#transport = transport;
    this.#logger = logger;
    this.#subjects = subjects;
    this.#probeOptions = { reply: subjects.reply };
  }

  get ready(): boolean {
    return this.#driver.ready(this.flow);
  }

  publish(parts: readonly Uint8Array[], probe: boolean): void {
    try {
      if (probe) this.#transport.publish(this.#subjects.subject, parts, this.#probeOptions);
      else this.#transport.publish(this.#subjects.subject, parts);
    } catch (error) {
      // The server may take less than at the start of the flow; then the flow ends as one with a gap.
      if (!(error instanceof MessageTooLargeError)) throw error;
      this.#logger.warn("a frame does not fit any more", { detail: error.message });
    }
  }

  first(): void {
    this.#subjects.first?.();
  }

  cancel(epoch: Uint8Array | null, reason: string): void {
    this.#subjects.cancel(epoch, reason);
  }
}
