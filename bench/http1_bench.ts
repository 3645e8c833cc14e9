/**
 * Cost of one message head in the codec: `deno bench bench/http1_bench.ts`; the time per iteration is
 * the time per head.
 * @module
 */

import { FieldId, isHopByHop } from "../lib/http1/field.ts";
import type { Fields } from "../lib/http1/head.ts";
import { parseRequestHead, parseResponseHead } from "../lib/http1/parse.ts";
import { HeadScanner } from "../lib/http1/scan.ts";

const MAX_HEAD_BYTES = 65_536;
/** Heads stand somewhere in a read buffer, not at its start. */
const START = 100;

const request = inBuffer([
  "GET /api/v1/items/4711?page=2&sort=name HTTP/1.1",
  "Host: app.example",
  "User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0",
  "Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
  "Accept-Language: en-US,en;q=0.5",
  "Accept-Encoding: gzip, deflate, br, zstd",
  "Referer: https://app.example/items",
  "Connection: keep-alive",
  "Cookie: session=0123456789abcdef0123456789abcdef; theme=dark",
  "Upgrade-Insecure-Requests: 1",
  "Sec-Fetch-Dest: document",
  "Sec-Fetch-Mode: navigate",
  "Cache-Control: no-cache",
]);

const response = inBuffer([
  "HTTP/1.1 200 OK",
  "Date: Sun, 01 Nov 2026 12:00:00 GMT",
  "Server: example/1.27.3",
  "Content-Type: application/json; charset=utf-8",
  "Content-Length: 1024",
  'ETag: "0123456789abcdef"',
  "Cache-Control: private, max-age=0",
]);

const scanner = new HeadScanner(MAX_HEAD_BYTES);
const out = new Uint8Array(MAX_HEAD_BYTES);

Deno.bench("request of 12 fields: scan", () => {
  scanner.scan(request.bytes, START, request.end);
});

Deno.bench("request of 12 fields: scan and parse", () => {
  const end = scanner.scan(request.bytes, START, request.end);
  parseRequestHead(request.bytes, START, end);
});

Deno.bench("request of 12 fields: scan, parse, copy end-to-end lines", () => {
  const end = scanner.scan(request.bytes, START, request.end);
  copyLines(parseRequestHead(request.bytes, START, end));
});

Deno.bench("request of 12 fields: scan, parse, all names and values as text", () => {
  const end = scanner.scan(request.bytes, START, request.end);
  const head = parseRequestHead(request.bytes, START, end);
  for (let i = 0; i < head.count; i++) {
    head.name(i);
    head.value(i);
  }
});

Deno.bench("response of 6 fields: scan and parse", () => {
  const end = scanner.scan(response.bytes, START, response.end);
  parseResponseHead(response.bytes, START, end, "GET");
});

Deno.bench("response of 6 fields: scan, parse, copy end-to-end lines", () => {
  const end = scanner.scan(response.bytes, START, response.end);
  copyLines(parseResponseHead(response.bytes, START, end, "GET"));
});

/** What a forwarder does: whole runs of lines that go on, without the others. */
function copyLines(head: Fields): number {
  let at = 0;
  let from = -1;
  for (let i = 0; i <= head.count; i++) {
    const goesOn = i < head.count && !isHopByHop(head.id(i)) && head.id(i) !== FieldId.Host &&
      !head.isNominated(i);
    if (goesOn) {
      if (from < 0) from = head.lineStart(i);
    } else if (from >= 0) {
      const run = head.bytes.subarray(from, head.lineEnd(i - 1));
      out.set(run, at);
      at += run.length;
      from = -1;
    }
  }
  return at;
}

function inBuffer(lines: string[]): { bytes: Uint8Array; end: number } {
  const head = new TextEncoder().encode(lines.join("\r\n") + "\r\n\r\n");
  const bytes = new Uint8Array(MAX_HEAD_BYTES);
  bytes.set(head, START);
  return { bytes, end: START + head.length };
}
