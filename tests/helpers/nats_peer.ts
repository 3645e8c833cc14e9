/**
 * A requesting peer that is not natsway: it speaks the contract of wire-protocol.md and nothing more.
 * @module
 */
import assert from "node:assert/strict";
import { jsonOf, type NatsClient, type NatsMessage } from "./nats_client.ts";
import type { EventLog } from "./wait.ts";

/** Its SERVICE_ID. */
export const PEER_ID = "peer-1";
/** How long no answer must come where the contract says that none does. */
export const QUIET_MS = 700;

let lastId = 0;
/** An id as nats-proxy draws it: 32 hex digits, unlike any other of this process. */
export function newId(): string {
  return `9c41${String(++lastId).padStart(28, "0")}`;
}

/** One request of a requester that is not natsway, as nats-proxy sends it, and its events. */
export class PeerCall {
  readonly id: string;
  readonly replyTo: string;
  #events: EventLog<NatsMessage> | null = null;

  constructor(readonly nats: NatsClient, id = newId()) {
    this.id = id;
    this.replyTo = `from.proxy.responses.${PEER_ID}.${this.id}`;
  }

  /** Publishes on subject 1, listening first. */
  async send(
    payload: unknown,
    options: { reply?: string; headers?: string[] } = {},
  ): Promise<void> {
    this.#events ??= await this.nats.subscribe(`from.proxy.responses.${PEER_ID}.${this.id}`);
    await this.nats.publish(
      `to.proxy.requests.${PEER_ID}.${this.id}`,
      payload instanceof Uint8Array ? payload : JSON.stringify(payload),
      options,
    );
  }

  /** The envelope of a plain request. */
  envelope(changes: Record<string, unknown> = {}): Record<string, unknown> {
    return {
      type: "request",
      request_id: this.id,
      reply_to: this.replyTo,
      operation: "http_request",
      payload: { method: "GET", path: `/peer/${this.id}`, headers: {}, body: null },
      ...changes,
    };
  }

  get events(): Record<string, unknown>[] {
    return (this.#events?.events ?? []).map(jsonOf);
  }

  /** All events up to `response_end`. */
  async answered(ms = 5_000): Promise<Record<string, unknown>[]> {
    await this.#events?.find((message) => jsonOf(message)["type"] === "response_end", {
      ms,
      what: `response_end for ${this.id}`,
      describe: () => JSON.stringify(this.events),
    });
    return this.events;
  }

  /** Expects that nothing comes. */
  async unanswered(): Promise<void> {
    await assert.rejects(
      this.#events?.find(() => true, { ms: QUIET_MS, what: "an event" }) ?? Promise.resolve(),
      /not within/,
      JSON.stringify(this.events),
    );
  }
}

/**
 * Expects the error reply of wire-protocol section 9: start, one chunk, end.
 * @param options `early`: made before the operation started, so without request_id and flow_kind
 */
export function assertErrorReply(
  events: Record<string, unknown>[],
  status: number,
  error: string | RegExp,
  options: { early: boolean; receiver: string },
): void {
  assert.deepEqual(events.map((event) => event["type"]), [
    "response_start",
    "response_chunk",
    "response_end",
  ]);
  const [start, chunk] = events as [Record<string, unknown>, Record<string, unknown>];
  assert.equal(start["status"], status);
  assert.equal(
    (start["headers"] as Record<string, unknown>)["content-type"],
    "application/json",
  );
  assert.equal(start["content_type"], "application/json");
  assert.equal(start["streaming"], false);
  assert.equal(start["receiver_service_id"], options.receiver);
  if (options.early) {
    assert.equal("request_id" in start, false);
    assert.equal("flow_kind" in start, false);
  } else {
    assert.equal(typeof start["request_id"], "string");
    assert.equal(start["flow_kind"], "http_request");
  }
  const body = JSON.parse(String(chunk["body"])) as Record<string, unknown>;
  if (typeof error === "string") assert.deepEqual(body, { error });
  else assert.match(String(body["error"]), error);
}
