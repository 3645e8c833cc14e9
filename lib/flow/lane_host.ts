/**
 * All flows with lanes of one role of a process: finds the flow of a frame, answers for those that are
 * not there, and knows when to be called.
 * @module
 */
import { encodeGone, encodeWindow, type Frame, FrameType, sameBytes } from "../protocol/frames.ts";
import { hex } from "../protocol/hex.ts";
import { EndedFlows } from "./lane_ended.ts";
import { LaneFlow } from "./lane_flow.ts";
import { LanePeers } from "./lane_peers.ts";
import { LaneSchedule, type Scheduled } from "./lane_schedule.ts";
import type { FirstEvent, LaneFlowOptions, LaneTimes } from "./lane_types.ts";
import type { MemoryBudget } from "./memory_budget.ts";

/** Ended flows that are remembered at most. */
const MOST_REMEMBERED = 65_536;

export interface LaneHostOptions {
  readonly serviceId: string;
  readonly times: LaneTimes;
  readonly budget: MemoryBudget;
  /**
   * A clock in ms that stands while the process does: see {@linkcode AwakeClock}. All times of the engine
   * are of this clock.
   */
  readonly now: () => number;
  readonly connected: boolean;
  /** `run` is wanted at this time, earlier than was said before. */
  readonly onDue: (at: number) => void;
  /** Publishes a frame to who asked about a flow that is not there. */
  readonly answer: (id: string, serviceId: string, frame: Uint8Array) => void;
  /** Pings a peer's instance; null for no presence. */
  readonly ping: ((instance: string) => void) | null;
}

/** What becomes of a flow that ended. */
interface Remembered {
  readonly next: number;
  readonly reason: string;
  readonly remember: boolean;
}

/** One for each role. Ids are looked up first, epochs in the flow: two executions may share an id. */
export class LaneHost {
  readonly #options: LaneHostOptions;
  readonly #flows = new Map<string, LaneFlow[]>();
  readonly #ended: EndedFlows;
  readonly schedule: LaneSchedule;
  readonly peers: LanePeers;
  readonly #downClock: Scheduled;
  #size = 0;
  #connected: boolean;
  #disconnectedAt = 0;

  constructor(options: LaneHostOptions) {
    this.#options = options;
    this.#connected = options.connected;
    this.#disconnectedAt = options.now();
    this.schedule = new LaneSchedule(options.onDue);
    this.#ended = new EndedFlows(options.times.rememberMs, MOST_REMEMBERED);
    this.peers = new LanePeers({
      now: options.now,
      times: options.times,
      schedule: this.schedule,
      connected: () => this.#connected,
      ping: options.ping,
    });
    this.#downClock = { queuedAt: Infinity, heapIndex: -1, run: () => this.#checkDown() };
    if (!this.#connected) this.schedule.set(this.#downClock, this.#downAt);
  }

  get serviceId(): string {
    return this.#options.serviceId;
  }

  get times(): LaneTimes {
    return this.#options.times;
  }

  get budget(): MemoryBudget {
    return this.#options.budget;
  }

  get now(): () => number {
    return this.#options.now;
  }

  get connected(): boolean {
    return this.#connected;
  }

  /** Live flows, with those that still have to tell their peer of their end. */
  get size(): number {
    return this.#size;
  }

  /** Ended flows that are remembered. */
  get remembered(): number {
    return this.#ended.size;
  }

  /** The time at which `run` has something to do, or Infinity. */
  get nextAt(): number {
    return this.schedule.nextAt;
  }

  /** Opens a flow; null when the budget has no reserve for it (503 with Retry-After). */
  open(options: LaneFlowOptions): LaneFlow | null {
    if (!this.budget.open()) return null;
    const flow = new LaneFlow(this, options);
    const others = this.#flows.get(options.id);
    if (others === undefined) this.#flows.set(options.id, [flow]);
    else others.push(flow);
    this.#size++;
    this.schedule.set(flow, flow.dueAt);
    if (!this.#connected) this.schedule.set(this.#downClock, this.#downAt);
    return flow;
  }

  /** Calls all that is due. */
  run(): void {
    this.schedule.run(this.now());
  }

  /** The connection to NATS came or went. */
  connectionChanged(connected: boolean): void {
    if (connected === this.#connected) return;
    this.#connected = connected;
    if (!connected) {
      this.#disconnectedAt = this.now();
      this.schedule.set(this.#downClock, this.#downAt);
    }
    for (const flow of this.#all()) flow.connectionChanged(connected);
    if (connected) this.peers.reconnected();
  }

  /**
   * A first event for a requester, and every repeat. `taken`: it is of the flow that waited for it, or
   * is bound to its epoch; a HEAD frame goes to `receive` then. `cancel`: that execution is to be
   * cancelled, at the owner that the event names and for its epoch.
   */
  first(id: string, serviceId: string, event: FirstEvent): "taken" | "dropped" | "cancel" {
    const flow = this.#flows.get(id)?.[0];
    if (flow?.first(event) === true) return "taken";
    if (event.whole) return "dropped";
    const ended = this.#ended.get(keyOf(id, event.epoch), this.now());
    if (ended === null || ended.reason !== "") return "cancel";
    this.#answerWindow(id, serviceId, event.epoch, ended.next, 0);
    return "dropped";
  }

  /** Takes a frame for the flow `id`. Views, good until this returns. */
  receive(id: string, frame: Frame): void {
    const flows = this.#flows.get(id);
    if (flows !== undefined) {
      for (const flow of flows) {
        if (!flow.bound) {
          flow.receive(frame);
          return; // a requester without owner says nothing, to nobody
        }
        if (sameBytes(flow.epoch, frame.epoch)) {
          flow.receive(frame);
          return;
        }
      }
    }
    if (frame.type !== FrameType.Probe) return;
    const ended = this.#ended.get(keyOf(id, frame.epoch), this.now());
    if (ended !== null && ended.reason === "") {
      this.#answerWindow(id, frame.serviceId, frame.epoch, ended.next, frame.serial);
    } else {
      const reason = ended?.reason ?? "gone";
      this.#answer(id, frame.serviceId, encodeGone(frame.epoch, reason));
    }
  }

  /** A cancel for a receiver: of one execution, or with null of all of this id. False: there is none. */
  cancel(id: string, epoch: Uint8Array | null, reason: string): boolean {
    let found = false;
    for (const flow of [...this.#flows.get(id) ?? []]) {
      if (epoch !== null && !sameBytes(flow.epoch, epoch)) continue;
      found = true;
      flow.canceled(reason);
    }
    return found;
  }

  /** Only for {@linkcode LaneFlow}: it is over. */
  forget(flow: LaneFlow, { next, reason, remember }: Remembered): void {
    const flows = this.#flows.get(flow.id);
    const at = flows?.indexOf(flow) ?? -1;
    if (flows === undefined || at < 0) return;
    if (flows.length === 1) this.#flows.delete(flow.id);
    else flows.splice(at, 1);
    this.#size--;
    this.budget.close();
    if (remember) this.#ended.add(keyOf(flow.id, flow.epoch), { next, reason }, this.now());
  }

  get #downAt(): number {
    return this.#connected ? Infinity : this.#disconnectedAt + this.times.peerTimeoutMs;
  }

  #checkDown(): void {
    if (this.now() < this.#downAt) {
      this.schedule.set(this.#downClock, this.#downAt);
      return;
    }
    for (const flow of this.#all()) flow.lost("nats_down");
  }

  #answerWindow(
    id: string,
    serviceId: string,
    epoch: Uint8Array,
    next: number,
    serial: number,
  ): void {
    this.#answer(id, serviceId, encodeWindow(epoch, next, next, serial));
  }

  #answer(id: string, serviceId: string, frame: Uint8Array): void {
    if (this.#connected) this.#options.answer(id, serviceId, frame);
  }

  #all(): LaneFlow[] {
    return [...this.#flows.values()].flat();
  }
}

function keyOf(id: string, epoch: Uint8Array): string {
  return `${id} ${hex(epoch)}`;
}
