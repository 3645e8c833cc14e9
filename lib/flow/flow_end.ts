/**
 * What the end of a lane means for the log, the metrics and the client.
 * @module
 */
import { isFailureCode } from "../errors.ts";
import type { LaneEnd } from "./lane_types.ts";
import type { FlowEnd } from "./registry.ts";

/** The reasons that a cancel or a close may have besides failure codes are all somebody's leaving. */
export function flowEndOf(end: LaneEnd): FlowEnd {
  if (end.reason === "ok" || isFailureCode(end.reason)) return end.reason as FlowEnd;
  return end.reason === "gone" ? "peer_lost" : "canceled";
}

/** Says who ended the flow, for the log line; undefined for an end that needs no word. */
export function endDetail(end: LaneEnd): string | undefined {
  if (end.reason === "ok") return undefined;
  return end.byPeer ? `the peer ended it: ${end.reason}` : `ended here: ${end.reason}`;
}
