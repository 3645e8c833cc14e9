import assert from "node:assert/strict";
import { parsePullStatus } from "../../../lib/transport/jetstream/pull_status.ts";
import { encode } from "../support.ts";

const status = (text: string) => parsePullStatus(encode(`NATS/1.0 ${text}\r\n\r\n`));

Deno.test("each status of a pull is sorted by what has to be done", () => {
  const rows: [string, string][] = [
    ["100 Idle Heartbeat", "heartbeat"],
    ["404 No Messages", "ended"],
    ["408 Request Timeout", "ended"],
    ["408 Interest Expired", "ended"],
    ["409 Batch Completed", "ended"],
    ["409 Message Size Exceeds MaxBytes", "ended"],
    ["409 Exceeded MaxWaiting", "busy"],
    ["409 Exceeded MaxRequestBatch of 10", "busy"],
    ["409 Consumer Deleted", "gone"],
    ["409 Leadership Change", "gone"],
    ["409 Server Shutdown", "gone"],
    ["409 Consumer is push based", "gone"],
    ["503", "gone"],
    ["409 Something new", "refused"],
    ["400 Bad Request - heartbeat value too large", "refused"],
    ["423 Nats-Wrong-Pin-Id", "refused"],
  ];
  for (const [text, kind] of rows) assert.equal(status(text)?.kind, kind, text);
});

Deno.test("what was not used of a pull is counted, and a bad count is none", () => {
  const of = (messages: string, bytes: string) =>
    parsePullStatus(encode(
      "NATS/1.0 408 Request Timeout\r\n" +
        `Nats-Pending-Messages: ${messages}\r\nNats-Pending-Bytes: ${bytes}\r\n\r\n`,
    ));
  assert.deepEqual(of("12", "3456"), {
    kind: "ended",
    unusedMessages: 12,
    unusedBytes: 3456,
    text: "408 Request Timeout",
  });
  assert.deepEqual(of("-1", "x"), {
    kind: "ended",
    unusedMessages: 0,
    unusedBytes: 0,
    text: "408 Request Timeout",
  });
});

Deno.test("a stored message with headers is no status", () => {
  assert.equal(parsePullStatus(encode("NATS/1.0\r\nA: b\r\n\r\n")), null);
});
