/**
 * Mutated messages against the HTTP/1.1 codec. `NATSWAY_FUZZ` sets the number of cases; with it each run
 * takes another seed, unless `NATSWAY_FUZZ_SEED` gives one.
 * @module
 */

import assert from "node:assert/strict";
import { latin1 } from "../../lib/http1/encode.ts";
import { isFieldValue, isRequestTarget, isToken } from "../../lib/http1/field.ts";
import {
  HttpSyntaxError,
  parseFieldBlock,
  parseRequestHead,
  parseResponseHead,
} from "../../lib/http1/parse.ts";
import { REQUEST_SAMPLES, RESPONSE_SAMPLES, type Sample } from "../http1/corpus.ts";
import { pairs, readConnection, type ReadOptions } from "../http1/reader.ts";

const givenCount = Deno.env.get("NATSWAY_FUZZ");
const CASES = Number(givenCount ?? 3000);
const SEED = Number(
  Deno.env.get("NATSWAY_FUZZ_SEED") ?? (givenCount === undefined ? 1 : Date.now() % 2 ** 32),
);

/** Far over what any case needs, even on a busy machine: only a loop that does not end gets there. */
const MAX_CASE_MS = 2000;

/** What mutations put in. */
const FRAGMENTS = [
  "\r",
  "\n",
  "\r\n",
  "\r\n\r\n",
  "\0",
  " ",
  "\t",
  ":",
  ",",
  ";",
  "=",
  '"',
  "%",
  "0",
  "1",
  "5",
  "f",
  "ffffffffffffff",
  "-",
  "+",
  "a",
  "\x7f",
  "\x80",
  "\xe9",
  "\xff",
  "HTTP/1.0",
  "HTTP/1.1",
  "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
  "HTTP/1.1 200 OK\r\n",
  "Host: b\r\n",
  "Content-Length: 5\r\n",
  "Content-Length: 5, 5\r\n",
  "Transfer-Encoding: chunked\r\n",
  "Connection: close, x\r\n",
  "0\r\n\r\n",
  "3;a=b\r\nabc\r\n",
  "X-Long: " + "y".repeat(300) + "\r\n",
];

/** Small generator of 32-bit numbers (mulberry32), so that a seed tells a whole run. */
class Random {
  #state: number;
  constructor(seed: number) {
    this.#state = seed | 0;
  }
  /** Whole number in [0, bound). */
  below(bound: number): number {
    this.#state = (this.#state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(this.#state ^ (this.#state >>> 15), 1 | this.#state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) % bound;
  }
  pick<T>(from: readonly T[]): T {
    return from[this.below(from.length)]!;
  }
}

function mutate(text: string, random: Random, samples: readonly Sample[]): string {
  for (let left = random.below(5); left > 0; left--) {
    const at = random.below(text.length + 1);
    const to = Math.min(text.length, at + random.below(20));
    switch (random.below(6)) {
      case 0: // leave out
        text = text.slice(0, at) + text.slice(to);
        break;
      case 1: // put in
        text = text.slice(0, at) + random.pick(FRAGMENTS) + text.slice(at);
        break;
      case 2: // put in place of one octet
        text = text.slice(0, at) + random.pick(FRAGMENTS) + text.slice(at + 1);
        break;
      case 3: // any octet
        text = text.slice(0, at) + String.fromCharCode(random.below(256)) + text.slice(at + 1);
        break;
      case 4: // say again
        text = text.slice(0, to) + text.slice(at, to).repeat(1 + random.below(4)) + text.slice(to);
        break;
      case 5: { // go on as another message does
        const other = random.pick(samples).text;
        text = text.slice(0, at) + other.slice(random.below(other.length));
        break;
      }
    }
  }
  return text;
}

/** Runs `check` for each case; what it throws is told with the seed and the input. */
function fuzz(salt: number, check: (random: Random) => string): void {
  for (let index = 0; index < CASES; index++) {
    const random = new Random(SEED + salt + index * 7919);
    const started = performance.now();
    let input = "";
    try {
      input = check(random);
    } catch (error) {
      throw new Error(`case ${index}: NATSWAY_FUZZ=${CASES} NATSWAY_FUZZ_SEED=${SEED}`, {
        cause: error,
      });
    }
    const tookMs = performance.now() - started;
    assert.ok(tookMs < MAX_CASE_MS, `${tookMs} ms for ${JSON.stringify(input)}`);
  }
}

for (const side of ["request", "response"] as const) {
  Deno.test(`A mutated ${side} is read alike whole and cut at every octet`, () => {
    const samples = side === "request" ? REQUEST_SAMPLES : RESPONSE_SAMPLES;
    fuzz(side === "request" ? 0 : 1_000_003, (random) => {
      const text = mutate(random.pick(samples).text, random, samples);
      const bytes = latin1(text);
      const options: ReadOptions = {
        side,
        requestMethod: random.pick(["GET", "GET", "HEAD", "CONNECT"]),
        maxHeadBytes: random.pick([16_384, 16_384, 256, 64]),
        maxTrailerBytes: random.pick([1024, 16]),
      };
      const whole = readConnection(bytes, options);
      const one = random.below(bytes.length + 1);
      const two = one + random.below(bytes.length + 1 - one);
      for (const cuts of [[one], [one, two], Array.from(bytes, (_, i) => i)]) {
        const cut = readConnection(bytes, { ...options, cuts });
        assert.deepEqual(cut, whole, `cut at ${cuts.slice(0, 2)} in ${JSON.stringify(text)}`);
      }
      for (const message of whole.messages) {
        if (side === "request") {
          assert.ok(isToken(message.start[0]), JSON.stringify(text));
          assert.ok(isRequestTarget(message.start[1]), JSON.stringify(text));
        }
        for (const [name, value] of [...message.fields, ...message.trailers ?? []]) {
          assert.ok(isToken(name) && isFieldValue(value), JSON.stringify(text));
        }
      }
      return text;
    });
  });
}

Deno.test("Any octets between any offsets are parsed or refused, never anything else", () => {
  const samples = [...REQUEST_SAMPLES, ...RESPONSE_SAMPLES];
  fuzz(2_000_003, (random) => {
    const text = mutate(random.pick(samples).text, random, samples);
    const bytes = latin1(text);
    const start = random.below(3) === 0 ? random.below(bytes.length + 2) : 0;
    const ends = [bytes.length, random.below(bytes.length + 4), text.indexOf("\r\n\r\n") + 4];
    for (const end of ends) {
      const readers = [
        () => pairs(parseRequestHead(bytes, start, end)),
        () => pairs(parseResponseHead(bytes, start, end, "GET")),
        () => pairs(parseFieldBlock(bytes, start, end)),
      ];
      for (const read of readers) {
        try {
          for (const [name, value] of read()) assert.ok(isToken(name) && isFieldValue(value));
        } catch (error) {
          if (error instanceof HttpSyntaxError) continue;
          throw new Error(`[${start}, ${end}) of ${JSON.stringify(text)}`, { cause: error });
        }
      }
    }
    return text;
  });
});
