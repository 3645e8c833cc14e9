import assert from "node:assert/strict";
import { parseNatsUrl } from "../../lib/transport/nats_url.ts";

Deno.test("parseNatsUrl reads scheme, host, port and credentials", () => {
  const base = { scheme: "nats", hostname: "h.example", port: 4222, path: "/" };
  const listen = "h.example:4222";
  assert.deepEqual(parseNatsUrl("nats://h.example"), { ...base, listen });
  assert.deepEqual(parseNatsUrl(" H.Example:4222 "), { ...base, listen });
  assert.deepEqual(parseNatsUrl("tls://h.example"), { ...base, listen, scheme: "tls" });
  assert.deepEqual(parseNatsUrl("nats+tls://h.example"), { ...base, listen, scheme: "tls" });
  const { user, password } = parseNatsUrl("nats://al%20ice:p:a@ss/w%@h.example:1");
  assert.deepEqual([user, password], ["al%20ice", "p:a@ss/w%"]);
  assert.equal(parseNatsUrl("nats://t0ken@h.example").token, "t0ken");
  assert.deepEqual(parseNatsUrl("nats://u:@h.example").password, "");
  assert.deepEqual(
    parseNatsUrl("wss://[::1]/nats?x=1"),
    { scheme: "wss", hostname: "::1", port: 443, path: "/nats?x=1", listen: "[::1]:443" },
  );
  assert.equal(parseNatsUrl("ws://h.example").port, 80);
});

Deno.test("parseNatsUrl refuses what is no NATS URL without repeating its credentials", () => {
  for (
    const text of [
      "",
      "nats://",
      "nats://s3cret@",
      "http://s3cret@h",
      "nats://s3cret@h:0",
      "nats://s3cret@h:70000",
      "nats://s3cret@h:x",
      "nats://s3cret@h o",
      "nats://s3cret@[::zz]:1",
      "nats://s3cret@h%00:1",
    ]
  ) {
    assert.throws(
      () => parseNatsUrl(text),
      (error) => error instanceof TypeError && !error.message.includes("s3cret"),
      text,
    );
  }
});
