/**
 * What a NATS server sends about pulled messages: read, or refused without a mistake.
 * @module
 */
import assert from "node:assert/strict";
import { parseAckReply } from "../../lib/transport/jetstream/ack_reply.ts";
import { covers, overlaps } from "../../lib/transport/jetstream/filters.ts";
import { parsePullStatus } from "../../lib/transport/jetstream/pull_status.ts";
import { fuzz, mutateOctets } from "../helpers/unit_fuzz.ts";

const encoder = new TextEncoder();
const decoder = new TextDecoder();

Deno.test("Whatever the settlement subject, its facts are whole or there are none", async () => {
  const seeds = [
    "$JS.ACK.proxy.nats-proxy.2.7.12.1796098760206749976.5",
    "$JS.ACK.hub.ACCHASH.proxy.nats-proxy.2.7.12.1796098760206749976.5.r4nd0m",
  ].map((seed) => encoder.encode(seed));
  await fuzz(7_000_101, (random) => {
    const subject = decoder.decode(mutateOctets(random.pick(seeds), random));
    const facts = parseAckReply(subject);
    if (facts !== null) {
      assert.ok(facts.stream !== "" && facts.consumer !== "");
      for (
        const number of [
          facts.delivered,
          facts.streamSeq,
          facts.consumerSeq,
          facts.timeMs,
          facts.pending,
        ]
      ) assert.ok(number >= 0 && Number.isFinite(number));
    }
    return subject;
  });
});

Deno.test("Whatever the status of a pull, it has a meaning and whole counts", async () => {
  const seeds = [
    "NATS/1.0 408 Request Timeout\r\nNats-Pending-Messages: 12\r\nNats-Pending-Bytes: 3\r\n\r\n",
    "NATS/1.0 409 Consumer Deleted\r\n\r\n",
    "NATS/1.0 100 Idle Heartbeat\r\n\r\n",
    "NATS/1.0 503\r\n\r\n",
  ].map((seed) => encoder.encode(seed));
  await fuzz(7_000_102, (random) => {
    const block = mutateOctets(random.pick(seeds), random);
    const status = parsePullStatus(block);
    if (status?.kind === "ended") {
      assert.ok(Number.isSafeInteger(status.unusedMessages) && status.unusedMessages >= 0);
      assert.ok(Number.isSafeInteger(status.unusedBytes) && status.unusedBytes >= 0);
    }
    return block;
  });
});

Deno.test("A pattern that covers a filter takes each subject of it", async () => {
  const subject = (tokens: string) =>
    new RegExp(
      `^${
        tokens.split(".").map((token) =>
          token === "*" ? "[^.]+" : token === ">" ? "[^.]+(?:\\.[^.]+)*" : token
        ).join("\\.")
      }$`,
    );
  await fuzz(7_000_103, (random) => {
    const pattern = () => {
      const tokens = Array.from(
        { length: 1 + random.below(3) },
        () => random.pick(["a", "b", "*"]),
      );
      return (random.below(3) === 0 ? [...tokens, ">"] : tokens).join(".");
    };
    const [one, other] = [pattern(), pattern()];
    const example = Array.from({ length: 1 + random.below(5) }, () => random.pick(["a", "b"]))
      .join(".");
    const [byOne, byOther] = [subject(one).test(example), subject(other).test(example)];
    if (covers(one, other)) {
      assert.ok(!byOther || byOne);
      assert.ok(overlaps(one, other));
    }
    if (byOne && byOther) assert.ok(overlaps(one, other));
    return [one, other, example];
  });
});
