import assert from "node:assert/strict";
import { StartError } from "../../lib/errors.ts";
import {
  checkNatsInternals,
  createNatsClient,
  NATS_CORE_VERSION,
  type NatsClient,
} from "../../lib/transport/nats_internals.ts";

Deno.test("the pinned nats-core has everything that the lane needs", () => {
  checkNatsInternals();
});

Deno.test("deno.json pins the version that the lane was written against", async () => {
  const config = JSON.parse(await Deno.readTextFile(new URL("../../deno.json", import.meta.url)));
  for (const [name, path] of [["", ""], ["/internal", "/internal"]] as const) {
    const pinned = config.imports[`@nats-io/nats-core${name}`];
    assert.equal(pinned, `npm:@nats-io/nats-core@${NATS_CORE_VERSION}${path}`);
  }
});

const NEEDED = [
  "connected",
  "outbound",
  "parser",
  "subscriptions",
  "closed",
  "inMsgs",
  "outBytes",
  "flushPending",
  "dialLoop",
  "getServer",
  "disconnect",
  "close",
];
for (const name of NEEDED) {
  Deno.test(`a nats-core without ${name} is a start error that names it`, () => {
    const make = (options: Parameters<typeof createNatsClient>[0]): NatsClient => {
      const client = createNatsClient(options);
      Object.defineProperty(client.protocol, name, { value: undefined });
      return client;
    };
    assert.throws(
      () => checkNatsInternals(make),
      (error) =>
        error instanceof StartError && error.message.includes(name) &&
        error.message.includes(NATS_CORE_VERSION),
    );
  });
}

Deno.test("a nats-core whose connection cannot be made is a start error", () => {
  assert.throws(() =>
    checkNatsInternals(() => {
      throw new TypeError("not a constructor");
    }), StartError);
});
