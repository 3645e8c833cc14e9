import assert from "node:assert/strict";
import { parseAckReply } from "../../../lib/transport/jetstream/ack_reply.ts";

const FACTS = {
  stream: "proxy",
  consumer: "nats-proxy",
  delivered: 2,
  streamSeq: 7,
  consumerSeq: 12,
  timeMs: 1_796_098_760_206.749_976,
  pending: 5,
};

Deno.test("a settlement subject of nine tokens says what was delivered", () => {
  assert.deepEqual(parseAckReply("$JS.ACK.proxy.nats-proxy.2.7.12.1796098760206749976.5"), {
    domain: "",
    ...FACTS,
  });
});

Deno.test("one with domain and account hash is read as well, with and without a random token", () => {
  const tail = "proxy.nats-proxy.2.7.12.1796098760206749976.5";
  assert.deepEqual(parseAckReply(`$JS.ACK.hub.ACCHASH.${tail}`), { domain: "hub", ...FACTS });
  assert.deepEqual(parseAckReply(`$JS.ACK._.ACCHASH.${tail}.r4nd0m`), { domain: "", ...FACTS });
});

Deno.test("the time keeps its milliseconds exactly", () => {
  assert.equal(parseAckReply("$JS.ACK.s.c.1.1.1.1796098760206000000.0")?.timeMs, 1796098760206);
  assert.equal(parseAckReply("$JS.ACK.s.c.1.1.1.1500000.0")?.timeMs, 1.5);
  assert.equal(parseAckReply("$JS.ACK.s.c.1.1.1.500000.0")?.timeMs, 0.5);
});

Deno.test("anything else is no settlement subject", () => {
  for (
    const subject of [
      "",
      "$JS.ACK.",
      "_INBOX.a.b",
      "$JS.ACK.s.c.1.1.1.1",
      "$JS.ACK.s.c.1.1.1.1.1.1",
      "$JS.ACK.s.c.x.1.1.1.1",
      "$JS.ACK..c.1.1.1.1.1",
      "$JS.ACK.s.c.-1.1.1.1.1",
      "$JS.ACK.s.c.1.1.1.1.",
      "$JS.ACK.s.c.1.1.1.1.123456789012345678901",
    ]
  ) assert.equal(parseAckReply(subject), null, subject);
});
