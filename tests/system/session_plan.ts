/**
 * Random sessions: what each end of a tunnel sends, in which pieces and pauses, and how it ends; and
 * the rules that what arrives must keep.
 * @module
 */
import { SocketEndedError, type TestSocket } from "../helpers/socket.ts";
import { pause, within } from "../helpers/wait.ts";
import { Checker, octetsAt } from "./octet_stream.ts";

/** A repeatable source of chance. */
export class Random {
  #state: number;

  constructor(seed: number) {
    this.#state = seed >>> 0;
  }

  /** A number from 0 up to, not with, `below`. */
  below(below: number): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let mixed = this.#state;
    mixed = Math.imul(mixed ^ (mixed >>> 15), mixed | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return Math.floor(((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32 * below);
  }

  /** True in `percent` of 100 cases. */
  chance(percent: number): boolean {
    return this.below(100) < percent;
  }

  /** A size up to `most`: small ones are as likely as large ones. */
  size(most: number): number {
    return Math.floor(2 ** (this.below(1_000) / 1_000 * Math.log2(most + 1))) - 1;
  }
}

/**
 * How an end leaves: `fin` says all, shuts down and reads to the end; `late` waits for the other's end
 * before it says its own; `reset` and `close` leave at some octet, whatever is under way.
 */
export type Leave = "fin" | "late" | "reset" | "close";

/** What one end of a session does. */
export interface Side {
  readonly seed: number;
  /** Octets that it sends, if it stays. */
  readonly bytes: number;
  readonly leave: Leave;
  /** It leaves when it has sent this many octets (`reset`, `close`). */
  readonly leaveAt: number;
  readonly pieceBytes: number;
  /** Of 100 writes and reads so many have a pause before them. */
  readonly pausePercent: number;
}

export interface Session {
  readonly client: Side;
  readonly target: Side;
}

const MOST_BYTES = 512 * 1024;
const MOST_PAUSE_MS = 12;

function drawSide(random: Random, seed: number): Side {
  const bytes = random.chance(10) ? 0 : random.size(random.chance(5) ? 4 * MOST_BYTES : MOST_BYTES);
  const kind = random.below(100);
  const leave = kind < 60 ? "fin" : kind < 76 ? "late" : kind < 90 ? "reset" : "close";
  return {
    seed,
    bytes,
    leave,
    leaveAt: random.below(bytes + 1),
    pieceBytes: 1 + random.size(64 * 1024),
    pausePercent: random.chance(30) ? random.below(20) : 0,
  };
}

/** Session number `index` of a run. Two ends that both wait for each other are not drawn. */
export function drawSession(runSeed: number, index: number): Session {
  const random = new Random(Math.imul(runSeed, 31) + index);
  const client = drawSide(random, 2 * index);
  const target = drawSide(random, 2 * index + 1);
  if (client.leave !== "late" || target.leave !== "late") return { client, target };
  return { client, target: { ...target, leave: "fin" } };
}

/** Whether this end leaves before both have said all. */
export function mayLeave(side: Side): boolean {
  return side.leave === "reset" || side.leave === "close";
}

/** What one end has seen. */
export interface Seen {
  readonly received: number;
  readonly end: "fin" | "reset" | "left";
}

/** Plays one end. Everything that arrives is compared, octet by octet. */
export async function playSide(socket: TestSocket, side: Side, other: Side): Promise<Seen> {
  const random = new Random(side.seed + 7);
  const checker = new Checker(other.seed);
  const leaving = mayLeave(side);
  let left = false;
  const rest = async () => {
    if (random.chance(side.pausePercent)) await pause(random.below(MOST_PAUSE_MS));
  };
  const theirEnd = Promise.withResolvers<void>();
  const sending = (async () => {
    if (side.leave === "late") await theirEnd.promise;
    const until = leaving ? side.leaveAt : side.bytes;
    // Small pieces for a while only: a session is not to take minutes.
    for (let at = 0, writes = 0; at < until; writes++) {
      await rest();
      const most = writes < 60 ? 1 + random.below(side.pieceBytes) : 64 * 1024;
      const piece = octetsAt(side.seed, at, Math.min(most, until - at));
      await socket.write(piece);
      at += piece.length;
    }
    if (!leaving) return await socket.closeWrite();
    left = true;
    await (side.leave === "reset" ? socket.reset() : socket.close());
  })();
  // Writing fails when the other end leaves; what is right then is judged by what arrives.
  const sent = sending.catch((error) => {
    if (!(error instanceof SocketEndedError)) throw error;
  });
  const reading = (async () => {
    for (;;) {
      await rest();
      const piece = await socket.read(30_000);
      if (piece === null) break;
      checker.take(piece);
    }
    theirEnd.resolve();
  })();
  await Promise.all([reading, sent]);
  return { received: checker.bytes, end: left || socket.end === "open" ? "left" : socket.end };
}

/** @throws {Error} `seen` is nothing that the receiving end of `sender`'s octets may see */
export function judge(seen: Seen, sender: Side, own: Side): void {
  const said = sender.leave === "fin" || sender.leave === "late" ? sender.bytes : sender.leaveAt;
  const text = `${JSON.stringify(seen)} of ${JSON.stringify(sender)} at ${JSON.stringify(own)}`;
  if (seen.received > said) throw new Error(`more than was sent: ${text}`);
  if (seen.end === "left") return;
  if (seen.end === "reset") {
    if (![sender, own].some(mayLeave)) throw new Error(`a reset that nobody made: ${text}`);
    return;
  }
  // A clean end claims that all is there. Who closes has said all that it ever says.
  if (seen.received !== said || sender.leave === "reset") {
    throw new Error(`a clean end that is none: ${text}`);
  }
}

/** `promise`, or an error that names the session. */
export async function ofSession<T>(promise: Promise<T>, name: string): Promise<T> {
  try {
    return await within(promise, 60_000, name);
  } catch (error) {
    throw new Error(`${name}: ${(error as Error).message}`, { cause: error });
  }
}
