/**
 * Receivers whose deliveries a test holds in its hands.
 * @module
 */

import type { JetStreamOptions } from "../../../lib/transport/jetstream/jetstream.ts";
import type { Delivery, RequestConsumer, RequestOptions } from "../../../lib/transport/types.ts";
import { EventLog, within } from "../../helpers/wait.ts";
import { decode, encode } from "../support.ts";
import { type JsServer, Peer, STREAM } from "./support.ts";

/** A delivery with what was in it when it came. */
export interface Taken {
  readonly delivery: Delivery;
  readonly text: string;
}

/** Takes requests and settles none. */
export class TestReceiver extends Peer {
  readonly taken = new EventLog<Taken>();
  readonly consumer: RequestConsumer;

  constructor(
    url: string,
    serviceId: string,
    options: Partial<JetStreamOptions> = {},
    requests: RequestOptions = { free: () => 10 },
  ) {
    super(url, serviceId, options);
    this.consumer = this.transport.consumeRequests((delivery) => {
      this.taken.add({ delivery, text: decode(delivery.data) });
    }, requests);
  }

  /** The first delivery of `text` from index `from` on. */
  async take(text: string, from = 0, ms = 10_000): Promise<Delivery> {
    const { delivery } = await this.taken.find((one) => one.text === text, {
      ms,
      from,
      what: `the request ${text}`,
      describe: () => this.logger.text,
    });
    return delivery;
  }
}

/** Puts a request into the stream and waits until it is there. */
export async function request(js: JsServer, text: string): Promise<void> {
  await js.operator.link.request(`proxy.requests.edge.${text}`, encode(text), { timeoutMs: 5000 });
}

/** What the server says of the pool's consumer: pending settlements, redelivered, undelivered. */
export async function pool(js: JsServer): Promise<[number, number, number]> {
  const info = await js.manager.consumers.info(STREAM, "nats-proxy");
  return [info.num_ack_pending, info.num_redelivered, info.num_pending];
}

/** Everything that is published to settle requests, e.g. `+ACK`. */
export function settlements(js: JsServer): EventLog<string> {
  const log = new EventLog<string>();
  js.operator.link.subscribe({
    subject: "$JS.ACK.>",
    label: "settlements",
    deliver: (_token, data) => log.add(decode(data)),
  });
  return log;
}

/** Takes one request as a receiver does that dies with it. */
export async function takeAndForget(js: JsServer): Promise<void> {
  const inbox = `_INBOX.${crypto.randomUUID()}`;
  const taken = Promise.withResolvers<void>();
  const { link } = js.operator;
  const subscription = link.subscribe({
    subject: inbox,
    label: "dying receiver",
    deliver: () => taken.resolve(),
  });
  link.publish(
    `$JS.API.CONSUMER.MSG.NEXT.${STREAM}.nats-proxy`,
    [encode('{"batch":1,"expires":5000000000}')],
    { reply: inbox },
  );
  await within(taken.promise, 5000, "a request");
  await subscription.drain();
}
