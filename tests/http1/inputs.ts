/**
 * Whole messages that the oracles and the fuzzers begin with: the corpus, the case files, and small ones
 * that both parsers read alike.
 * @module
 */

import { REQUEST_SAMPLES, RESPONSE_SAMPLES, type Sample } from "./corpus.ts";
import { DIFFERENCES } from "./differences.ts";
import { chars } from "./reader.ts";
import type { Side } from "./reading.ts";

const DATA = new URL("../cases/data/", import.meta.url);

/** Corpus and case files of one side, each octet sequence once. */
export function wholeMessages(side: Side): readonly Sample[] {
  const samples = [...(side === "request" ? REQUEST_SAMPLES : RESPONSE_SAMPLES)];
  const known = new Set(samples.map((sample) => sample.text));
  for (const { name } of Deno.readDirSync(DATA)) {
    if (!name.endsWith(".http") || name.includes("-upstream-") !== (side === "response")) continue;
    const text = chars(Deno.readFileSync(new URL(name, DATA)));
    if (!known.has(text)) samples.push({ name, text });
  }
  return samples.sort((a, b) => a.name < b.name ? -1 : 1);
}

/** All that there is of one side: what the mutations begin with. */
export function everySample(side: Side): readonly Sample[] {
  const others = [
    ...AGREED[side].map((text) => ({ side, name: "agreed", text })),
    ...DIFFERENCES.flatMap(({ name, samples }) => samples.map((sample) => ({ ...sample, name }))),
  ];
  return [...wholeMessages(side), ...others.filter((sample) => sample.side === side)];
}

/** Stands for any octet in `PLACES`. */
export const OCTET = "\ufffd";

const HOST = "Host: app.example\r\n";
const CHUNKED = "Transfer-Encoding: chunked\r\n";

/** Octets that are accepted or refused alike, without any difference. */
export const AGREED: Record<Side, readonly string[]> = {
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
    `GET /caf\xe9 HTTP/1.1\r\n${HOST}\r\n`,
    `GET /a"<>\\^\`{|}# HTTP/1.1\r\n${HOST}\r\n`,
    `GET / HTTP/1.1\r\n${HOST}Connection: x, close\r\n\r\nGET /2 HTTP/1.1\r\n${HOST}\r\n`,
    `GET / HTTP/1.1\r\n${HOST}Connection: close , x\r\n\r\nGET /2 HTTP/1.1\r\n${HOST}\r\n`,
    `GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\nGET /2 HTTP/1.0\r\n\r\n`,
    `GET / HTTP/1.1\r\n${HOST}Connection: upgrade\r\nUpgrade:\r\n\r\nGET /2 HTTP/1.1\r\n${HOST}\r\n`,
    `GET / HTTP/1.1\r\n${HOST}Connection: upgrade\r\nUpgrade: x\r\n\r\nGET /2 HTTP/1.1\r\n\r\n`,
    `POST / HTTP/1.1\r\n${HOST}Content-Length: 3\r\n\r\nabcGET`,
    `POST / HTTP/1.1\r\n${HOST}Content-Length:\r\n\r\n`,
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
      "3\r\nabc\rX0\r\n\r\n",
      "0\r\nContent-Length: 5\r\n\r\n",
      "0\r\nTransfer-Encoding: chunked\r\n\r\n",
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
    "HTTP/1.1 200 OK\r\nA : b\r\n\r\n",
    "HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n",
    "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n",
    `HTTP/1.1 200 OK\r\nContent-Length: 5\r\n${CHUNKED}\r\n0\r\n\r\n`,
    `HTTP/1.1 200 OK\r\n${CHUNKED}\r\n3\r\nabc\r\n0\r\nX: y\r\n\r\n`,
    `HTTP/1.1 200 OK\r\n${CHUNKED}\r\n3\r\nab`,
  ],
};

/** Texts in which any octet may stand for `OCTET`: each place where a parser has to tell octets apart. */
export const PLACES: Record<Side, readonly string[]> = {
  request: [
    ...["%GET /", "G%T /", "GET%/", "GET /%", "GET /a%b", "GET / %", "GET %/"],
    ...["CONNECT a%:1", "CONNECT a:%1", "GET http:/%/a", "GET http://a%b/"],
  ].map((line) => `${line} HTTP/1.1\r\n${HOST}\r\n`)
    .concat(
      ["HTT%/1.1", "HTTP%1.1", "HTTP/%.1", "HTTP/1%1", "HTTP/1.%", "HTTP/1.1%", "HTTP/1.1\r%"]
        .map((version) => `GET / ${version}\r\n${HOST}\r\n`),
      [
        ...["%A: b", "A%: b", "A%B: c", "A:%b", "A: b%c", "A: b%", "A: b\r%", "%", "A: b\r\n%"],
        ...["Content-Length: %3", "Content-Length: 3%", "Transfer-Encoding: chunked%"],
        "Transfer-Encoding: gzip, chunked%",
        ...["Transfer-Encoding: %chunked", "Connection: close%", "Connection: close%x"],
        "Connection: upgrade\r\nUpgrade: %",
      ].map((line) => `POST / HTTP/1.1\r\n${HOST}${line}\r\n\r\n3\r\nabc\r\n0\r\n\r\n`),
      ["a%b", "[::%]", "a:%", "%"].map((host) => `GET / HTTP/1.1\r\nHost: ${host}\r\n\r\n`),
      [
        ...["%\r\n", "3%\r\nabc\r\n", "%3\r\nabc\r\n", "3\r%abc\r\n", "3\r\nabc%\n"],
        ...[
          "3\r\nabc\r%",
          "3\r\nabc\r\n%",
          "3;%\r\nabc\r\n",
          "3;a%b\r\nabc\r\n",
          "3;a=%\r\nabc\r\n",
        ],
        ...[
          '3;a="%"\r\nabc\r\n',
          "0%\r\n\r\n",
          "0\r\n%\r\n",
          "0\r\nX%: y\r\n\r\n",
          "0\r\nX: y%\r\n\r\n",
        ],
        ...["0\r\n\r%", "0\r\nX: y\r%"],
      ].map((body) => `POST / HTTP/1.1\r\n${HOST}${CHUNKED}\r\n${body}0\r\n\r\n`),
    ).map(withPlace),
  response: [
    ...[
      "%HTTP/1.1 200 OK",
      "HTTP/1.1%200 OK",
      "HTTP/1.1 %00 OK",
      "HTTP/1.1 20% OK",
      "HTTP/1.1 200%",
    ],
    ...[
      "HTTP/1.1 200%OK",
      "HTTP/1.1 200 %",
      "HTTP/1.1 200 O%K",
      "HTTP/1.1 200 OK%",
      "HTTP/1.1 200 OK\r%",
    ],
    ...["HTTP/1.1 200 OK\r\n%A: b", "HTTP/1.1 200 OK\r\nA%B: c", "HTTP/1.1 200 OK\r\nA: b%c"],
  ].map((line) => `${line}\r\nContent-Length: 2\r\n\r\nok`)
    .concat(
      [
        ...["Content-Length: %3", "Content-Length: 3%", "Content-Length: 3,%3"],
        ...["Transfer-Encoding: chunked%", "Transfer-Encoding: %chunked"],
        ...["Transfer-Encoding: gzip, chunked%", "Transfer-Encoding: gzip%, chunked"],
        ...["Connection: close%", "Connection: close%x"],
      ].map((line) => `HTTP/1.1 200 OK\r\n${line}\r\n\r\n3\r\nabc\r\n0\r\n\r\n`),
    ).map(withPlace),
};

function withPlace(text: string): string {
  return text.replace("%", OCTET);
}
