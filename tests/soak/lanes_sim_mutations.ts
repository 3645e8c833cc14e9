/**
 * The main rules of lanes, each broken, to see that the simulation notices.
 * @module
 */
import { FrameFlag, FrameType } from "../../lib/protocol/frames.ts";
import type { Mutation } from "./lanes_sim_process.ts";
import { PEER_TIMEOUT_MS, type ScheduleClass } from "./lanes_sim_schedule.ts";

export interface BrokenRule {
  readonly mutation: Mutation;
  /** A class of schedules in which it shows. */
  readonly class: ScheduleClass;
}

/** Changes one kind of frame, or drops it with null. */
function change(
  type: number,
  how: (bytes: Uint8Array, sentBefore: boolean) => Uint8Array | null,
): Mutation {
  return { frame: (bytes, before) => bytes[0] === type ? how(bytes, before) : bytes };
}

const view = (bytes: Uint8Array) => new DataView(bytes.buffer);

/** By what is broken. */
export const BROKEN_RULES: Readonly<Record<string, BrokenRule>> = {
  "nothing is asked for again": {
    class: "loss",
    mutation: change(FrameType.Window, (bytes) => {
      bytes[1] = bytes[1]! & ~FrameFlag.Resend;
      return bytes;
    }),
  },
  "nothing is probed": { class: "head", mutation: change(FrameType.Probe, () => null) },
  "windows carry no serial": {
    class: "big",
    mutation: change(FrameType.Window, (bytes) => {
      view(bytes).setUint32(26, 0);
      return bytes;
    }),
  },
  "windows never move the limit": {
    class: "clean",
    mutation: change(FrameType.Window, (bytes) => {
      const limit = view(bytes).getBigUint64(18);
      view(bytes).setBigUint64(18, limit < 65_536n ? limit : 65_536n);
      return bytes;
    }),
  },
  "eof is sent once": {
    class: "budget",
    mutation: {
      frame: (bytes, before) => {
        if (bytes[0] === FrameType.Eof && before) return null;
        if (bytes[0] === FrameType.Data && (bytes[1]! & FrameFlag.Head) === 0 && before) {
          bytes[1] = bytes[1]! & ~FrameFlag.Fin;
        }
        return bytes;
      },
    },
  },
  "close is sent once": {
    class: "stuck",
    mutation: change(FrameType.Close, (bytes, before) => before ? null : bytes),
  },
  "an ended flow is not remembered": { class: "head", mutation: { times: { rememberMs: 0 } } },
  "the first event is sent once": { class: "head", mutation: { firstOnce: true } },
  "all executions have one epoch": { class: "second", mutation: { oneEpoch: true } },
  "a silent peer is never given up": {
    class: "death",
    mutation: { times: { peerTimeoutMs: 20 * PEER_TIMEOUT_MS } },
  },
  "a silent peer is given up too soon": {
    class: "outage",
    mutation: { times: { peerTimeoutMs: PEER_TIMEOUT_MS / 2 } },
  },
  "probes are rare": { class: "head", mutation: { times: { probeMs: 10_000 } } },
  "the budget is not kept": { class: "budget", mutation: { extraBudget: 4 * 1024 * 1024 } },
};
