/**
 * A requester and a receiver over one stream, whose round trips can be counted.
 * @module
 */

import assert from "node:assert/strict";
import { EventLog } from "../../helpers/wait.ts";
import { decode, encode } from "../support.ts";
import { Peer } from "./support.ts";
import type { JetStreamOptions } from "../../../lib/transport/jetstream/jetstream.ts";

/** The receiver answers each request with its data. */
export class Pair implements AsyncDisposable {
  readonly requester: Peer;
  readonly receiver: Peer;
  readonly answers = new EventLog<string>();
  #count = 0;

  constructor(url: string, receiverUrl = url, options: Partial<JetStreamOptions> = {}) {
    this.requester = new Peer(url, "edge", options);
    this.receiver = new Peer(receiverUrl, "worker", options);
    this.requester.transport.consumePlane("responses", ({ data }) => {
      this.answers.add(decode(data));
    });
    this.receiver.transport.consumeRequests((delivery) => {
      this.receiver.transport.publish(`proxy.responses.edge.${delivery.token}`, [delivery.data]);
      delivery.ack();
    }, { free: () => 50 });
    this.receiver.transport.consumePlane("control", () => {});
  }

  get peers(): readonly [Peer, Peer] {
    return [this.requester, this.receiver];
  }

  async ready(ms = 15_000): Promise<void> {
    const waits = await Promise.allSettled(this.peers.map((peer) => peer.until(null, ms)));
    for (const wait of waits) {
      if (wait.status === "rejected") throw wait.reason;
    }
  }

  /** One request and its answer, asked once. */
  async roundTrip(ms = 5000): Promise<void> {
    const id = `id${++this.#count}`;
    const lost = (reason: string) => this.answers.add(`${id} lost: ${reason}`);
    const sent = this.requester.transport.publish(`proxy.requests.edge.${id}`, [encode(id)], {
      onLost: lost,
    });
    assert.ok(sent, "the link is down");
    const answer = await this.answers.find((text) => text.split(" ")[0] === id, {
      ms,
      what: `the answer to ${id}`,
      describe: () => this.peers.map((peer) => peer.logger.text).join("\n"),
    });
    assert.equal(answer, id);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.peers.map((peer) => peer[Symbol.asyncDispose]()));
  }
}
