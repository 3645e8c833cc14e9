/**
 * llhttp, the parser under node:http, as an oracle: the same messages, whole and cut at every octet, are
 * accepted or refused alike and read alike, but for the differences listed in `differences.ts`. It is
 * called without node:http here, which is a hundred times as fast; `node_http_test.ts` shows that it is
 * the parser of node:http.
 * @module
 */

import assert from "node:assert/strict";
import { latin1 } from "../../lib/http1/encode.ts";
import { divergence, explain, JUDGED_LATER, requireAlike } from "./compare.ts";
import { DIFFERENCES } from "./differences.ts";
import { AGREED, OCTET, PLACES, wholeMessages } from "./inputs.ts";
import { LLHTTP_METHODS, readWithLlhttp } from "./llhttp.ts";
import { everyOctet, type Input, readWithNatsway, type Side } from "./reading.ts";

/** Those of the corpus and the case files that show a listed difference. */
const DIFFERENT_SAMPLES: Readonly<Record<string, string>> = {
  "F28-connect-ipv6-unbracketed": "malformed Host",
  "chunked-with-extension-and-trailers": "a blank before a chunk extension",
};

for (const side of ["request", "response"] as const) {
  Deno.test(`A ${side} is read as llhttp reads it, whole and cut at every octet`, () => {
    const texts = wholeMessages(side).filter(({ name }) => !(name in DIFFERENT_SAMPLES))
      .map((sample) => sample.text);
    for (const text of [...texts, ...AGREED[side]]) {
      for (const requestMethod of side === "request" ? ["GET"] : ["GET", "HEAD", "CONNECT"]) {
        const input = { side, requestMethod, bytes: latin1(text) };
        if (requestMethod === "GET") {
          assert.equal(
            divergence(input, readWithNatsway(input), readWithLlhttp(input)),
            null,
            text,
          );
        }
        requireAlikeAtEveryCut(input);
      }
    }
  });
}

for (const side of ["request", "response"] as const) {
  Deno.test(`Any octet at each place of a ${side} is read as llhttp reads it`, () => {
    for (const place of PLACES[side]) {
      assert.ok(place.includes(OCTET), place);
      for (let octet = 0; octet < 256; octet++) {
        const bytes = latin1(place.replace(OCTET, String.fromCharCode(octet)));
        for (const cuts of [[], everyOctet(bytes)]) {
          const input = { side, bytes, cuts };
          requireAlike(input, readWithLlhttp(input));
        }
      }
    }
  });
}

Deno.test("The samples and case files that are read otherwise show a listed difference", () => {
  const side: Side = "request";
  const names = wholeMessages(side).filter(({ name, text }) => {
    const input = { side, bytes: latin1(text) };
    const found = divergence(input, readWithNatsway(input), readWithLlhttp(input));
    if (found === null) return false;
    assert.equal(explain(found), DIFFERENT_SAMPLES[name], name);
    return true;
  });
  assert.deepEqual(names.map(({ name }) => name).sort(), Object.keys(DIFFERENT_SAMPLES).sort());
});

for (const { name, ours, rfc, samples } of DIFFERENCES) {
  Deno.test(`llhttp and natsway differ in "${name}" (${ours}; ${rfc}), at every cut`, () => {
    assert.ok(samples.length > 0, "no sample shows it");
    for (const { side, text, requestMethod } of samples) {
      const input = { side, bytes: latin1(text), requestMethod: requestMethod ?? "GET" };
      const found = divergence(input, readWithNatsway(input), readWithLlhttp(input));
      assert.notEqual(found, null, `read alike: ${JSON.stringify(text)}`);
      assert.equal(explain(found!), name, JSON.stringify(text));
      if (ours === "stricter") assert.equal(found!.ours.end, "refused");
      if (ours === "looser") assert.equal(found!.theirs.end, "refused");
      requireAlikeAtEveryCut(input);
    }
  });
}

Deno.test(`llhttp refuses within a head what natsway refuses behind it ("${JUDGED_LATER}")`, () => {
  for (const text of ["GET / HTTQ", "GET / HTTP/1.1\r\nA b", "B@D / HTTP/1.1\r\n", "BREW / H"]) {
    const input: Input = { side: "request", bytes: latin1(text) };
    const found = divergence(input, readWithNatsway(input), readWithLlhttp(input));
    assert.equal(explain(found!), JUDGED_LATER, text);
  }
});

Deno.test("A difference that no entry lists is told with the input and the whole table", () => {
  const input: Input = { side: "request", bytes: latin1("GET / HTTP/1.1\r\nHost: a\r\n\r\n") };
  const reading = readWithLlhttp(input);
  const wrong = { ...reading, messages: [{ ...reading.messages[0]!, body: "x" }] };
  assert.throws(() => requireAlike(input, wrong), (error: Error) => {
    assert.match(error.message, /GET \/ HTTP\/1\.1\\r\\nHost: a/);
    for (const { name, rfc } of DIFFERENCES) assert.ok(error.message.includes(`${name}: `), rfc);
    return true;
  });
  assert.throws(() => requireAlike(input, { ...reading, messages: [], end: "refused" }));
});

Deno.test("Every method that llhttp knows is read by its name", () => {
  for (const method of LLHTTP_METHODS) {
    const target = method === "CONNECT" ? "a:1" : "/";
    const text = `${method} ${target} HTTP/1.1\r\nHost: a:1\r\n\r\n`;
    const input: Input = { side: "request", bytes: latin1(text) };
    assert.equal(readWithLlhttp(input).messages[0]?.start[0], method);
    requireAlike(input, readWithLlhttp(input));
  }
});

/** Both parsers read the input alike whatever the cut, and so as each other, or as the table says. */
function requireAlikeAtEveryCut(input: Input): void {
  const theirs = readWithLlhttp(input);
  const ours = readWithNatsway(input);
  requireAlike(input, theirs);
  const cuts = Array.from({ length: input.bytes.length + 1 }, (_, cut) => [cut]);
  for (const cut of [...cuts, everyOctet(input.bytes)]) {
    const piecewise = { ...input, cuts: cut };
    assert.deepEqual(readWithNatsway(piecewise), ours, `natsway depends on the cut ${cut[0]}`);
    const theirsToo = { ...readWithLlhttp(piecewise), fault: theirs.fault };
    assert.deepEqual(theirsToo, theirs, `llhttp depends on the cut ${cut[0]}`);
  }
}
