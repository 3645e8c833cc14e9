/**
 * What comes for a flow that this requester does not have.
 * @module
 */
import { decodeFrame, encodeClose, FrameType, isFrame } from "../protocol/frames.ts";
import { controlSubject } from "../protocol/subjects.ts";
import type { Inbound } from "../transport/types.ts";
import type { RequesterContext } from "./context.ts";

/** Answers what comes for a flow that this requester does not have. */
export function answerUnknown(context: RequesterContext, message: Inbound): void {
  if (!isFrame(message.data)) return;
  try {
    const frame = decodeFrame(message.data);
    if (frame.type !== FrameType.Probe) return;
    context.transport.publish(
      controlSubject(context.roots, frame.serviceId, message.token),
      [encodeClose(frame.epoch, 0, "gone")],
    );
  } catch (error) {
    // A broken frame, or a service id that is no subject token: nothing to answer.
    context.logger.debug("bad frame for an unknown flow", { detail: String(error) });
  }
}
