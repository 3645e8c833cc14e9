/**
 * Mutated messages against the HTTP/1.1 codec alone: the same whatever the cut and the limits, nothing
 * but tokens, targets and field values handed out, one typed error.
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
import { fuzz } from "../helpers/unit_fuzz.ts";
import { everySample } from "../http1/inputs.ts";
import { mutateMessage } from "../http1/mutate.ts";
import { everyOctet } from "../http1/reading.ts";
import { pairs, readConnection, type ReadOptions } from "../http1/reader.ts";

for (const side of ["request", "response"] as const) {
  Deno.test(`A mutated ${side} is read alike whole and cut at every octet, whatever the limits`, async () => {
    const samples = everySample(side);
    await fuzz(side === "request" ? 12_000_017 : 13_000_027, (random) => {
      const text = mutateMessage(random.pick(samples).text, random, samples);
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
      for (const cuts of [[one], [one, two], everyOctet(bytes)]) {
        const cut = readConnection(bytes, { ...options, cuts });
        assert.deepEqual(cut, whole, `cut at ${cuts.slice(0, 2)} in ${JSON.stringify(text)}`);
      }
      let bodyBytes = 0;
      for (const message of whole.messages) {
        if (side === "request") {
          assert.ok(isToken(message.start[0]), JSON.stringify(text));
          assert.ok(isRequestTarget(message.start[1]), JSON.stringify(text));
        }
        for (const [name, value] of [...message.fields, ...message.trailers ?? []]) {
          assert.ok(isToken(name) && isFieldValue(value), JSON.stringify(text));
        }
        bodyBytes += message.body.length;
      }
      assert.ok(bodyBytes <= bytes.length, `more body than octets: ${JSON.stringify(text)}`);
      return text;
    });
  });
}

Deno.test("Any octets between any offsets are parsed or refused, never anything else", async () => {
  const samples = [...everySample("request"), ...everySample("response")];
  await fuzz(14_000_029, (random) => {
    const text = mutateMessage(random.pick(samples).text, random, samples);
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
