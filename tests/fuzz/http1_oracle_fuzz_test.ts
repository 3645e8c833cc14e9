/**
 * Mutated messages, read by natsway and by llhttp: alike, or as a listed difference says. Each is read
 * whole and octet by octet, and some are cut at every octet in turn.
 * @module
 */

import assert from "node:assert/strict";
import { latin1 } from "../../lib/http1/encode.ts";
import { fuzz } from "../helpers/unit_fuzz.ts";
import { requireAlike, showInput } from "../http1/compare.ts";
import { everySample } from "../http1/inputs.ts";
import { readWithLlhttp } from "../http1/llhttp.ts";
import { mutateMessage } from "../http1/mutate.ts";
import { everyOctet, type Input, type Reading, readWithNatsway } from "../http1/reading.ts";

for (const side of ["request", "response"] as const) {
  Deno.test(`A mutated ${side} is read as llhttp reads it, or refused as it refuses it`, async () => {
    const samples = everySample(side);
    await fuzz(side === "request" ? 10_000_019 : 11_000_027, (random) => {
      const text = mutateMessage(random.pick(samples).text, random, samples);
      const bytes = latin1(text);
      const requestMethod = side === "request"
        ? "GET"
        : random.pick(["GET", "GET", "GET", "HEAD", "CONNECT"]);
      const input: Input = { side, bytes, requestMethod };
      const theirs = readWithLlhttp(input);
      requireAlike(input, theirs);
      const ours = readWithNatsway(input);
      const cuts = random.below(200) === 0 ? bytes.keys() : [random.below(bytes.length + 1)];
      for (const cut of [...Array.from(cuts, (at) => [at]), everyOctet(bytes)]) {
        const piecewise = { ...input, cuts: cut };
        assert.deepEqual(readWithNatsway(piecewise), ours, showInput(piecewise));
        assert.deepEqual(withoutFault(readWithLlhttp(piecewise)), withoutFault(theirs), "llhttp");
      }
      return text;
    });
  });
}

/** llhttp words its refusal by where the input was cut. */
function withoutFault(reading: Reading): Reading {
  return { ...reading, fault: "" };
}
