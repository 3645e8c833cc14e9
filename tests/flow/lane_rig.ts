/**
 * A clock that the test moves, a wire that keeps what was published, and hosts to be driven by hand.
 * @module
 */
import type { LaneFlow } from "../../lib/flow/lane_flow.ts";
import { LaneHost } from "../../lib/flow/lane_host.ts";
import { LaneOutput } from "../../lib/flow/lane_output.ts";
import {
  type LaneApp,
  type LaneEnd,
  type LaneFlowOptions,
  type LaneSizes,
  laneTimes,
  type LaneWire,
} from "../../lib/flow/lane_types.ts";
import { FLOW_RESERVE_BYTES, MemoryBudget } from "../../lib/flow/memory_budget.ts";
import { decodeFrame, type Frame, FrameType } from "../../lib/protocol/frames.ts";
import { concat } from "../helpers/bytes.ts";

export const KIB = 1024;
export const EPOCH = new Uint8Array([1, 2, 3, 4, 5, 6, 7, 8]);
export const OTHER_EPOCH = new Uint8Array([8, 7, 6, 5, 4, 3, 2, 1]);
export const TIMES = laneTimes(15_000);
export const SIZES: LaneSizes = {
  frameBytes: 1000,
  maxMessageBytes: 4000,
  firstWindowBytes: 64 * KIB,
  largestWindowBytes: 256 * KIB,
};

/** Bytes that tell their place. */
export function pattern(from: number, to: number): Uint8Array {
  return Uint8Array.from({ length: to - from }, (_, i) => (from + i) % 251);
}

/** A wire that keeps its frames. */
export class RecordedWire implements LaneWire {
  readonly frames: Frame[] = [];
  readonly calls: string[] = [];
  ready = true;

  publish(parts: readonly Uint8Array[], probe: boolean): void {
    const frame = decodeFrame(concat([...parts]));
    this.frames.push(frame);
    if (probe !== (frame.type === FrameType.Probe)) throw new Error("the mark of probes is wrong");
  }

  first(): void {
    this.calls.push("first");
  }

  cancel(epoch: Uint8Array | null, reason: string): void {
    this.calls.push(`cancel ${epoch === null ? "pool" : "owner"} ${reason}`);
  }

  /** What was published since the last call, in short: `data 0+1000`, `window 5 of 100`. */
  take(): string[] {
    return this.frames.splice(0).map(brief);
  }
}

/** One frame in a few words. */
export function brief(frame: Frame): string {
  switch (frame.type) {
    case FrameType.Data: {
      const kind = frame.head === null ? "data" : "head";
      return `${kind} ${frame.offset}+${frame.body.length}${frame.fin ? " fin" : ""}`;
    }
    case FrameType.Eof:
      return `eof ${frame.offset}${frame.trailers.length > 0 ? " with trailers" : ""}`;
    case FrameType.Close:
      return `close ${frame.offset} ${frame.reason}`;
    case FrameType.Gone:
      return `gone ${frame.reason}`;
    case FrameType.Probe:
      return `probe ${frame.sent} #${frame.serial}`;
    case FrameType.Window: {
      const serial = frame.serial > 0 ? ` #${frame.serial}` : "";
      return `window ${frame.next} of ${frame.limit}${serial}${frame.resend ? " resend" : ""}`;
    }
  }
}

/** An open output with its wire. */
export function recordedOutput(): { wire: RecordedWire; output: LaneOutput } {
  const wire = new RecordedWire();
  return { wire, output: new LaneOutput(wire, "me", EPOCH, true) };
}

/** A socket that notes what it is told. */
export class RecordedApp implements LaneApp {
  readonly seen: string[] = [];
  bytes: Uint8Array = new Uint8Array(0);
  #end: LaneEnd | null = null;

  head(): void {
    this.seen.push("head");
  }

  data(bytes: Uint8Array): void {
    this.seen.push(`data ${bytes.length}`);
    this.bytes = concat([this.bytes, bytes]);
  }

  eof(): void {
    this.seen.push("eof");
  }

  room(): void {
    this.seen.push("room");
  }

  ended(end: LaneEnd): void {
    this.seen.push(`ended ${end.reason}${end.byPeer ? " by peer" : ""}`);
    this.#end = end;
  }

  /** A call, so that the compiler does not take an earlier answer for the last one. */
  end(): LaneEnd | null {
    return this.#end;
  }
}

/** A host with a clock; `pass` moves it and calls the host whenever it wants to be called. */
export class HostRig {
  ms = 1000;
  readonly host: LaneHost;
  readonly budget: MemoryBudget;
  /** Frames for flows that are not there. */
  readonly answers: string[] = [];
  readonly pings: string[] = [];
  dueAt = Infinity;

  constructor(options: { maxFlows?: number; sharedBytes?: number; pings?: boolean } = {}) {
    const maxFlows = options.maxFlows ?? 4;
    const totalBytes = maxFlows * FLOW_RESERVE_BYTES + (options.sharedBytes ?? 1024 * KIB);
    this.budget = new MemoryBudget({ totalBytes, maxFlows });
    this.host = new LaneHost({
      serviceId: "me",
      times: TIMES,
      budget: this.budget,
      now: () => this.ms,
      connected: true,
      onDue: (at) => this.dueAt = at,
      answer: (id, serviceId, frame) =>
        this.answers.push(`${id} ${serviceId} ${brief(decodeFrame(frame))}`),
      ping: options.pings === true ? (instance) => this.pings.push(instance) : null,
    });
  }

  /** Moves the clock by `ms`, with all that is due on the way. */
  pass(ms: number): void {
    const end = this.ms + ms;
    for (let i = 0; this.host.nextAt <= end; i++) {
      if (i > 10_000) throw new Error("the host wants to be called without end");
      this.ms = Math.max(this.ms, this.host.nextAt);
      this.host.run();
    }
    this.ms = end;
  }

  open(options: Partial<LaneFlowOptions> = {}): OpenFlow {
    const app = new RecordedApp();
    const wire = new RecordedWire();
    const flow = this.host.open({
      id: "f",
      role: "receiver",
      epoch: options.role === "requester" ? null : EPOCH,
      sends: true,
      receives: true,
      responseHead: false,
      closeBy: "lane",
      limit: 10_000,
      answerTimeoutMs: 30_000,
      sizes: SIZES,
      app,
      wire,
      ...options,
    });
    if (flow === null) throw new Error("no reserve for the flow");
    return { app, wire, flow };
  }

  /** A requester's flow, bound to `EPOCH`, that may send `limit`. */
  openBound(options: Partial<LaneFlowOptions> = {}, limit = 10_000): OpenFlow {
    const opened = this.open({ role: "requester", epoch: null, ...options });
    const first = { epoch: EPOCH, instance: "peer", limit, whole: false };
    this.host.first(opened.flow.id, "peer", first);
    opened.wire.take();
    return opened;
  }
}

export interface OpenFlow {
  readonly app: RecordedApp;
  readonly wire: RecordedWire;
  readonly flow: LaneFlow;
}

/** Frames as they would come. */
export const frames = {
  data: (offset: number, body: Uint8Array, fin = false): Frame => (
    { type: FrameType.Data, epoch: EPOCH, offset, fin, head: null, body }
  ),
  head: (body: Uint8Array, fin = false): Frame => ({
    type: FrameType.Data,
    epoch: EPOCH,
    offset: 0,
    fin,
    head: { status: 200, reason: NOTHING, info: NOTHING, fields: NOTHING, declaredLength: -1 },
    body,
  }),
  eof: (offset: number): Frame => (
    { type: FrameType.Eof, epoch: EPOCH, offset, trailers: NOTHING }
  ),
  close: (offset: number, reason: string): Frame => (
    { type: FrameType.Close, epoch: EPOCH, offset, reason }
  ),
  gone: (reason: string): Frame => ({ type: FrameType.Gone, epoch: EPOCH, reason }),
  probe: (sent: number, serial: number, epoch = EPOCH): Frame => (
    { type: FrameType.Probe, epoch, sent, serial, serviceId: "peer" }
  ),
  window: (next: number, limit: number, serial = 0, resend = false): Frame => (
    { type: FrameType.Window, epoch: EPOCH, next, limit, serial, resend }
  ),
};

const NOTHING = new Uint8Array(0);
