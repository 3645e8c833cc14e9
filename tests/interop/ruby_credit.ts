/**
 * Credit messages of wire-protocol.md section 7, as both doubles write and read them.
 * @module
 */
import { type BareMessage, type BareNats, exactHeader } from "./bare_nats.ts";
import { lastToken, parseObject, timestamp } from "./ruby_wire.ts";

export type Direction = "response" | "upstream" | "downstream";

const FRAME_TYPE: Readonly<Record<Direction, string>> = {
  response: "response_credit",
  upstream: "session_credit_upstream",
  downstream: "session_credit_downstream",
};

/** Publishes a grant; the flow's id is the last token of `subject`. */
export function publishCredit(
  nats: BareNats,
  subject: string,
  credit: { readonly direction: Direction; readonly bytes: number; readonly serviceId: string },
): void {
  const id = lastToken(subject);
  const message = {
    type: "flow_credit",
    request_id: id,
    direction: credit.direction,
    bytes: credit.bytes,
    service_id: credit.serviceId,
    timestamp: timestamp(),
  };
  nats.publish(subject, JSON.stringify(message), {
    headers: [["Nats-Session-Id", id], ["Nats-Frame-Type", FRAME_TYPE[credit.direction]]],
  });
}

/** Whether the frame type says that this is a credit in `direction`. */
export function isCredit(message: BareMessage, direction: Direction): boolean {
  return exactHeader(message, "Nats-Frame-Type") === FRAME_TYPE[direction];
}

/** The bytes that a message grants; null when it is no credit for its subject in that direction. */
export function readCredit(message: BareMessage, direction: Direction): number | null {
  const credit = parseObject(message.data);
  const bytes = Number(credit?.["bytes"]);
  const good = credit !== null && credit["type"] === "flow_credit" &&
    credit["request_id"] === lastToken(message.subject) && credit["direction"] === direction &&
    Number.isInteger(bytes) && bytes > 0;
  return good ? bytes : null;
}
