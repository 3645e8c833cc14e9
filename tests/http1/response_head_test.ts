import assert from "node:assert/strict";
import { latin1 } from "../../lib/http1/encode.ts";
import { parseFieldBlock, parseResponseHead } from "../../lib/http1/parse.ts";
import { RESPONSE_SAMPLES } from "./corpus.ts";
import { chars, pairs, readText, refusal, responseHead } from "./reader.ts";

function sample(name: string): string {
  return RESPONSE_SAMPLES.find((each) => each.name === name)!.text;
}

function framingOf(status: number, lines: string, requestMethod = "GET"): string {
  const { kind, length } =
    responseHead(`HTTP/1.1 ${status} x\r\n${lines}\r\n`, requestMethod).framing;
  return `${kind} ${length}`;
}

function statusOf(lines: string, status = 200, requestMethod = "GET"): number {
  return refusal(() => framingOf(status, lines, requestMethod));
}

Deno.test("Set-Cookie lines stay three, in order, with their octets (F13)", () => {
  const { messages } = readText(sample("F13-upstream-set-cookie"), { side: "response" });
  assert.deepEqual(messages[0]!.fields, [
    ["Set-Cookie", "sid=1; Path=/"],
    ["Set-Cookie", "lang=en; Expires=Wed, 09 Jun 2032 10:18:14 GMT; Path=/"],
    ["Set-Cookie", "sid=1; Path=/app"],
    ["Content-Length", "2"],
  ]);
  assert.equal(messages[0]!.body, "ok");
});

Deno.test("An answer to HEAD ends with its head, whatever it declares (F14)", () => {
  for (const name of ["F14-upstream-head-length", "F14-upstream-head-chunked"]) {
    const { messages, status } = readText(sample(name), {
      side: "response",
      requestMethod: "HEAD",
    });
    assert.equal(status, 0);
    assert.equal(messages[0]!.framing, "none 0");
    assert.equal(messages[0]!.keepAlive, true);
    assert.equal(messages[0]!.complete, true);
  }
});

Deno.test("1xx, 204 and 304 have no body, whatever they declare (F15)", () => {
  for (const name of ["F15-upstream-304-chunked", "F15-upstream-204-length"]) {
    const next = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
    const { messages } = readText(sample(name) + next, { side: "response" });
    assert.deepEqual(messages.map((message) => message.framing), ["none 0", "length 0"]);
    assert.equal(messages[0]!.keepAlive, true);
  }
  assert.equal(framingOf(103, "Content-Length: 5\r\n"), "none 0");
  assert.equal(framingOf(204, "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n"), "none 0");
  assert.equal(framingOf(304, "Content-Length: 5\r\n"), "none 0");
});

Deno.test("A coded body and its length come through untouched (F16)", () => {
  const text = sample("F16-upstream-gzip");
  const { messages } = readText(text, { side: "response" });
  assert.equal(messages[0]!.framing, "length 29");
  assert.equal(messages[0]!.body, text.slice(text.indexOf("\r\n\r\n") + 4));
  assert.equal(messages[0]!.body.length, 29);
});

Deno.test("A body that is cut off hands out what came and is not complete (F17)", () => {
  for (const name of ["F17-upstream-short-length", "F17-upstream-short-chunked"]) {
    const { messages, status } = readText(sample(name), { side: "response" });
    assert.equal(status, 0);
    assert.equal(messages[0]!.body, "0123456789");
    assert.equal(messages[0]!.complete, false);
  }
});

Deno.test("An interim response is followed by the final one", () => {
  const { messages } = readText(sample("F18-upstream-103"), { side: "response" });
  assert.deepEqual(messages.map((message) => message.start[0]), ["103", "200"]);
});

Deno.test("The reason phrase may be empty, with or without its SP, and may hold obs-text", () => {
  const reason = (line: string) => responseHead(`${line}\r\n\r\n`).reason;
  assert.equal(reason("HTTP/1.1 200"), "");
  assert.equal(reason("HTTP/1.1 200 "), "");
  assert.equal(reason("HTTP/1.1 200 Tr\xe8s bien\t!"), "Tr\xe8s bien\t!");
  assert.equal(reason("HTTP/1.1 200  two"), " two");
});

Deno.test("Malformed status lines are refused", () => {
  for (
    const line of [
      "",
      "HTTP/1.1",
      "HTTP/1.1 ",
      "HTTP/1.1 20",
      "HTTP/1.1 2000 OK",
      "HTTP/1.1 20x OK",
      "HTTP/1.1 099 x",
      "HTTP/1.1  200 OK",
      "HTTP/1.1\t200 OK",
      "HTTP/1.1 200\tOK",
      "http/1.1 200 OK",
      "HTTP/1.12 200 OK",
      "ICY 200 OK",
      " HTTP/1.1 200 OK",
      "\r\nHTTP/1.1 200 OK",
      "HTTP/1.1 200 O\x7fK",
      "200 OK",
    ]
  ) {
    const read = () => responseHead(`${line}\r\nA: b\r\n\r\n`);
    assert.equal(refusal(read), 400, JSON.stringify(line));
  }
  assert.equal(refusal(() => responseHead("HTTP/2.0 200 OK\r\n\r\n")), 505);
  assert.equal(responseHead("HTTP/1.2 200 OK\r\n\r\n").minor, 1);
  assert.equal(responseHead("HTTP/1.1 999 OK\r\n\r\n").status, 999);
});

Deno.test("Field lines of a response are held to the same rules as those of a request", () => {
  for (const line of ["A : b", " A: b", "A", ": b", "A: b\x01"]) {
    assert.equal(
      refusal(() => responseHead(`HTTP/1.1 200 OK\r\nX: y\r\n${line}\r\n\r\n`)),
      400,
      line,
    );
  }
});

Deno.test("The framing of a response follows RFC 9112 6.3", () => {
  assert.equal(framingOf(200, ""), "close -1");
  assert.equal(framingOf(200, "Content-Length: 5\r\n"), "length 5");
  assert.equal(framingOf(200, "Transfer-Encoding: chunked\r\n"), "chunked -1");
  assert.equal(framingOf(200, "Content-Length: 5\r\n", "CONNECT"), "none 0");
  assert.equal(
    framingOf(299, "Transfer-Encoding: x\r\nContent-Length: y\r\n", "CONNECT"),
    "none 0",
  );
  assert.equal(framingOf(407, "Content-Length: 5\r\n", "CONNECT"), "length 5");
  assert.equal(framingOf(101, "Upgrade: x\r\n"), "none 0");
});

Deno.test("Content-Lengths that agree count as one in a response, others are refused", () => {
  assert.equal(framingOf(200, "Content-Length: 5, 5 ,\t05\r\n"), "length 5");
  assert.equal(framingOf(200, "Content-Length: 5\r\nContent-Length: 5,5\r\n"), "length 5");
  for (
    const lines of [
      "Content-Length: 5, 6\r\n",
      "Content-Length: 5\r\nContent-Length: 6\r\n",
      "Content-Length: 5,\r\n",
      "Content-Length: ,5\r\n",
      "Content-Length: 5 5\r\n",
      "Content-Length:\r\n",
      "Content-Length: -1\r\n",
      "Content-Length: 9007199254740992\r\n",
    ]
  ) {
    assert.equal(statusOf(lines), 400, lines);
    assert.equal(statusOf(lines, 200, "HEAD"), 400, lines);
    assert.equal(statusOf(lines, 304), 400, lines);
  }
});

Deno.test("Transfer-Encoding of a response is chunked alone, without a length, in HTTP/1.1", () => {
  assert.equal(statusOf("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n"), 400);
  assert.equal(statusOf("Transfer-Encoding: gzip\r\n"), 400);
  assert.equal(statusOf("Transfer-Encoding: gzip, chunked\r\n"), 501);
  assert.equal(statusOf("Transfer-Encoding: identity\r\n"), 400);
  assert.equal(statusOf("Transfer-Encoding: chunked, chunked\r\n"), 400);
  const old = "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
  assert.equal(refusal(() => responseHead(old)), 400);
});

Deno.test("An upstream connection goes on only where another response can follow", () => {
  const keepAlive = (start: string, lines: string, method = "GET") =>
    responseHead(`HTTP/1.${start} x\r\n${lines}\r\n`, method).keepAlive;
  const length = "Content-Length: 0\r\n";
  assert.equal(keepAlive("1 200", length), true);
  assert.equal(keepAlive("1 200", length + "Connection: close\r\n"), false);
  assert.equal(keepAlive("1 200", ""), false);
  assert.equal(keepAlive("0 200", length), false);
  assert.equal(keepAlive("0 200", length + "Connection: keep-alive\r\n"), true);
  assert.equal(keepAlive("1 100", ""), true);
  assert.equal(keepAlive("1 101", "Connection: upgrade\r\nUpgrade: x\r\n"), false);
  assert.equal(keepAlive("1 200", "", "CONNECT"), false);
  assert.equal(keepAlive("1 407", length, "CONNECT"), true);
});

Deno.test("A response that Connection names a field of tells it (F06)", () => {
  const head = responseHead("HTTP/1.1 200 OK\r\nConnection: X-Up\r\nX-Up: 1\r\nX-End: 2\r\n\r\n");
  assert.deepEqual([0, 1, 2].map((i) => head.isNominated(i)), [false, true, false]);
});

Deno.test("A response head is read in place, at any offset of the buffer", () => {
  const text = sample("F19-upstream-302");
  const bytes = latin1("xxxx" + text + "yyyy");
  const end = 4 + text.indexOf("\r\n\r\n") + 4;
  const head = parseResponseHead(bytes, 4, end, "GET");
  assert.equal(head.status, 302);
  assert.equal(head.lineEnd(head.count - 1), end - 2);
});

Deno.test("parseFieldBlock reads lines without an empty line behind them", () => {
  const text = "Set-Cookie: a\r\nX-B:\r\nset-cookie: \xe9\r\n";
  const bytes = latin1("zz" + text + "zz");
  const fields = parseFieldBlock(bytes, 2, 2 + text.length);
  assert.deepEqual(pairs(fields), [["Set-Cookie", "a"], ["X-B", ""], ["set-cookie", "\xe9"]]);
  assert.equal(chars(bytes.subarray(fields.lineStart(0), fields.lineEnd(2))), text);
  assert.equal(parseFieldBlock(bytes, 2, 2).count, 0);
});

Deno.test("parseFieldBlock refuses what a head would be refused for, and lines cut short", () => {
  const text = "A: b\r\nC: d\r\n";
  for (let end = 1; end < text.length; end++) {
    if (end === 6) continue;
    const cut = latin1(text.slice(0, end));
    assert.equal(refusal(() => parseFieldBlock(cut, 0, end)), 400, `end ${end}`);
    // What lies behind `end` must not make up for what is missing.
    assert.equal(refusal(() => parseFieldBlock(latin1(text), 0, end)), 400, `end ${end}`);
  }
  for (
    const block of ["\r\n", "A: b\r\n\r\n", " A: b\r\n", "A : b\r\n", "A: b\nC: d\r\n", "A: \0\r\n"]
  ) {
    assert.equal(refusal(() => parseFieldBlock(latin1(block), 0, block.length)), 400, block);
  }
  assert.equal(refusal(() => parseFieldBlock(latin1("A: b\r\n"), 0, 20)), 400);
});
