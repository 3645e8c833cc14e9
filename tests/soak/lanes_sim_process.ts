/**
 * A simulated process: one lane host, its connection, its pauses and its death.
 * @module
 */
import { LaneHost } from "../../lib/flow/lane_host.ts";
import type { LaneFlow } from "../../lib/flow/lane_flow.ts";
import type { LaneTimes, LaneWire } from "../../lib/flow/lane_types.ts";
import { MemoryBudget } from "../../lib/flow/memory_budget.ts";
import { decodeFrame, FrameFlag, FrameType } from "../../lib/protocol/frames.ts";
import type { SimApp } from "./lanes_sim_app.ts";
import type { Link, Message, Simulation, Station } from "./lanes_sim_net.ts";
import { FIRST_WINDOW_BYTES, FRAME_BYTES, LARGEST_WINDOW_BYTES } from "./lanes_sim_schedule.ts";

export const SIZES = {
  frameBytes: FRAME_BYTES,
  maxMessageBytes: FRAME_BYTES + 4096,
  firstWindowBytes: FIRST_WINDOW_BYTES,
  largestWindowBytes: LARGEST_WINDOW_BYTES,
};
/** So much may wait for the kernel before data has to. */
const CONGESTED_BYTES = 2 * FRAME_BYTES;
const DRAIN_MS = 2;
/** A step of the process's clock that counts in full, as in `AwakeClock`. */
const LONGEST_STEP_MS = 500;

/** Ways to break a rule, to see that the checks notice. */
export interface Mutation {
  /** Changes or drops a frame on its way out; null drops it. */
  readonly frame?: (bytes: Uint8Array, sentBefore: boolean) => Uint8Array | null;
  readonly times?: Partial<LaneTimes>;
  /** First events that are no frames are sent once. */
  readonly firstOnce?: boolean;
  /** All executions have one epoch. */
  readonly oneEpoch?: boolean;
  /** Added to every budget that the engine gets. */
  readonly extraBudget?: number;
}

export interface SimProcessOptions {
  readonly index: number;
  readonly simulation: Simulation;
  readonly link: Link;
  readonly stations: readonly SimProcess[];
  readonly times: LaneTimes;
  readonly budgetBytes: number;
  readonly maxFlows: number;
  readonly mutation: Mutation;
  readonly onRequest: (process: SimProcess, id: string, window: number) => void;
  readonly violation: (text: string) => void;
}

/** Process 0 is the requester, 1 and 2 are receivers. */
export class SimProcess implements Station {
  readonly #options: SimProcessOptions;
  readonly index: number;
  readonly host: LaneHost;
  readonly budget: MemoryBudget;
  readonly apps: SimApp[] = [];
  dead = false;
  linked = true;
  #pausedAt = -1;
  #stoodMs = 0;
  #wakeAt = Infinity;
  #wakes = 0;
  #pendingBytes = 0;
  #wokenAt = -1;
  #queue: (() => void)[] = [];
  readonly #canceled = new Set<string>();
  readonly #seen = new Set<string>();

  constructor(options: SimProcessOptions) {
    this.#options = options;
    this.index = options.index;
    const { budgetBytes, maxFlows, mutation, simulation } = options;
    const totalBytes = budgetBytes + (mutation.extraBudget ?? 0);
    this.budget = new MemoryBudget({ totalBytes, maxFlows });
    this.host = new LaneHost({
      serviceId: `p${options.index}`,
      times: { ...options.times, ...mutation.times },
      budget: this.budget,
      now: () => simulation.now - this.#stoodMs,
      connected: true,
      onDue: (at) => this.#wake(at),
      answer: (id, serviceId, frame) => {
        const to = this.#options.stations[Number(serviceId.slice(1))]!;
        this.#sendFrame(to, id, [frame], 0);
      },
      ping: (instance) => {
        const to = this.#options.stations[Number(instance.slice(1))]!;
        this.send(to, { kind: "ping" });
      },
    });
  }

  /** Memory of all flows here: what may be sent again, and what the sockets have not taken. */
  get memoryBytes(): number {
    let bytes = 0;
    for (const app of this.apps) {
      if (app.end !== null && app.flow.keptBytes === 0) continue;
      bytes += app.flow.keptBytes + app.heldBytes;
    }
    return bytes;
  }

  get paused(): boolean {
    return this.#pausedAt >= 0;
  }

  send(to: Station, message: Message): void {
    this.#options.link.send(this, to, message);
  }

  /** Runs something in this process: later while it is stopped, never when it is dead. */
  act(run: () => void): void {
    if (this.dead) return;
    if (this.paused) this.#queue.push(run);
    else run();
  }

  /** The wire of a flow towards the process that `peer` names, null for none yet. */
  wire(id: string, peer: () => SimProcess | null, flow: () => LaneFlow): LaneWire {
    const { mutation, stations } = this.#options;
    let firsts = 0;
    const isReady = () => this.#pendingBytes < CONGESTED_BYTES;
    return {
      get ready() {
        return isReady();
      },
      publish: (parts) => {
        const to = peer();
        if (to === null) this.#options.violation("published without a peer");
        else this.#sendFrame(to, id, parts, flow().limit);
      },
      first: () => {
        const to = peer();
        if (to === null || (mutation.firstOnce === true && firsts++ > 0)) return;
        this.send(to, { kind: "first", id, epoch: flow().epoch, limit: flow().limit });
      },
      cancel: (epoch) => {
        const to = peer();
        if (epoch === null) {
          for (const one of stations) {
            if (one !== this) this.send(one, { kind: "cancel", id, epoch });
          }
        } else if (to !== null) this.send(to, { kind: "cancel", id, epoch });
      },
    };
  }

  pause(): void {
    if (!this.dead && !this.paused) this.#pausedAt = this.#options.simulation.now;
  }

  resume(): void {
    if (!this.paused) return;
    const stood = this.#options.simulation.now - this.#pausedAt;
    this.#pausedAt = -1;
    this.#stoodMs += Math.max(0, stood - LONGEST_STEP_MS);
    if (this.dead) return;
    // Timers that were due fire before the first message is read.
    this.host.run();
    for (const run of this.#queue.splice(0)) run();
    this.#wake(this.host.nextAt);
  }

  die(): void {
    this.dead = true;
    this.#queue = [];
  }

  connect(connected: boolean): void {
    if (this.linked === connected) return;
    this.linked = connected;
    this.act(() => this.host.connectionChanged(this.linked));
  }

  deliver(from: SimProcess, message: Message): void {
    if (this.linked) this.act(() => this.#take(from, message));
  }

  #take(from: SimProcess, message: Message): void {
    switch (message.kind) {
      case "ping":
        this.send(from, { kind: "pong" });
        return;
      case "pong":
        this.host.peers.answered(`p${from.index}`);
        return;
      case "request":
        if (!this.#canceled.has(message.id)) {
          this.#options.onRequest(this, message.id, message.window);
        }
        return;
      case "cancel":
        if (message.epoch === null) this.#canceled.add(message.id);
        if (this.index > 0) this.host.cancel(message.id, message.epoch, "canceled");
        return;
      case "first":
        this.#first(from, message.id, message.epoch, message.limit, false);
        return;
      case "frame":
        this.#frame(from, message);
    }
  }

  #frame(from: SimProcess, message: Extract<Message, { kind: "frame" }>): void {
    const frame = decodeFrame(message.bytes);
    if (this.index === 0 && frame.type === FrameType.Data && frame.head !== null) {
      if (!this.#first(from, message.id, frame.epoch, message.limit, frame.fin)) return;
    }
    this.host.receive(message.id, frame);
  }

  #first(from: SimProcess, id: string, epoch: Uint8Array, limit: number, whole: boolean): boolean {
    const app = this.apps[Number(id)];
    const waited = app !== undefined && app.end === null && !app.flow.bound;
    if (waited) app.peer = from.appOf(id, epoch);
    const event = { epoch, instance: `p${from.index}`, limit, whole };
    const outcome = this.host.first(id, `p${from.index}`, event);
    if (outcome === "cancel") this.send(from, { kind: "cancel", id, epoch: epoch.slice() });
    if (waited && outcome === "taken") app.opened();
    return outcome === "taken";
  }

  /** The end of an execution here. */
  appOf(id: string, epoch: Uint8Array): SimApp | null {
    return this.apps.find((app) =>
      app.flow.id === id && app.flow.epoch.every((octet, i) => octet === epoch[i])
    ) ?? null;
  }

  /** The kernel takes what was published; who waited for that goes on. */
  #drain(): void {
    this.#pendingBytes = 0;
    for (const { end, flow } of this.apps) if (end === null || flow.keptBytes > 0) flow.pump();
  }

  #sendFrame(to: SimProcess, id: string, parts: readonly Uint8Array[], limit: number): void {
    let size = 0;
    for (const part of parts) size += part.length;
    const bytes: Uint8Array = new Uint8Array(size);
    let at = 0;
    for (const part of parts) {
      bytes.set(part, at);
      at += part.length;
    }
    if (this.#pendingBytes === 0) {
      const { simulation } = this.#options;
      simulation.at(simulation.now + DRAIN_MS, () => this.act(() => this.#drain()));
    }
    this.#pendingBytes += size;
    const isData = bytes[0] === FrameType.Data;
    const sent = this.#mutated(id, bytes);
    if (sent === null) return;
    const bodyBytes = isData ? parts[1]!.length : 0;
    this.send(to, { kind: "frame", id, bytes: sent, bodyBytes, limit });
  }

  #mutated(id: string, bytes: Uint8Array): Uint8Array | null {
    const { frame } = this.#options.mutation;
    if (frame === undefined) return bytes;
    const head = bytes[0] === FrameType.Data && (bytes[1]! & FrameFlag.Head) !== 0;
    const key = `${id} ${bytes[0]} ${head} ${bytes.subarray(2, 18).join()}`;
    const before = this.#seen.has(key);
    this.#seen.add(key);
    return frame(bytes, before);
  }

  #wake(at: number): void {
    if (at === Infinity) return;
    const { simulation, violation } = this.#options;
    // A little late, as timers are; so no rounding makes it early.
    const real = Math.max(simulation.now, at + this.#stoodMs) + 0.001;
    if (real >= this.#wakeAt) return;
    this.#wakeAt = real;
    simulation.at(real, () => {
      if (this.#wakeAt !== real || this.dead) return;
      this.#wakeAt = Infinity;
      if (this.paused) return;
      this.#wakes = simulation.now - this.#wokenAt < 0.01 ? this.#wakes + 1 : 0;
      this.#wokenAt = simulation.now;
      if (this.#wakes > 2000) {
        violation("spins");
        this.dead = true;
        return;
      }
      this.host.run();
      this.#wake(this.host.nextAt);
    });
  }
}
