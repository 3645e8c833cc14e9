import assert from "node:assert/strict";
import {
  encodeNatsHeaders,
  natsHeader,
  natsStatus,
  NO_RESPONDERS,
} from "../../lib/protocol/nats_headers.ts";

const bytes = (text: string) => new TextEncoder().encode(text);
const text = (block: Uint8Array) => new TextDecoder().decode(block);

Deno.test("encodeNatsHeaders writes the version, the pairs in order, and an empty line", () => {
  const block = encodeNatsHeaders([["Nats-Frame-Type", "session_data"], ["x", "ü"], ["x", ""]]);
  assert.equal(text(block), "NATS/1.0\r\nNats-Frame-Type: session_data\r\nx: ü\r\nx: \r\n\r\n");
  assert.equal(text(encodeNatsHeaders([])), "NATS/1.0\r\n\r\n");
});

Deno.test("encodeNatsHeaders refuses what would write lines of its own", () => {
  for (
    const pair of [
      ["a", "b\r\nc: d"],
      ["a", "b\nc"],
      ["a", "b\rc"],
      ["a\r\nb", "c"],
      ["a:b", "c"],
      [
        "",
        "c",
      ],
      ["a b", "c"],
      ["ä", "c"],
    ] as const
  ) {
    assert.throws(() => encodeNatsHeaders([pair]), TypeError, JSON.stringify(pair));
  }
});

Deno.test("natsHeader finds the first header of exactly that name", () => {
  const block = bytes(
    "NATS/1.0\r\nNats-Frame-Type-2: no\r\nnats-frame-type: low\r\n" +
      "Nats-Frame-Type:  session_data \r\nNats-Frame-Type: second\r\n\r\n",
  );
  assert.equal(natsHeader(block, "Nats-Frame-Type"), "session_data");
  assert.equal(natsHeader(block, "NATS-FRAME-TYPE"), null);
  assert.equal(natsHeader(block, "NATS-FRAME-TYPE", { ignoreCase: true }), "low");
  assert.equal(natsHeader(block, "Nats-Frame"), null);
});

Deno.test("natsHeader does not take a value for a name", () => {
  const block = bytes("NATS/1.0\r\na: Reply-To: x\r\n\r\n");
  assert.equal(natsHeader(block, "Reply-To"), null);
  assert.equal(natsHeader(block, "a"), "Reply-To: x");
});

Deno.test("natsHeader folds letters only: '[' is not '{'", () => {
  assert.equal(natsHeader(bytes("NATS/1.0\r\n[: x\r\n\r\n"), "{", { ignoreCase: true }), null);
});

Deno.test("natsHeader reads blocks that end early without running over", () => {
  const whole = encodeNatsHeaders([["Reply-To", "a.b"]]);
  for (let end = 0; end <= whole.length; end++) {
    const value = natsHeader(whole.subarray(0, end), "Reply-To");
    assert.ok(value === null || "a.b".startsWith(value), `cut at ${end}: ${value}`);
  }
  assert.equal(natsHeader(bytes("NATS/1.0\nReply-To: a\nb: c\n\n"), "b"), "c");
});

Deno.test("natsHeader reads what encodeNatsHeaders wrote", () => {
  const pairs = [["traceparent", "00-ab-01"], ["Nats-Session-Id", "9c41"], ["e", ""]] as const;
  const block = encodeNatsHeaders(pairs);
  for (const [name, value] of pairs) assert.equal(natsHeader(block, name), value);
  assert.equal(natsStatus(block), null);
});

Deno.test("natsStatus reads the status of a server's own message", () => {
  assert.equal(natsStatus(bytes("NATS/1.0 503\r\n\r\n")), NO_RESPONDERS);
  assert.equal(natsStatus(bytes("NATS/1.0 409 Message Size Exceeds MaxBytes\r\n\r\n")), 409);
  for (
    const other of ["NATS/1.0\r\n\r\n", "NATS/1.0 \r\n", "NATS/1.0 5x3\r\n", "NATS/1.0 50", ""]
  ) {
    assert.equal(natsStatus(bytes(other)), null, JSON.stringify(other));
  }
});
