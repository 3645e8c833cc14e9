import assert from "node:assert/strict";
import { latin1 } from "../../lib/http1/encode.ts";
import { FieldId } from "../../lib/http1/field.ts";
import { parseRequestHead } from "../../lib/http1/parse.ts";
import { REQUEST_SAMPLES } from "./corpus.ts";
import { chars, pairs, readText, refusal, requestHead } from "./reader.ts";

const HOST = "Host: app.example\r\n";

function sample(name: string): string {
  return REQUEST_SAMPLES.find((each) => each.name === name)!.text;
}

function withFields(lines: string): string {
  return `POST / HTTP/1.1\r\n${HOST}${lines}\r\n`;
}

/** What refuses a complete head, from the scanner to the framing. */
function statusOf(text: string): number {
  return refusal(() => requestHead(text));
}

Deno.test("A request target comes through octet by octet (F02)", () => {
  const head = requestHead(sample("F02-path-bytes"));
  assert.equal(head.method, "GET");
  assert.equal(head.target, "/f02/queues/%2F/a%2fb//c/../d/./e;v=1?x=%2f&&y=&z");
  assert.equal(head.minor, 1);
});

Deno.test("Content-Length with Transfer-Encoding is refused and nothing behind is read (F03)", () => {
  const outcome = readText(sample("F03-cl-and-te"), { side: "request" });
  assert.equal(outcome.status, 400);
  assert.deepEqual(outcome.messages, []);
});

Deno.test("Two Content-Lengths are refused, different or not (F04)", () => {
  assert.equal(readText(sample("F04-two-content-lengths"), { side: "request" }).status, 400);
  assert.equal(statusOf(withFields("Content-Length: 5\r\nContent-Length: 5\r\n")), 400);
  assert.equal(statusOf(withFields("Content-Length: 5, 5\r\n")), 400);
});

Deno.test("A blank before the colon and a folded line are refused (F05)", () => {
  assert.equal(statusOf(sample("F05-space-before-colon")), 400);
  assert.equal(statusOf(sample("F05-obs-fold")), 400);
  assert.equal(statusOf(`GET / HTTP/1.1\r\n ${HOST}\r\n`), 400);
  assert.equal(statusOf(`GET / HTTP/1.1\r\n${HOST}\tx\r\n\r\n`), 400);
});

Deno.test("Fields that Connection names are told apart (F06)", () => {
  const head = requestHead(sample("F06-connection-nominated"));
  const nominated = pairs(head).filter((_, i) => head.isNominated(i)).map(([name]) => name);
  assert.deepEqual(nominated, ["X-Hop"]);
  assert.equal(head.keepAlive, false);
});

Deno.test("Connection cannot name away framing, Host and what others rely on", () => {
  const kept = [
    "Content-Length: 1",
    "Content-Type: a",
    "Content-Security-Policy: b",
    "Via: 1.1 x",
    "Date: d",
    "Forwarded: for=a",
    "X-Forwarded-For: a",
    "X-Forwarded-Proto: a",
    "X-Forwarded-Prefix: a",
  ];
  const dropped = ["Cookie: a", "X-Own: 1", "keep-alive: 1", "Upgrade: x", "TE: trailers"];
  const names = ["Host", ...kept, ...dropped].map((line) => line.split(":")[0]!.toUpperCase());
  const half = names.length >> 1;
  const head = requestHead(withFields(
    `connection: ${names.slice(0, half).join(", ,")}\r\n${[...kept, ...dropped].join("\r\n")}\r\n` +
      `X-Other: 2\r\nCONNECTION:\t,${names.slice(half).join("\t,")},\r\n`,
  ));
  const nominated = pairs(head).filter((_, i) => head.isNominated(i));
  assert.deepEqual(nominated.map((pair) => pair.join(": ")), dropped);
});

Deno.test("A request without framing fields has no body; Content-Length gives one to any method (F09)", () => {
  assert.deepEqual(requestHead(sample("F09-delete-no-body")).framing, { kind: "none", length: 0 });
  const outcome = readText(sample("F09-get-with-body"), { side: "request" });
  assert.equal(outcome.messages[0]!.framing, "length 5");
  assert.equal(outcome.messages[0]!.body, "hello");
});

Deno.test("Field lines keep case, order, duplicates and octets (F10)", () => {
  const text = sample("F10-header-bytes");
  const head = requestHead(text);
  assert.deepEqual(pairs(head), [
    ["Host", "app.example"],
    ["X-Empty", ""],
    ["X-Dup", "1"],
    ["x-dup", "2"],
    ["X-Dup", "1"],
    ["Cookie", "a=1"],
    ["Cookie", "b=2"],
    ["X-Latin1", "caf\xe9"],
    ["X-Utf8", "caf\xc3\xa9"],
    ["X-Tab", "a\tb"],
  ]);
  const lines = pairs(head).map((_, i) =>
    chars(head.bytes.subarray(head.lineStart(i), head.lineEnd(i)))
  );
  assert.equal("GET /f10 HTTP/1.1\r\n" + lines.join("") + "\r\n", text);
});

Deno.test("Each octet of obs-text comes through as one code point, 0x80 to 0x9F too", () => {
  const value = Array.from({ length: 128 }, (_, i) => String.fromCharCode(0x80 + i)).join("");
  for (const text of [value, "\xef\xbb\xbf", "\xef\xbf\xbd", "\xe2\x82\xac\xff"]) {
    assert.equal(requestHead(withFields(`X: ${text}\r\n`)).value(1), text);
  }
});

Deno.test("Blanks around a value are no part of it, but of the line", () => {
  const head = requestHead(withFields("A:\t b \tc \t\r\nB: \t \r\n"));
  assert.equal(head.value(1), "b \tc");
  assert.equal(head.value(2), "");
  assert.equal(head.valueStart(2), head.valueEnd(2));
  assert.equal(head.lineEnd(1) - head.lineStart(1), "A:\t b \tc \t\r\n".length);
});

Deno.test("Fields are found by id, and lowerName is the name without its case", () => {
  const head = requestHead(withFields("COOKIE: a\r\nX-Own: b\r\ncookie: c\r\n"));
  assert.equal(head.indexOf(FieldId.Cookie), 1);
  assert.equal(head.indexOf(FieldId.Cookie, 2), 3);
  assert.equal(head.indexOf(FieldId.Cookie, 4), -1);
  assert.equal(head.indexOf(FieldId.Via), -1);
  assert.equal(head.indexOf(FieldId.Other), 2);
  assert.deepEqual([0, 1, 2, 3].map((i) => head.lowerName(i)), [
    "host",
    "cookie",
    "x-own",
    "cookie",
  ]);
});

Deno.test("Method and target stay good when the buffer is used again", () => {
  const bytes = latin1(withFields("X-A: 1\r\n"));
  const head = parseRequestHead(bytes, 0, bytes.length);
  bytes.fill(0x58);
  assert.deepEqual([head.method, head.target, head.value(1)], ["POST", "/", "1"]);
});

Deno.test("A few empty lines before the request line are skipped", () => {
  assert.equal(requestHead("\r\n\r\n" + sample("F02-path-bytes")).method, "GET");
});

Deno.test("Malformed request lines are refused", () => {
  for (
    const line of [
      "",
      "GET",
      "GET /",
      "GET / ",
      "GET  / HTTP/1.1",
      "GET /  HTTP/1.1",
      "GET / HTTP/1.1 ",
      " GET / HTTP/1.1",
      "GET\t/ HTTP/1.1",
      "GET /\tHTTP/1.1",
      "G(T / HTTP/1.1",
      "GET /a b HTTP/1.1",
      "GET /caf\xe9 HTTP/1.1",
      "GET /\x7f HTTP/1.1",
      "GET / http/1.1",
      "GET / HTTP/1",
      "GET / HTTP/1.",
      "GET / HTTP/.1",
      "GET / HTTP/11",
      "GET / HTTP/1.10",
      "GET / HTTP/01.1",
      "GET / HTTP/1.1x",
      "GET / HTTP/a.1",
      "GET / HTTP 1.1",
      "GET / HTTPS/1.1",
    ]
  ) {
    assert.equal(statusOf(`${line}\r\n${HOST}\r\n`), 400, JSON.stringify(line));
  }
});

Deno.test("Other major versions are answered 505, later minor ones count as 1.1", () => {
  assert.equal(statusOf("PRI * HTTP/2.0\r\n\r\n"), 505);
  assert.equal(statusOf(`GET / HTTP/0.9\r\n${HOST}\r\n`), 505);
  assert.equal(requestHead(`GET / HTTP/1.7\r\n${HOST}\r\n`).minor, 1);
  assert.equal(requestHead("GET / HTTP/1.0\r\n\r\n").minor, 0);
});

Deno.test("Malformed field lines are refused", () => {
  for (
    const line of [
      "A",
      ": b",
      "A : b",
      "A\t: b",
      "A b: c",
      "\xe9: b",
      "A(: b",
      "A: b\x01c",
      "A: b\x7f",
      "A: b\x1f",
      "A\x0b: b",
    ]
  ) {
    assert.equal(statusOf(withFields(`${line}\r\nB: c\r\n`)), 400, JSON.stringify(line));
  }
});

Deno.test("A head that does not end with an empty line, or ends too early, is refused by the parser alone", () => {
  const whole = latin1(withFields("A: b\r\n"));
  for (let end = 0; end < whole.length; end++) {
    assert.equal(refusal(() => parseRequestHead(whole, 0, end)), 400, `end ${end}`);
  }
  assert.equal(refusal(() => parseRequestHead(whole, 0, whole.length + 4)), 400);
  for (const text of ["\r\n\r\n", "\r\n\r\n\r\n\r\n", "\r\n\r\nA\r\n\r\n"]) {
    const bytes = latin1(text);
    assert.equal(refusal(() => parseRequestHead(bytes, 0, bytes.length)), 400);
  }
  const ahead = latin1("\r\n\r\nGET / HTTP/1.0\r\n\r\n");
  assert.equal(refusal(() => parseRequestHead(ahead, 0, 4)), 400, "read behind the end");
  const inner = latin1(`GET / HTTP/1.1\r\n${HOST}\r\nGET / HTTP/1.1\r\n${HOST}\r\n`);
  assert.equal(refusal(() => parseRequestHead(inner, 0, inner.length)), 400);
});

Deno.test("HTTP/1.1 asks for exactly one valid Host, HTTP/1.0 for at most one", () => {
  const get = (minor: number, lines: string) => statusOf(`GET / HTTP/1.${minor}\r\n${lines}\r\n`);
  assert.equal(get(1, ""), 400);
  assert.equal(get(0, ""), 0);
  assert.equal(get(1, HOST + HOST), 400);
  assert.equal(get(0, HOST + HOST), 400);
  for (
    const host of [
      "",
      "a",
      "a:80",
      "a:",
      "a_b.example:8080",
      "127.0.0.1",
      "[::1]",
      "[::1]:80",
      "[v1.a:b]",
      "%C3%A9.example",
      "a~b!c",
    ]
  ) {
    assert.equal(get(1, `Host: ${host}\r\n`), 0, host);
  }
  for (
    const host of [
      "a b",
      "a/b",
      "user@a",
      "a:b",
      "a:80:80",
      "a?b",
      "a#b",
      "caf\xe9",
      "::1",
      "[::1",
      "[]",
      "[::1]x",
      "[::1]:x",
      "[:/]",
      "%",
      "%4",
      "%4g",
      "a\\b",
      "a<b",
      '"a"',
    ]
  ) {
    assert.equal(get(1, `Host: ${host}\r\n`), 400, host);
    assert.equal(get(0, `Host: ${host}\r\n`), 400, host);
  }
});

Deno.test("Content-Length is digits within the safe integers", () => {
  const framing = (value: string) =>
    requestHead(withFields(`Content-Length: ${value}\r\n`)).framing;
  assert.deepEqual(framing("0"), { kind: "length", length: 0 });
  assert.deepEqual(framing("007"), { kind: "length", length: 7 });
  assert.deepEqual(framing("9007199254740991"), { kind: "length", length: 2 ** 53 - 1 });
  for (
    const value of [
      "",
      "+5",
      "-5",
      "5.0",
      "0x5",
      "5a",
      "5 5",
      "5,",
      ",5",
      "1e3",
      "9007199254740992",
      "9".repeat(400),
      "\xb2",
    ]
  ) {
    assert.equal(statusOf(withFields(`Content-Length: ${value}\r\n`)), 400, value);
  }
});

Deno.test("Transfer-Encoding is chunked, once and alone", () => {
  for (const value of ["chunked", "Chunked", "CHUNKED \t"]) {
    const { framing } = requestHead(withFields(`Transfer-Encoding: ${value}\r\n`));
    assert.deepEqual(framing, { kind: "chunked", length: -1 });
  }
  assert.equal(statusOf(withFields("Transfer-Encoding: gzip, chunked\r\n")), 501);
  assert.equal(statusOf(withFields("Transfer-Encoding: gzip, chunked\xa0\r\n")), 400);
  for (
    const value of [
      "gzip",
      "identity",
      "chunked, gzip",
      "xchunked",
      "chunked;a=b",
      "",
      ",",
      "chunked,",
      ",chunked",
      "chunked, chunked",
      "chunked\r\nTransfer-Encoding: chunked",
    ]
  ) {
    assert.equal(statusOf(withFields(`Transfer-Encoding: ${value}\r\n`)), 400, value);
  }
  assert.equal(
    statusOf(withFields("Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n")),
    501,
  );
  assert.equal(statusOf(withFields("Transfer-Encoding: chunked\r\nContent-Length: 0\r\n")), 400);
  assert.equal(statusOf("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n"), 400);
});

Deno.test("CONNECT has no body, and a request that declares one for it is refused", () => {
  const connect = (lines: string) => `CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n${lines}\r\n`;
  assert.deepEqual(requestHead(connect("")).framing, { kind: "none", length: 0 });
  assert.deepEqual(requestHead(connect("Content-Length: 0\r\n")).framing, {
    kind: "none",
    length: 0,
  });
  assert.equal(statusOf(connect("Content-Length: 5\r\n")), 400);
  assert.equal(statusOf(connect("Transfer-Encoding: chunked\r\n")), 400);
});

Deno.test("A connection persists as RFC 9112 9.3 says, whatever Proxy-Connection says", () => {
  const keepAlive = (minor: number, lines: string) =>
    requestHead(`GET / HTTP/1.${minor}\r\n${HOST}${lines}\r\n`).keepAlive;
  assert.equal(keepAlive(1, ""), true);
  assert.equal(keepAlive(1, "Connection: close\r\n"), false);
  assert.equal(keepAlive(1, "Connection: x, CLOSE\r\n"), false);
  assert.equal(keepAlive(1, "Connection: keep-alive\r\nConnection: close\r\n"), false);
  assert.equal(keepAlive(1, "Connection: closed\r\n"), true);
  assert.equal(keepAlive(1, "Proxy-Connection: close\r\n"), true);
  assert.equal(keepAlive(0, ""), false);
  assert.equal(keepAlive(0, "Connection: Keep-Alive\r\n"), true);
  assert.equal(keepAlive(0, "Connection: keep-alive, close\r\n"), false);
  assert.equal(keepAlive(0, "Proxy-Connection: keep-alive\r\n"), false);
});

Deno.test("Expect and Upgrade count in HTTP/1.1 only, and Upgrade only if Connection names it", () => {
  const head = (minor: number, lines: string) =>
    requestHead(`GET / HTTP/1.${minor}\r\n${HOST}${lines}\r\n`);
  assert.equal(head(1, "Expect: 100-Continue\r\n").expectContinue, true);
  assert.equal(head(1, "Expect: other\r\n").expectContinue, false);
  assert.equal(head(1, "").expectContinue, false);
  assert.equal(head(0, "Expect: 100-continue\r\n").expectContinue, false);
  assert.equal(head(1, "Upgrade: websocket\r\nConnection: Upgrade\r\n").upgrade, true);
  assert.equal(head(1, "Upgrade: websocket\r\n").upgrade, false);
  assert.equal(head(1, "Connection: upgrade\r\n").upgrade, false);
  assert.equal(head(1, "Upgrade:\r\nConnection: upgrade\r\n").upgrade, false);
  assert.equal(head(1, "Upgrade:\r\nConnection: upgrade\r\nUpgrade: x\r\n").upgrade, true);
  assert.equal(head(0, "Upgrade: websocket\r\nConnection: Upgrade\r\n").upgrade, false);
});

Deno.test("A head full of Connection members and fields is judged in linear time", () => {
  const count = 20_000;
  const members = Array.from({ length: count }, (_, i) => `x${i}`).join(",");
  const lines = Array.from({ length: count }, (_, i) => `y${i}:\r\n`).join("");
  const bytes = latin1(withFields(`Connection: ${members}\r\n${lines}`));
  const head = parseRequestHead(bytes, 0, bytes.length);
  const started = performance.now();
  for (let i = 0; i < head.count; i++) assert.equal(head.isNominated(i), false);
  assert.ok(performance.now() - started < 1000);
});
