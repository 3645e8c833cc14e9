import assert from "node:assert/strict";
import { parseFieldBlock } from "../../lib/http1/parse.ts";
import { contentTypeOf, inBandError } from "../../lib/requester/late_error.ts";
import { latin1, octets } from "../helpers/bytes.ts";

const inBand = (type: string, midLine = false) => latin1(inBandError(type, 'a "b"', midLine));

Deno.test("Event streams have a place for a late failure, every other type has none", () => {
  const event = 'event: error\ndata: {"error":"a \\"b\\""}\n\n';
  const line = '{"error":"a \\"b\\""}\n';
  const rows: [string, string][] = [
    ["text/event-stream", event],
    ["Text/Event-Stream; charset=utf-8", event],
    [" text/event-stream ;x", event],
    ["application/x-ndjson", line],
    ["application/x-ndjson;q=1", line],
    ["application/json", ""],
    ["text/plain; text/event-stream", ""],
    ["", ""],
  ];
  for (const [type, expected] of rows) assert.equal(inBand(type), expected, type);
});

Deno.test("It starts on a line of its own", () => {
  assert.ok(inBand("text/event-stream", true).startsWith("\nevent: error\n"));
  assert.ok(inBand("application/x-ndjson", true).startsWith('\n{"error"'));
  assert.equal(inBand("text/plain", true), "");
});

Deno.test("A coded body has no place for text, whatever its type", () => {
  const typeOf = (block: string) => {
    const bytes = octets(block);
    return contentTypeOf(parseFieldBlock(bytes, 0, bytes.length));
  };
  assert.equal(typeOf("Content-Type: text/event-stream\r\n"), "text/event-stream");
  assert.equal(typeOf("A: b\r\n"), "");
  assert.equal(typeOf("Content-Type: text/event-stream\r\nContent-Encoding: gzip\r\n"), "");
});
