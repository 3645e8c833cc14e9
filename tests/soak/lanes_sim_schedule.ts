/**
 * Seeded schedules for the simulation of lanes: what a link, a process and a socket may do, by classes.
 * @module
 */

export const KIB = 1024;
/** PEER_TIMEOUT of the simulation, in ms. */
export const PEER_TIMEOUT_MS = 15_000;
/** Sizes are a sixteenth of the real ones but for the reserve, so that bytes cost little. */
export const FRAME_BYTES = 16 * KIB;
export const FIRST_WINDOW_BYTES = 64 * KIB;
export const LARGEST_WINDOW_BYTES = 256 * KIB;
const FLOW_RESERVE = 16 * KIB;

export const CLASSES = [
  "clean",
  "loss",
  "burst",
  "outage",
  "oneway",
  "leafout",
  "restart",
  "pause",
  "death",
  "slow",
  "second",
  "open",
  "budget",
  "mess",
  "slowlink",
  "close",
  "laneout",
  "dups",
  "stuck",
  "poor",
  "head",
  "big",
] as const;
export type ScheduleClass = typeof CLASSES[number];

export interface Span {
  readonly start: number;
  readonly end: number;
}

export interface Schedule {
  readonly class: ScheduleClass;
  loss: number;
  duplicate: number;
  /** A second copy between 5 and 45 s later. */
  lateDuplicate: number;
  reorder: number;
  reorderMs: number;
  delayMinMs: number;
  delayMaxMs: number;
  /** 0 for no limit. */
  bytesPerMs: number;
  /** Peers answer pings. */
  presence: boolean;
  /** Nothing gets through: from the requester (1), to it (2); `lanesOnly`: pings do. */
  outages: (Span & { directions: number; lanesOnly: boolean })[];
  disconnects: (Span & { process: number })[];
  pauses: (Span & { process: number })[];
  deaths: { process: number; at: number }[];
  /** The request is executed twice: by this process as well; 0 for not. */
  second: number;
  flows: number;
  /** Budgets of the requester and the two receivers. */
  budgets: number[];
  answerTimeoutMs: number;
  horizonMs: number;
  /** Data frames over 8000 bytes are lost for good: from the requester (1), to it (2). */
  largeLost: number;
}

export type FlowKind = "tunnel" | "http" | "upload";

/** What one end of a flow does. */
export interface Script {
  /** Bytes that the socket brings, at times since the flow began there. */
  readonly pieces: { at: number; bytes: number }[];
  readonly endAt: number;
  readonly end: "eof" | "reset";
  /** Bytes that the socket takes in a ms. */
  readonly takesPerMs: number;
  /** It takes nothing in these. */
  readonly stops: Span[];
  readonly headBytes: number;
}

/** mulberry32: small, fast, good enough to make cases. */
export class Random {
  #state: number;
  constructor(seed: number) {
    this.#state = seed >>> 0;
  }

  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(this.#state ^ (this.#state >>> 15), 1 | this.#state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  }

  between(low: number, high: number): number {
    return low + this.next() * (high - low);
  }

  whole(low: number, high: number): number {
    return Math.floor(this.between(low, high + 1));
  }

  chance(probability: number): boolean {
    return this.next() < probability;
  }
}

function quiet(name: ScheduleClass): Schedule {
  return {
    class: name,
    loss: 0,
    duplicate: 0,
    lateDuplicate: 0,
    reorder: 0,
    reorderMs: 100,
    delayMinMs: 0,
    delayMaxMs: 200,
    bytesPerMs: 0,
    presence: false,
    outages: [],
    disconnects: [],
    pauses: [],
    deaths: [],
    second: 0,
    flows: 1,
    budgets: [4096 * KIB, 4096 * KIB, 4096 * KIB],
    answerTimeoutMs: 30_000,
    horizonMs: 150_000,
    largeLost: 0,
  };
}

type Fill = (s: Schedule, r: Random) => void;

function outage(s: Schedule, r: Random, directions: number, ms: number): void {
  const start = r.between(0, 30_000);
  s.outages.push({ start, end: start + ms, directions, lanesOnly: false });
}

function mostlyShort(r: Random): number {
  return r.chance(0.6) ? r.between(1000, 12_000) : r.between(1000, 60_000);
}

function pause(s: Schedule, r: Random, ms: number): void {
  const start = r.between(0, 25_000);
  s.pauses.push({ process: r.whole(0, 1), start, end: start + ms });
}

function disconnect(s: Schedule, r: Random, process: number, ms: number): void {
  const start = r.between(0, 30_000);
  s.disconnects.push({ process, start, end: start + ms });
}

const FILL: Readonly<Record<ScheduleClass, Fill>> = {
  clean: () => {},
  slow: () => {},
  close: () => {},
  loss: (s, r) => s.loss = r.chance(0.5) ? 0.01 : r.between(0, 0.2),
  burst: (s, r) => {
    for (let i = r.whole(1, 8); i > 0; i--) outage(s, r, r.whole(1, 3), r.between(5, 800));
  },
  outage: (s, r) => outage(s, r, 3, mostlyShort(r)),
  oneway: (s, r) => outage(s, r, r.whole(1, 2), mostlyShort(r)),
  leafout: (s, r) => {
    for (let i = r.whole(1, 2); i > 0; i--) {
      const ms = r.chance(0.7) ? r.between(500, 11_000) : r.between(1000, 60_000);
      disconnect(s, r, r.whole(0, 1), ms);
    }
  },
  restart: (s, r) => {
    // The server goes: both lose their connection, and come back each in its time.
    const start = r.between(0, 30_000);
    const ms = r.between(200, 9000);
    for (const process of [0, 1]) {
      const end = start + ms + r.between(0, 2500);
      s.disconnects.push({ process, start: start + r.between(0, 50), end });
    }
    s.loss = r.chance(0.3) ? 0.01 : 0;
  },
  pause: (s, r) => pause(s, r, mostlyShort(r)),
  death: (s, r) => {
    s.deaths.push({ process: r.whole(0, 1), at: r.between(0, 30_000) });
  },
  second: (s, r) => {
    s.second = r.chance(0.5) ? 1 : 2;
    s.loss = r.chance(0.5) ? 0.1 : 0;
    if (r.chance(0.3)) s.deaths.push({ process: 1, at: r.between(0, 5000) });
  },
  open: (s, r) => {
    s.loss = r.between(0, 0.35);
    s.answerTimeoutMs = r.chance(0.5) ? r.between(500, 4000) : 30_000;
    if (!r.chance(0.4)) return;
    const start = r.between(0, 3000);
    const end = start + r.between(500, 11_000);
    s.outages.push({ start, end, directions: r.whole(1, 3), lanesOnly: false });
  },
  budget: (s, r) => {
    s.flows = r.whole(4, 16);
    const more = () => r.chance(0.5) ? 0 : r.between(0, 512 * KIB);
    s.budgets = [0, 1, 2].map(() => s.flows * FLOW_RESERVE + Math.floor(more()));
    s.loss = r.chance(0.5) ? 0 : 0.02;
    s.delayMinMs = 0;
    s.delayMaxMs = r.chance(0.5) ? 5 : 40;
    s.horizonMs = 500_000;
  },
  mess: (s, r) => {
    s.loss = r.between(0, 0.3);
    s.duplicate = r.between(0, 0.3);
    s.lateDuplicate = r.chance(0.3) ? 0.05 : 0;
    s.reorder = r.between(0, 0.3);
    s.reorderMs = r.between(0, 300);
    for (let i = r.whole(0, 3); i > 0; i--) outage(s, r, r.whole(1, 3), r.between(10, 20_000));
    if (r.chance(0.3)) pause(s, r, r.between(1000, 20_000));
    if (r.chance(0.2)) s.deaths.push({ process: r.whole(0, 1), at: r.between(0, 60_000) });
    if (r.chance(0.2)) disconnect(s, r, r.whole(0, 1), r.between(500, 20_000));
    if (r.chance(0.2)) s.second = r.chance(0.5) ? 1 : 2;
  },
  slowlink: (s, r) => {
    // A first window that takes longer than PEER_TIMEOUT would be silence.
    s.bytesPerMs = r.chance(0.5) ? r.between(5, 25) : r.between(5, 125);
    s.loss = r.chance(0.2) ? 0 : r.between(0, 0.03);
    s.delayMaxMs = r.chance(0.5) ? 5 : 200;
    s.horizonMs = 400_000;
  },
  laneout: (s, r) => {
    s.presence = true;
    const start = r.between(1000, 20_000);
    const end = r.chance(0.3) ? 1e9 : start + r.between(5000, 120_000);
    s.outages.push({ start, end, directions: r.whole(1, 3), lanesOnly: true });
    s.horizonMs = 200_000;
  },
  dups: (s, r) => {
    s.duplicate = r.between(0, 0.5);
    s.lateDuplicate = r.between(0, 0.1);
    s.reorder = r.between(0, 0.3);
    s.reorderMs = r.between(10, 300);
    s.loss = r.chance(0.5) ? 0.02 : 0;
  },
  stuck: (s, r) => {
    s.loss = r.chance(0.5) ? 0 : 0.02;
    s.horizonMs = 200_000;
  },
  poor: (s, r) => {
    s.delayMinMs = 0;
    s.delayMaxMs = 20;
    s.budgets = [FLOW_RESERVE, FLOW_RESERVE, FLOW_RESERVE];
    s.budgets[r.whole(0, 1)] = 4096 * KIB;
  },
  head: (s, r) => s.loss = r.chance(0.8) ? 0.02 : 0.2,
  big: (s, r) => s.largeLost = r.whole(1, 3),
};

/** The schedule of a seed. */
export function makeSchedule(r: Random, name: ScheduleClass): Schedule {
  const s = quiet(name);
  s.presence = r.chance(0.5);
  if (r.chance(0.5)) {
    s.delayMinMs = r.between(0, 5);
    s.delayMaxMs = s.delayMinMs + r.between(0, 20);
  }
  FILL[name](s, r);
  if (name === "close" || r.chance(0.1)) s.loss = Math.max(s.loss, r.between(0, 0.15));
  return s;
}

/** What one end of one flow does. */
export function makeScript(r: Random, s: Schedule, kind: FlowKind, requester: boolean): Script {
  const headBytes = r.whole(20, 1500);
  if (s.class === "poor") {
    const pieces = [{ at: 0, bytes: 100_000 }];
    return { pieces, endAt: 100, end: "eof", takesPerMs: Infinity, stops: [], headBytes };
  }
  const lateAnswer = s.class === "head" && kind === "upload" && !requester;
  const pieces = lateAnswer
    ? (r.chance(0.5) ? [] : [{ at: 40_000, bytes: 1000 }])
    : makePieces(r, s);
  const lastAt = pieces.at(-1)?.at ?? 0;
  let end: Script["end"] = r.chance(s.class === "close" ? 0.6 : 0.08) ? "reset" : "eof";
  let endAt = lastAt + (r.chance(0.5) ? r.between(0, 100) : r.between(0, 30_000));
  if (lateAnswer) endAt = 50_000;
  let takesPerMs = Infinity;
  let stops: Span[] = [];
  if (r.chance(s.class === "slow" ? 1 : 0.15)) {
    if (r.chance(0.5)) takesPerMs = r.between(1, 125);
    let at = r.between(0, 5000);
    for (let i = r.whole(1, 3); i > 0; i--) {
      const stop = { start: at, end: at + r.between(500, s.class === "slow" ? 60_000 : 10_000) };
      stops.push(stop);
      at = stop.end + r.between(100, 5000);
    }
  }
  if (s.class === "stuck") {
    takesPerMs = Infinity;
    stops = requester ? [] : [{ start: r.between(0, 8000), end: 1e9 }];
    if (requester) {
      end = "reset";
      endAt = r.between(3000, 30_000);
    }
  }
  return { pieces, endAt, end, takesPerMs, stops, headBytes };
}

function makePieces(r: Random, s: Schedule): { at: number; bytes: number }[] {
  const mode = r.whole(0, 3);
  const pieces: { at: number; bytes: number }[] = [];
  let at = 0;
  const count = mode === 0 ? r.whole(0, 2) : mode === 1 ? r.whole(1, 30) : r.whole(1, 12);
  for (let i = 0; i < count; i++) {
    at += mode === 1 ? r.between(0, 3000) : mode === 2 ? r.between(0, 300) : r.between(0, 50);
    const most = s.class === "budget"
      ? mode === 3 ? 30_000 : 8000
      : mode === 1
      ? 1000
      : mode === 2
      ? 20_000
      : 100_000;
    pieces.push({ at, bytes: r.whole(1, most) });
  }
  return pieces;
}
