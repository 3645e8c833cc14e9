/**
 * What goes into a message comes out of it: bodies, Base64, header values.
 * @module
 */
import assert from "node:assert/strict";
import { decodeBase64, encodeBase64 } from "../../lib/protocol/base64.ts";
import {
  asHeaderText,
  decodeEnvelope,
  encodeHttpRequest,
  type FieldPair,
  readHttpPayload,
  type RequestBody,
} from "../../lib/protocol/envelope.ts";
import { decodeEvent, encodeResponseChunk } from "../../lib/protocol/events.ts";
import { base64Length, jsonStringBytes, utf8OrNull } from "../../lib/protocol/json.ts";
import { fuzz, mutateOctets, type Random } from "../helpers/unit_fuzz.ts";
import { PEER } from "./protocol_messages.ts";

const encoder = new TextEncoder();

/** Octets of which some are UTF-8 and some are not. */
function someOctets(random: Random, most: number): Uint8Array {
  const count = random.below(most);
  if (random.below(2) === 0) return random.bytes(count);
  const text = Array.from(
    { length: count >> 2 },
    () => random.pick(["a", '"', "\\", "\n", "\0", "ü", "€", "😀", "\u2028", "\x7f", " "]),
  ).join("");
  return encoder.encode(text);
}

Deno.test("Every body comes back from a chunk and from an envelope, octet for octet", async () => {
  await fuzz(4_000_003, (random) => {
    const body = someOctets(random, 200);
    const event = decodeEvent(encodeResponseChunk(body));
    assert.ok(event?.type === "response_chunk");
    assert.deepEqual(event.body, body);
    const text = utf8OrNull(body);
    const form: RequestBody = text === null
      ? { kind: "bytes", bytes: body }
      : { kind: "text", text };
    const pairs: FieldPair[] = Array.from({ length: random.below(4) }, () => [
      random.pick(["A", "__proto__", "x-y"]),
      String.fromCharCode(...random.bytes(random.below(10))),
    ]);
    const message = encodeHttpRequest({
      requestId: "q",
      replyTo: "r",
      method: "PUT",
      path: "/",
      headers: {},
      head: pairs,
      body: form,
      peer: PEER,
    });
    const envelope = decodeEnvelope(message, "", null);
    assert.ok(envelope.kind === "request");
    const payload = readHttpPayload(envelope.payload);
    assert.ok(typeof payload !== "string");
    assert.deepEqual(payload.body, body);
    assert.deepEqual(payload.fields, pairs);
    if (text !== null) {
      assert.equal(jsonStringBytes(text, body.length), encoder.encode(JSON.stringify(text)).length);
    }
    return body;
  });
});

Deno.test("Base64 of any octets comes back, and any text is decoded strictly or not at all", async () => {
  await fuzz(5_000_003, (random) => {
    const bytes = random.bytes(random.below(60));
    const coded = encodeBase64(bytes);
    assert.equal(coded.length, base64Length(bytes.length));
    assert.deepEqual(decodeBase64(coded), bytes);
    const changed = new TextDecoder("windows-1252").decode(
      mutateOctets(encoder.encode(coded), random),
    );
    const decoded = decodeBase64(changed);
    if (decoded !== null) assert.ok(decoded.length <= changed.length / 4 * 3);
    return changed;
  });
});

Deno.test("A header of any octets comes back from Ruby's form when it is UTF-8", async () => {
  await fuzz(6_000_003, (random) => {
    const octets = someOctets(random, 40);
    const value = Array.from(octets, (octet) => String.fromCharCode(octet)).join("");
    const payload = readHttpPayload({
      method: "G",
      path: "/",
      headers: { h: asHeaderText(value) },
    });
    assert.ok(typeof payload !== "string");
    if (utf8OrNull(octets) !== null) assert.deepEqual(payload.fields, [["h", value]]);
    else assert.equal(payload.fields[0]?.[0], "h");
    return value;
  });
});
