/**
 * What comes for a flow that this requester does not have, or no longer.
 * @module
 */
import { decodeFrame, FrameError, FrameType, isFrame } from "../protocol/frames.ts";
import { decodeSessionEvent } from "../protocol/session.ts";
import type { Inbound } from "../transport/types.ts";
import type { RequesterContext } from "./context.ts";

/** Answers probes, and cancels executions that nobody waits for; everything else is dropped. */
export function receiveUnknown(context: RequesterContext, message: Inbound): void {
  const { token: id, data } = message;
  // Frames of natsway have no NATS headers, those of the contract always do.
  if (message.headers !== null) return;
  if (!isFrame(data)) {
    const event = decodeSessionEvent(data);
    if (event?.type !== "session_established") return;
    const { receiverServiceId: receiver, natsway } = event;
    // A nats-proxy that was too late would keep its connection to the target.
    if (natsway === null) context.cancelForeign(id, receiver, null);
    else first(context, id, receiver, natsway.epoch, natsway.peer.instance, false);
    return;
  }
  try {
    const frame = decodeFrame(data);
    if (frame.type !== FrameType.Data || frame.head === null) {
      context.lanes.host.receive(id, frame);
      return;
    }
    const info = context.infoCache.read(frame.head.info);
    if (info === null || frame.head.status < 200) return;
    const { receiverServiceId: receiver, peer: { instance } } = info;
    first(context, id, receiver, frame.epoch, instance, frame.fin);
  } catch (error) {
    if (!(error instanceof FrameError)) throw error;
    context.logger.debug("bad frame for an unknown flow", { detail: error.message });
  }
}

/** A first event that came too late, twice, or for nobody: its execution is to end. */
function first(
  context: RequesterContext,
  id: string,
  receiver: string,
  epoch: Uint8Array,
  instance: string,
  whole: boolean,
): void {
  const verdict = context.lanes.host.first(id, receiver, { epoch, instance, limit: 0, whole });
  if (verdict === "cancel") context.cancelForeign(id, receiver, epoch);
}
