import assert from "node:assert/strict";
import { decodeHello, encodeHello } from "../../lib/protocol/hello.ts";

const HELLO = '{"type":"hello","request_id":"h1","reply_to":"from.proxy.responses.edge-a.h1"}';
const bytes = (value: unknown) =>
  new TextEncoder().encode(typeof value === "string" ? value : JSON.stringify(value));

Deno.test("a hello is written in this form, and read again", () => {
  const hello = { requestId: "h1", replyTo: "from.proxy.responses.edge-a.h1" };
  assert.equal(new TextDecoder().decode(encodeHello(hello)), HELLO);
  assert.deepEqual(decodeHello(bytes(HELLO)), hello);
});

Deno.test("decodeHello refuses what is no hello", () => {
  const whole = JSON.parse(HELLO);
  for (
    const wrong of [
      "",
      "no JSON",
      [whole],
      { ...whole, type: "cancel" },
      { ...whole, request_id: "a.b" },
      { ...whole, request_id: 7 },
      { ...whole, reply_to: "" },
      { ...whole, reply_to: undefined },
    ]
  ) {
    assert.equal(decodeHello(bytes(wrong)), null, JSON.stringify(wrong));
  }
});
