/**
 * An echo over the lane with ordinary requests of nats-core in between, on the same connections.
 * @module
 */

import assert from "node:assert/strict";
import type { NatsLink } from "../../lib/transport/link.ts";
import { EventLog } from "../helpers/wait.ts";
import { checksum, encode, randomBytes } from "./support.ts";

/** Payload that would be protocol if anybody read it as such. */
const PROTOCOL_LINES = encode("\r\nMSG x 1 5\r\nPING\r\n-ERR 'x'\r\nHMSG x 1 12 14\r\n");

export interface EchoOptions {
  readonly count: number;
  readonly largestBytes: number;
  readonly random: () => number;
}

/**
 * `a` publishes `count` messages by the lane, `b` sends each back by the lane to its reply subject, `a`
 * compares. Every tenth round is also a request through nats-core with a payload of that size.
 */
export async function checkEcho(a: NatsLink, b: NatsLink, options: EchoOptions): Promise<void> {
  const root = `echo.${crypto.randomUUID()}`;
  const waiting = new Map<string, number>();
  const answers = new EventLog<string>();
  const wrong: string[] = [];
  const serving = b.subscribe({
    subject: `${root}.in`,
    label: "in",
    deliver: (_token, data, reply) => {
      if (!b.publish(reply, [data.subarray(0, 3), data.subarray(3)])) wrong.push("not sent back");
    },
  });
  const listening = a.subscribe({
    subject: `${root}.out.*`,
    label: "out",
    deliver: (token, data) => {
      if (waiting.get(token) !== checksum(data)) wrong.push(`answer ${token} differs`);
      waiting.delete(token);
      answers.add(token);
    },
  });
  const ordinary = b.connection.subscribe(`${root}.ordinary`, {
    callback: (_error, message) => void message.respond(message.data),
  });
  await Promise.all([a.flush(), b.flush()]);

  const { random } = options;
  for (let i = 0; i < options.count; i++) {
    const length = Math.floor(random() * (i % 5 === 0 ? options.largestBytes : 300));
    const bytes = randomBytes(length, random);
    if (length > PROTOCOL_LINES.length) bytes.set(PROTOCOL_LINES, length % 2);
    const token = i.toString(36);
    waiting.set(token, checksum(bytes));
    assert.ok(a.publish(`${root}.in`, [bytes], { reply: `${root}.out.${token}` }));
    if (i % 10 === 0) {
      const answer = await a.request(`${root}.ordinary`, bytes, { timeoutMs: 10_000 });
      assert.equal(checksum(answer), checksum(bytes), "an ordinary request came back changed");
    }
    await a.drained();
  }
  await answers.find(() => answers.events.length === options.count, {
    ms: 30_000,
    what: `${options.count} echoes`,
    describe: () => `${answers.events.length} came`,
  });
  assert.deepEqual(wrong, []);
  assert.equal(waiting.size, 0);
  ordinary.unsubscribe();
  await Promise.all([serving.drain(), listening.drain()]);
}
