import assert from "node:assert/strict";
import { BodyDecoder, type BodyOptions } from "../../lib/http1/body.ts";
import { latin1 } from "../../lib/http1/encode.ts";
import type { Framing } from "../../lib/http1/head.ts";
import { chars, pairs, refusal } from "./reader.ts";

const CHUNKED: Framing = { kind: "chunked", length: -1 };

interface Decoded {
  body: string;
  consumed: number;
  done: boolean;
  trailers: [string, string][] | null;
}

function decode(
  framing: Framing,
  text: string,
  cuts: number[] = [],
  options?: BodyOptions,
): Decoded {
  const decoder = new BodyDecoder(framing, options);
  let body = "";
  let consumed = 0;
  let from = 0;
  for (const to of [...cuts, text.length]) {
    const piece = latin1("::" + text.slice(from, to) + "::");
    const end = decoder.push(piece, 2, piece.length - 2, (bytes, start, stop) => {
      assert.equal(bytes, piece);
      assert.ok(start < stop);
      body += chars(bytes.subarray(start, stop));
    });
    consumed += end - 2;
    from = to;
  }
  const { done, trailers } = decoder;
  return { body, consumed, done, trailers: trailers === null ? null : pairs(trailers) };
}

function statusOf(text: string, options?: BodyOptions): number {
  const whole = refusal(() => decode(CHUNKED, text, [], options));
  const octets = Array.from({ length: text.length }, (_, i) => i);
  assert.equal(refusal(() => decode(CHUNKED, text, octets, options)), whole, "cut at every octet");
  return whole;
}

Deno.test("A body of declared length ends there, wherever the input is cut", () => {
  for (let cut = 0; cut <= 8; cut++) {
    const decoded = decode({ kind: "length", length: 5 }, "helloGET", [cut]);
    assert.deepEqual(decoded, { body: "hello", consumed: 5, done: true, trailers: null });
  }
});

Deno.test("No body and a length of 0 are done before the first octet", () => {
  for (const framing of [{ kind: "none", length: 0 }, { kind: "length", length: 0 }] as const) {
    const decoder = new BodyDecoder(framing);
    assert.equal(decoder.done, true);
    assert.equal(decoder.push(latin1("GET"), 0, 3, noData), 0);
    assert.equal(decoder.finish(), true);
  }
});

Deno.test("A body until the close takes all and is complete by the end of input alone", () => {
  const decoder = new BodyDecoder({ kind: "close", length: -1 });
  let body = "";
  for (const text of ["ab", "", "c"]) {
    const end = decoder.push(latin1(text), 0, text.length, (bytes, start, stop) => {
      body += chars(bytes.subarray(start, stop));
    });
    assert.equal(end, text.length);
  }
  assert.equal(body, "abc");
  assert.equal(decoder.done, false);
  assert.equal(decoder.finish(), true);
  assert.equal(decoder.done, true);
});

Deno.test("The end of input inside a declared length or a chunked body is no clean end (F17)", () => {
  const short = new BodyDecoder({ kind: "length", length: 100 });
  short.push(latin1("0123456789"), 0, 10, () => {});
  assert.equal(short.finish(), false);
  const text = "A\r\n0123456789\r\n0\r\nX: y\r\n\r\n";
  for (let end = 0; end < text.length; end++) {
    const decoder = new BodyDecoder(CHUNKED);
    decoder.push(latin1(text), 0, end, () => {});
    assert.equal(decoder.finish(), false, `end ${end}`);
  }
});

Deno.test("A chunked body is decoded wherever the input is cut, in two places too", () => {
  const text =
    '5;ext="a;b"\r\nhello\r\n00b \t; x\r\n world, all\r\n000\r\nX-Sum: 16\r\ny:\t\xe9\r\n\r\n';
  const expected = {
    body: "hello world, all",
    consumed: text.length,
    done: true,
    trailers: [["X-Sum", "16"], ["y", "\xe9"]],
  };
  for (let first = 0; first <= text.length; first++) {
    for (let second = first; second <= text.length; second++) {
      assert.deepEqual(decode(CHUNKED, text + "GET / ", [first, second]), expected);
    }
  }
});

Deno.test("Chunk data comes as views of what was pushed, one per chunk, with nothing copied", () => {
  const views: [number, number][] = [];
  const bytes = latin1("3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n");
  new BodyDecoder(CHUNKED).push(bytes, 0, bytes.length, (from, start, end) => {
    assert.equal(from, bytes);
    views.push([start, end]);
  });
  assert.deepEqual(views, [[3, 6], [11, 13]]);
});

Deno.test("A chunked body without trailers has none", () => {
  assert.deepEqual(decode(CHUNKED, "0\r\n\r\n"), {
    body: "",
    consumed: 5,
    done: true,
    trailers: null,
  });
});

Deno.test("Trailers own their octets", () => {
  const bytes = latin1("0\r\nX-Sum: 1\r\n\r\n");
  const decoder = new BodyDecoder(CHUNKED);
  decoder.push(bytes, 0, bytes.length, noData);
  bytes.fill(0);
  assert.deepEqual(pairs(decoder.trailers!), [["X-Sum", "1"]]);
});

Deno.test("Long trailers are whole, wherever the input is cut", () => {
  const lines = Array.from({ length: 20 }, (_, i) => [`X-${i}`, "v".repeat(10 * i)]);
  const text = `0\r\n${lines.map(([name, value]) => `${name}: ${value}\r\n`).join("")}\r\n`;
  for (let cut = 0; cut <= text.length; cut++) {
    assert.deepEqual(decode(CHUNKED, text, [cut]).trailers, lines);
  }
});

Deno.test("Malformed chunks are refused, whole and octet by octet", () => {
  for (
    const text of [
      "\r\n",
      ";a\r\n",
      "g\r\n",
      "0x5\r\nhello\r\n",
      "+5\r\nhello\r\n",
      "-5\r\nhello\r\n",
      " 5\r\nhello\r\n",
      "5 \r\nhello\r\n",
      "5 5\r\nhello\r\n",
      "5\nhello\r\n",
      "5\rhello\r\n",
      "5\r\rhello",
      "5\r\nhello\n",
      "5\r\nhello\rx",
      "5\r\nhello0\r\n\r\n",
      "5\r\nhello!\r\n0\r\n\r\n",
      "5\r\nhello\r\n\r\n",
      "5;a\nhello\r\n",
      "5;a\rb\r\nhello\r\n",
      "5;\0\r\nhello\r\n",
      "0\r\n\n",
      "0\r\n\rx",
      "0\r\nX: y\n\r\n",
      "0\r\nX: y\rz\r\n\r\n",
      "0\r\nX : y\r\n\r\n",
      "0\r\n X: y\r\n\r\n",
      "0\r\nX: y\r\n z\r\n\r\n",
      "0\r\nX\r\n\r\n",
      "0\r\n: y\r\n\r\n",
      "0\r\nX: \0\r\n\r\n",
      "0\r\nX: \x7f\r\n\r\n",
    ]
  ) {
    assert.equal(statusOf(text), 400, JSON.stringify(text));
  }
});

Deno.test("A chunk size has at most 16 digits and stays a safe integer", () => {
  assert.equal(decode(CHUNKED, "0000000000000005\r\nhello\r\n0\r\n\r\n").body, "hello");
  assert.equal(statusOf("00000000000000005\r\nhello\r\n"), 400);
  assert.equal(statusOf("1fffffffffffff\r\nx"), 0);
  assert.equal(statusOf("20000000000000\r\nx"), 400);
  assert.equal(statusOf("ffffffffffffffff\r\nx"), 400);
});

Deno.test("Chunk extensions are bounded per chunk", () => {
  const chunk = (bytes: number) => `1;${"a".repeat(bytes)}\r\nx\r\n`;
  assert.equal(statusOf(chunk(1000).repeat(20) + "0\r\n\r\n"), 0);
  assert.equal(statusOf(chunk(1024)), 400);
  assert.equal(statusOf("1" + " ".repeat(2000)), 400);
});

Deno.test("Trailers are bounded, to the octet", () => {
  const text = "0\r\nX: 12345\r\nY: 1\r\n\r\n"; // 10 and 6 octets of trailers
  assert.equal(statusOf(text, { maxTrailerBytes: 16 }), 0);
  for (let max = 0; max < 16; max++) assert.equal(statusOf(text, { maxTrailerBytes: max }), 431);
  assert.equal(statusOf(`0\r\nX: ${"1".repeat(9000)}\r\n\r\n`), 431);
  assert.equal(statusOf("0\r\nX: 12345\x01", { maxTrailerBytes: 4 }), 431);
  assert.equal(statusOf("0\r\n\r\n", { maxTrailerBytes: 0 }), 0);
});

Deno.test("A decoder that has refused its input goes on refusing", () => {
  const decoder = new BodyDecoder(CHUNKED);
  const bytes = latin1("z0\r\n\r\n");
  assert.equal(refusal(() => decoder.push(bytes, 0, 1, noData)), 400);
  assert.equal(refusal(() => decoder.push(bytes, 1, bytes.length, noData)), 400);
  assert.equal(decoder.done, false);
  assert.equal(decoder.finish(), false);
});

function noData(): void {
  assert.fail("no data was to come");
}

Deno.test("Framing fields in the trailers are refused", () => {
  for (const line of ["Content-Length: 5", "content-length:", "Transfer-Encoding: chunked"]) {
    assert.equal(statusOf(`0\r\nX: y\r\n${line}\r\n\r\n`), 400, line);
  }
  assert.equal(statusOf("0\r\nContent-Lengths: 5\r\n\r\n"), 0);
});
