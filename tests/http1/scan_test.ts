import assert from "node:assert/strict";
import { latin1 } from "../../lib/http1/encode.ts";
import { HttpSyntaxError } from "../../lib/http1/parse.ts";
import { HeadScanner } from "../../lib/http1/scan.ts";
import { refusal } from "./reader.ts";

const HEAD = latin1("GET / HTTP/1.1\r\nHost: a\r\nX: \t1\r\n\r\n");

function scan(text: string, maxBytes = 1000): number {
  const bytes = latin1(text);
  return new HeadScanner(maxBytes).scan(bytes, 0, bytes.length);
}

Deno.test("HeadScanner finds the end of a head wherever the input is cut, in any buffer", () => {
  for (let cut = 0; cut < HEAD.length; cut++) {
    const scanner = new HeadScanner(1000);
    assert.equal(scanner.scan(HEAD, 0, cut), -1);
    const moved = new Uint8Array(HEAD.length + 9);
    moved.set(HEAD, 5);
    assert.equal(scanner.scan(moved, 5, 5 + HEAD.length), 5 + HEAD.length, `cut at ${cut}`);
  }
});

Deno.test("HeadScanner finds the end of a head that comes octet by octet", () => {
  const scanner = new HeadScanner(1000);
  for (let end = 0; end < HEAD.length; end++) assert.equal(scanner.scan(HEAD, 0, end), -1);
  assert.equal(scanner.scan(HEAD, 0, HEAD.length), HEAD.length);
});

Deno.test("HeadScanner looks at no octet twice, so a slow head costs no more than a fast one", () => {
  const bytes = HEAD.slice();
  const scanner = new HeadScanner(1000);
  assert.equal(scanner.scan(bytes, 0, 20), -1);
  bytes.fill(0, 0, 20); // would be refused if it were looked at
  assert.equal(scanner.scan(bytes, 0, bytes.length), bytes.length);
});

Deno.test("HeadScanner is ready for the next head after an end, and after reset", () => {
  const two = new Uint8Array(2 * HEAD.length);
  two.set(HEAD);
  two.set(HEAD, HEAD.length);
  const scanner = new HeadScanner(1000);
  assert.equal(scanner.scan(two, 0, two.length), HEAD.length);
  assert.equal(scanner.scan(two, HEAD.length, two.length - 1), -1);
  scanner.reset();
  assert.equal(scanner.scan(two, 0, two.length), HEAD.length);
});

Deno.test("HeadScanner does not take empty lines before the first line for the end, and bounds them", () => {
  assert.equal(scan("\r\n\r\n\r\n\r\nGET / HTTP/1.1\r\n\r\n"), 26);
  assert.equal(scan("\r\n\r\n"), -1);
  assert.equal(refusal(() => scan("\r\n\r\n\r\n\r\n\r\n")), 400);
});

Deno.test("HeadScanner refuses bare CR, bare LF, NUL and other controls at once", () => {
  for (
    const text of [
      "\n",
      "GET / HTTP/1.1\n",
      "GET / HTTP/1.1\r\nA: b\n",
      "GET / HTTP/1.1\r\n\n",
      "\rG",
      "GET / HTTP/1.1\r\nA: b\rc",
      "GET / HTTP/1.1\r\nA: b\r\r",
      "GET / HTTP/1.1\r\n\r\r",
      "GET /\0",
      "GET / HTTP/1.1\r\nA: \x01",
      "\x16\x03\x01", // a TLS ClientHello
    ]
  ) {
    assert.equal(refusal(() => scan(text)), 400, JSON.stringify(text));
  }
  assert.equal(scan("GET / HTTP/1.1\r\nA: b\r"), -1);
});

Deno.test("HeadScanner takes a head of exactly the limit and refuses one octet more", () => {
  assert.equal(new HeadScanner(HEAD.length).scan(HEAD, 0, HEAD.length), HEAD.length);
  for (let cut = 0; cut < HEAD.length; cut++) {
    const scanner = new HeadScanner(HEAD.length - 1);
    const read = () => {
      scanner.scan(HEAD, 0, cut);
      scanner.scan(HEAD, 0, HEAD.length);
    };
    assert.equal(refusal(read), 431, `cut at ${cut}`);
  }
});

Deno.test("HeadScanner answers 414 when the first line alone is over the limit (F59)", () => {
  assert.equal(refusal(() => scan(`GET /${"0".repeat(1_000_000)} HTTP/1.1\r\n`, 65_536)), 414);
  assert.equal(refusal(() => scan(`\r\nGET /${"0".repeat(100)}`, 100)), 414);
  const cookie = `GET /f59 HTTP/1.1\r\nHost: app.example\r\nCookie: a=`;
  assert.equal(refusal(() => scan(cookie + "0".repeat(1_000_000), 65_536)), 431);
  assert.equal(scan(cookie + "0".repeat(20_000) + "\r\n\r\n", 65_536), cookie.length + 20_004);
  assert.equal(scan(`GET /${"0".repeat(8000)} HTTP/1.1\r\n\r\n`, 65_536), 8018);
});

Deno.test("HttpSyntaxError carries a status, a reason and no octet of the message", () => {
  assert.throws(() => scan("GET /secret\n"), (error) => {
    assert.ok(error instanceof HttpSyntaxError);
    assert.equal(error.name, "HttpSyntaxError");
    assert.equal(error.message, error.reason);
    assert.ok(!error.message.includes("secret"));
    return true;
  });
});
