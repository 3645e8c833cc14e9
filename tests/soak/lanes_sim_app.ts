/**
 * The socket side of a simulated flow: brings bytes by a script, takes bytes at its pace, and knows every
 * byte that it must see.
 * @module
 */
import type { LaneFlow } from "../../lib/flow/lane_flow.ts";
import type { LaneApp, LaneEnd } from "../../lib/flow/lane_types.ts";
import { encodeHeadPrefix, type FrameHead } from "../../lib/protocol/frames.ts";
import type { Simulation } from "./lanes_sim_net.ts";
import { type FlowKind, Random, type Script } from "./lanes_sim_schedule.ts";

const PERIOD = 65_521;
const LONGEST_READ = 20_000;
const PATTERN = (() => {
  const random = new Random(20_261_201);
  const bytes = new Uint8Array(PERIOD * 2);
  for (let i = 0; i < PERIOD; i++) bytes[i] = bytes[i + PERIOD] = random.whole(0, 255);
  return bytes;
})();
/** What a read brings; overwritten right after it was offered. */
const scratch = new Uint8Array(LONGEST_READ);
const NOTHING = new Uint8Array(0);
const DELIVER_MS = 50;

export interface SimAppOptions {
  readonly simulation: Simulation;
  readonly script: Script;
  readonly kind: FlowKind;
  readonly role: "requester" | "receiver";
  /** Where this end's bytes begin in the pattern: another for each execution. */
  readonly shift: number;
  /** Runs something in this end's process: later while that is stopped, never when it is dead. */
  readonly act: (run: () => void) => void;
  readonly violation: (text: string) => void;
}

/** One end of one flow. */
export class SimApp implements LaneApp {
  readonly #options: SimAppOptions;
  readonly script: Script;
  readonly bornAt: number;
  flow!: LaneFlow;
  /** The other end, once the flow is bound: its bytes are to be seen here. */
  peer: SimApp | null = null;
  /** A receiver's first event is out, or a requester's came. */
  started = false;
  headSent = false;
  headTaken = false;
  /** Bytes that the socket brought; how many of them the flow took. */
  made = 0;
  taken = 0;
  sourceEnded = false;
  /** Bytes that arrived; how many of them the socket took. */
  arrived = 0;
  delivered = 0;
  eofArrived = false;
  end: LaneEnd | null = null;
  endedAt = 0;
  wasReset = false;
  #delivering = false;
  #broken = false;

  constructor(options: SimAppOptions) {
    this.#options = options;
    this.script = options.script;
    this.bornAt = options.simulation.now;
    const { kind, role } = options;
    this.sends = kind !== "http" || role === "receiver";
    this.receives = kind !== "http" || role === "requester";
  }

  readonly sends: boolean;
  readonly receives: boolean;

  /** Bytes that came and are still here. */
  get heldBytes(): number {
    return this.end === null ? this.arrived - this.delivered : 0;
  }

  /** Whether its socket takes nothing at this time. */
  get stopped(): boolean {
    const { now } = this.#options.simulation;
    return this.script.stops.some(({ start, end }) => now >= start && now < end);
  }

  /** Has something that the other end should get. */
  get hasMore(): boolean {
    return this.started && (!this.#needsHead || this.headSent) && this.taken < this.made;
  }

  /** Starts the source's script. */
  run(): void {
    if (!this.sends) {
      // The socket of a client that only listens may still break.
      if (this.script.end === "reset") this.#at(this.script.endAt, () => this.#breaks());
      return;
    }
    for (const { at, bytes } of this.script.pieces) {
      this.#at(at, () => {
        this.made += bytes;
        this.push();
      });
    }
    this.#at(this.script.endAt, () => {
      if (this.script.end === "reset") this.#breaks();
      else {
        this.sourceEnded = true;
        this.push();
      }
    });
  }

  /** A receiver's target has answered, or is connected. */
  start(): void {
    this.started = true;
    if (this.#options.kind === "http") this.#respond();
    else this.flow.established();
    this.opened();
  }

  /** The flow has its peer. */
  opened(): void {
    this.started = true;
    if (this.#broken) this.#breaks();
    else this.push();
  }

  /** Offers what the socket brought. */
  push(): void {
    if (this.end !== null || !this.started || (this.#needsHead && !this.headSent)) return;
    while (this.taken < this.made) {
      const size = this.#read();
      const last = this.sourceEnded && this.taken + size === this.made;
      const got = this.flow.offer(scratch, 0, size, last);
      scratch.fill(0xee, 0, size);
      this.taken += got;
      if (got < size || this.end !== null) return;
    }
    if (this.sourceEnded) this.flow.finish();
  }

  head(head: FrameHead): void {
    if (this.headTaken) this.#options.violation("a second head");
    this.headTaken = true;
    if (this.peer !== null && head.fields.length !== this.peer.script.headBytes) {
      this.#options.violation("the head of another");
    }
  }

  data(bytes: Uint8Array): void {
    const { peer } = this;
    if (this.eofArrived) this.#options.violation("data behind eof");
    if (this.end !== null) this.#options.violation("data behind the end");
    if (peer === null) this.#options.violation("data of nobody");
    else {
      let at = (this.arrived + peer.#options.shift) % PERIOD;
      for (let i = 0; i < bytes.length; i++) {
        if (bytes[i] !== PATTERN[at]) {
          this.#options.violation(`wrong byte at ${this.arrived + i}`);
          break;
        }
        if (++at === PERIOD) at = 0;
      }
    }
    this.arrived += bytes.length;
    this.#deliver();
  }

  eof(): void {
    this.eofArrived = true;
    const { peer } = this;
    if (peer === null || !peer.sourceEnded || this.arrived !== peer.made) {
      this.#options.violation(`eof with ${this.arrived} of ${peer?.made}`);
    }
    this.#deliver();
    if (this.#options.kind === "upload" && this.#options.role === "receiver") this.#whenRead();
  }

  room(): void {
    this.push();
  }

  ended(end: LaneEnd): void {
    if (this.end !== null) this.#options.violation(`a second end ${end.reason}`);
    this.end = end;
    this.endedAt = this.#options.simulation.now;
    if (
      end.reason === "ok" && this.receives && (!this.eofArrived || this.delivered < this.arrived)
    ) {
      this.#options.violation("ok before all was there");
    }
  }

  get #needsHead(): boolean {
    return this.#options.role === "receiver" && this.#options.kind !== "tunnel";
  }

  #respond(): void {
    this.headSent = true;
    const size = this.#read();
    const last = this.sourceEnded && size === this.made - this.taken;
    const head = {
      status: 200,
      reason: NOTHING,
      info: NOTHING,
      fields: PATTERN.subarray(0, this.script.headBytes),
      declaredLength: -1,
    };
    const prefix = encodeHeadPrefix(this.flow.epoch, head, false);
    this.taken += this.flow.respond(prefix, scratch, 0, size, last);
    scratch.fill(0xdd, 0, size);
  }

  /** The target of an upload answers when it has read the request. */
  #whenRead(): void {
    if (this.end !== null || this.headSent || !this.eofArrived || this.heldBytes > 0) return;
    if (this.peer === null) return;
    this.#options.simulation.at(this.#options.simulation.now + 1, () => {
      this.#options.act(() => {
        if (this.end !== null || this.headSent) return;
        this.#respond();
        this.push();
      });
    });
  }

  #read(): number {
    const size = Math.min(LONGEST_READ, this.made - this.taken);
    const at = (this.taken + this.#options.shift) % PERIOD;
    scratch.set(PATTERN.subarray(at, at + size));
    return size;
  }

  #breaks(): void {
    if (this.end !== null) return;
    this.#broken = true;
    // Some clients leave before anyone has answered.
    const early = this.#options.role === "requester" && this.script.headBytes % 2 === 0;
    if (!early && (!this.flow.bound || !this.started)) return;
    this.wasReset = true;
    this.flow.reset("reset");
  }

  /** Gives the socket what it takes now, and comes again for the rest. */
  #deliver(): void {
    if (this.#delivering || this.end !== null || this.heldBytes === 0) return;
    const { simulation } = this.#options;
    const stop = this.script.stops.find(({ start, end }) =>
      simulation.now >= start && simulation.now < end
    );
    if (stop === undefined && this.script.takesPerMs === Infinity) {
      this.#give(this.heldBytes);
      return;
    }
    this.#delivering = true;
    const wait = stop === undefined ? DELIVER_MS : stop.end - simulation.now;
    this.#at(simulation.now + wait - this.bornAt, () => {
      this.#delivering = false;
      if (this.end !== null) return;
      if (stop === undefined) {
        this.#give(Math.min(this.heldBytes, Math.ceil(this.script.takesPerMs * DELIVER_MS)));
      }
      this.#deliver();
    });
  }

  #give(bytes: number): void {
    this.delivered += bytes;
    this.flow.delivered(bytes);
    if (this.#options.kind === "upload" && this.#options.role === "receiver") this.#whenRead();
  }

  #at(ms: number, run: () => void): void {
    const { simulation, act } = this.#options;
    simulation.at(this.bornAt + ms, () => act(run));
  }
}
