/**
 * llhttp, the parser under node:http, as an oracle: the same messages, whole and cut at every octet, are
 * accepted or refused alike and read alike, but for the differences listed here.
 * @module
 */

import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
// @ts-ignore: the parser class is not part of the typed interface of Node
import { HTTPParser } from "node:_http_common";
import { latin1 } from "../../lib/http1/encode.ts";
import { REQUEST_SAMPLES, RESPONSE_SAMPLES } from "./corpus.ts";
import { readConnection } from "./reader.ts";

type Side = "request" | "response";

/** First message of a connection; `refused` if an error came before it was complete. */
interface Reading {
  refused: boolean;
  start?: [string, string];
  fields?: [string, string][];
  body?: string;
  trailers?: [string, string][];
  complete?: boolean;
}

/** Who takes what the other refuses, and why that is meant. */
type Difference = "ours is stricter" | "ours is looser";

const HOST = "Host: app.example\r\n";
const CHUNKED = "Transfer-Encoding: chunked\r\n";

const AGREED: Record<Side, string[]> = {
  request: [
    `GET / HTTP/1.1\r\n${HOST}\r\n`,
    `\r\n\r\nGET / HTTP/1.1\r\n${HOST}\r\n`,
    `OPTIONS * HTTP/1.1\r\n${HOST}\r\n`,
    `GET / HTTP/1.0\r\n\r\n`,
    `GET / HTTP/1.1 \r\n${HOST}\r\n`,
    `GET / http/1.1\r\n${HOST}\r\n`,
    `GET / HTTP/1.1\n${HOST}\r\n`,
    `GET / HTTP/1.1\r\nHost: a\n\r\n`,
    `GET / HTTP/1.1\r\n${HOST}A: b\rC: d\r\n\r\n`,
    `GET / HTTP/1.1\r\n${HOST}A: b\0c\r\n\r\n`,
    `GET / HTTP/1.1\r\n${HOST}A : b\r\n\r\n`,
    `GET / HTTP/1.1\r\n${HOST}: b\r\n\r\n`,
    `GET / HTTP/1.1\r\n${HOST}A: \t b \t\r\nB:\r\nC: \xe9\r\n\r\n`,
    `POST / HTTP/1.1\r\n${HOST}Content-Length: 3\r\n\r\nabcGET`,
    `POST / HTTP/1.1\r\n${HOST}Content-Length: +3\r\n\r\nabc`,
    `POST / HTTP/1.1\r\n${HOST}Content-Length: 3, 3\r\n\r\nabc`,
    `POST / HTTP/1.1\r\n${HOST}Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc`,
    `POST / HTTP/1.1\r\n${HOST}Content-Length: 99999999999999999999\r\n\r\nabc`,
    `POST / HTTP/1.1\r\n${HOST}Content-Length: 3\r\n${CHUNKED}\r\n0\r\n\r\n`,
    `POST / HTTP/1.1\r\n${HOST}${CHUNKED}Content-Length: 3\r\n\r\n0\r\n\r\n`,
    `POST / HTTP/1.1\r\n${HOST}Transfer-Encoding: gzip\r\n\r\n0\r\n\r\n`,
    `POST / HTTP/1.1\r\n${HOST}Transfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n`,
    `POST / HTTP/1.1\r\n${HOST}Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n`,
    ...[
      "3\r\nabc\r\n0\r\n\r\n",
      "3;a=b;c\r\nabc\r\n000\r\n\r\n",
      '3;a="b;c"\r\nabc\r\n0\r\nX: y\r\nx:z\r\n\r\n',
      "3\r\nabc0\r\n\r\n",
      "3\nabc\r\n0\r\n\r\n",
      "3\r\nabc\n0\r\n\r\n",
      "3 \r\nabc\r\n0\r\n\r\n",
      "0x3\r\nabc\r\n0\r\n\r\n",
      "3;a\nb\r\nabc\r\n0\r\n\r\n",
      "\r\n0\r\n\r\n",
      "fffffffffffffffff\r\nabc",
      "0\r\nX : y\r\n\r\n",
      "0\r\nX: y\n\r\n",
    ].map((body) => `POST / HTTP/1.1\r\n${HOST}${CHUNKED}\r\n${body}`),
  ],
  response: [
    "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
    "HTTP/1.1 200 \r\nContent-Length: 0\r\n\r\n",
    "HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n",
    "HTTP/1.1 200 Tr\xe8s bien\r\nContent-Length: 0\r\n\r\n",
    "HTTP/1.1 200 OK\r\n\r\nuntil the close",
    "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nok",
    "HTTP/1.1 204 x\r\nContent-Length: 5\r\n\r\n",
    "HTTP/1.1 304 x\r\nContent-Length: 5\r\n\r\n",
    "HTTP/1.1 2000 OK\r\n\r\n",
    "HTTP/1.1 20 OK\r\n\r\n",
    "ICY 200 OK\r\n\r\n",
    "HTTP/1.1 200 OK\nContent-Length: 0\r\n\r\n",
    "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n",
    `HTTP/1.1 200 OK\r\nContent-Length: 5\r\n${CHUNKED}\r\n0\r\n\r\n`,
    `HTTP/1.1 200 OK\r\n${CHUNKED}\r\n3\r\nabc\r\n0\r\nX: y\r\n\r\n`,
    `HTTP/1.1 200 OK\r\n${CHUNKED}\r\n3\r\nab`,
  ],
};

const DIFFERENT: Record<Side, [text: string, difference: Difference, reason: string][]> = {
  request: [
    ["GET / HTTP/1.1\r\n\r\n", "ours is stricter", "node:http asks for Host above llhttp"],
    [`GET / HTTP/1.1\r\n${HOST}${HOST}\r\n`, "ours is stricter", "so for a second Host"],
    ["GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", "ours is stricter", "a Host that is none"],
    [`GET / HTTP/2.0\r\n${HOST}\r\n`, "ours is stricter", "another major version"],
    [`GET  / HTTP/1.1\r\n${HOST}\r\n`, "ours is stricter", "exactly one SP between parts"],
    [`\rGET / HTTP/1.1\r\n${HOST}\r\n`, "ours is stricter", "a bare CR"],
    [`\nGET / HTTP/1.1\r\n${HOST}\r\n`, "ours is stricter", "a bare LF before the line"],
    [
      `POST / HTTP/1.0\r\n${CHUNKED}\r\n0\r\n\r\n`,
      "ours is stricter",
      "faulty framing by RFC 9112 6.1",
    ],
    [
      `POST / HTTP/1.1\r\n${HOST}Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n`,
      "ours is stricter",
      "a coding that would be lost on the way",
    ],
    [
      `CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\nContent-Length: 3\r\n\r\nabc`,
      "ours is stricter",
      "CONNECT has no content",
    ],
    [`BREW / HTTP/1.1\r\n${HOST}\r\n`, "ours is looser", "every token is a method"],
    [`GET / HTTP/1.7\r\n${HOST}\r\n`, "ours is looser", "a later minor version is read as 1.1"],
    [`GET x HTTP/1.1\r\n${HOST}\r\n`, "ours is looser", "whoever routes judges the target's form"],
    [
      `POST / HTTP/1.1\r\n${HOST}${CHUNKED}\r\n3 ;a\r\nabc\r\n0\r\n\r\n`,
      "ours is looser",
      "RFC 9112 7.1.1 has blanks before an extension",
    ],
    [
      `POST / HTTP/1.1\r\n${HOST}${CHUNKED}\r\n3;\r\nabc\r\n0\r\n\r\n`,
      "ours is looser",
      "extensions are skipped, not read",
    ],
  ],
  response: [
    ["\r\nHTTP/1.1 200 OK\r\n\r\n", "ours is stricter", "an empty line before a response"],
    ["HTTP/2.0 200 OK\r\n\r\n", "ours is stricter", "another major version"],
    ["HTTP/1.1 099 x\r\n\r\n", "ours is stricter", "no status code"],
    ["HTTP/1.1 200 a\x7f\r\n\r\n", "ours is stricter", "a control in the reason phrase"],
    ["HTTP/1.1 200 a\0\r\n\r\n", "ours is stricter", "a control in the reason phrase"],
    [`HTTP/1.0 200 x\r\n${CHUNKED}\r\n0\r\n\r\n`, "ours is stricter", "RFC 9112 6.1"],
    ["HTTP/1.1 200 x\r\nTransfer-Encoding: gzip\r\n\r\n", "ours is stricter", "never offered"],
    [`HTTP/1.1 200 x\r\n${CHUNKED}${CHUNKED}\r\n0\r\n\r\n`, "ours is stricter", "chunked twice"],
    ["HTTP/1.3 200 x\r\n\r\n", "ours is looser", "a later minor version is read as 1.1"],
    ["HTTP/1.1 204 x\r\nContent-Length: x\r\n\r\n", "ours is looser", "no body, whatever it says"],
    [
      "HTTP/1.1 200 x\r\nContent-Length: 2, 2\r\n\r\nok",
      "ours is looser",
      "values that agree, RFC 9112 6.3",
    ],
  ],
};

for (const side of ["request", "response"] as const) {
  Deno.test(`A ${side} is read as llhttp reads it, whole and cut at every octet`, () => {
    const samples = side === "request" ? REQUEST_SAMPLES : RESPONSE_SAMPLES;
    const agreed = samples.filter((sample) => !isListed(side, sample.text));
    for (const text of [...agreed.map((sample) => sample.text), ...AGREED[side]]) {
      const bytes = latin1(text);
      const expected = readWithLlhttp(side, bytes, []);
      for (let cut = 0; cut <= bytes.length; cut++) {
        assert.deepEqual(read(side, bytes, [cut]), expected, `cut ${cut}: ${JSON.stringify(text)}`);
      }
      const octets = Array.from(bytes, (_, i) => i);
      assert.deepEqual(readWithLlhttp(side, bytes, octets), expected, "llhttp depends on the cut");
    }
  });

  Deno.test(`Each listed difference to llhttp in a ${side} is there`, () => {
    for (const [text, difference, reason] of DIFFERENT[side]) {
      const bytes = latin1(text);
      const ours = read(side, bytes, []).refused;
      const theirs = readWithLlhttp(side, bytes, []).refused;
      assert.deepEqual(
        { ours, theirs },
        { ours: difference === "ours is stricter", theirs: difference === "ours is looser" },
        `${reason}: ${JSON.stringify(text)}`,
      );
    }
  });
}

/** Samples that show a listed difference. */
function isListed(side: Side, text: string): boolean {
  return side === "request" && (/^00A \t;x/m.test(text) || /^Host: ::1/m.test(text));
}

function read(side: Side, bytes: Uint8Array, cuts: number[]): Reading {
  const { messages, status } = readConnection(bytes, { side, maxHeadBytes: 65_536, cuts });
  const message = messages[0];
  if (message === undefined || (status !== 0 && !message.complete)) {
    return { refused: status !== 0 };
  }
  const { start, fields, body, complete } = message;
  return { refused: false, start, fields, body, trailers: message.trailers ?? [], complete };
}

function readWithLlhttp(side: Side, bytes: Uint8Array, cuts: number[]): Reading {
  const fields: [string, string][] = [];
  const trailers: [string, string][] = [];
  let start: [string, string] | null = null;
  let body = "";
  let complete = false;
  let refused = false;
  const parser = new HTTPParser();
  parser.initialize(side === "request" ? HTTPParser.REQUEST : HTTPParser.RESPONSE, {}, 65_536);
  parser[HTTPParser.kOnHeaders] = (flat: string[]) => {
    if (!complete) addPairs(start === null ? fields : trailers, flat);
  };
  parser[HTTPParser.kOnHeadersComplete] = (
    ...facts: [number, number, string[] | null, number, string | null, number, string]
  ): number => {
    const [, , flat, method, target, status, reason] = facts;
    if (start !== null) return 0;
    start = side === "request" ? [METHODS[method] ?? "?", target ?? ""] : [`${status}`, reason];
    addPairs(fields, flat ?? []);
    return 0;
  };
  parser[HTTPParser.kOnBody] = (data: Uint8Array) => {
    if (!complete) body += Buffer.from(data).toString("latin1");
  };
  parser[HTTPParser.kOnMessageComplete] = () => {
    complete = true;
  };
  let from = 0;
  for (const to of [...cuts, bytes.length]) {
    const result = parser.execute(Buffer.from(bytes.slice(from, to)));
    from = to;
    if (complete || result instanceof Error) {
      refused = !complete;
      break;
    }
  }
  if (!refused) parser.finish(); // completes what ends with the connection
  parser.close();
  return start === null || refused
    ? { refused }
    : { refused, start, fields, body, trailers, complete };
}

/** llhttp's numbers of the methods used here. */
const METHODS = ["DELETE", "GET", "HEAD", "POST", "PUT", "CONNECT", "OPTIONS", "TRACE"];

function addPairs(to: [string, string][], flat: string[]): void {
  for (let i = 0; i < flat.length; i += 2) to.push([flat[i]!, flat[i + 1]!]);
}
