import assert from "node:assert/strict";
import { pattern } from "../helpers/bytes.ts";
import { withChildServer } from "../helpers/child_server.ts";
import { TestSocket } from "../helpers/socket.ts";

// Resets take rights that tests do not have (all of /proc), so they happen in a process of their own.
const RESETTER = new URL("./resetter.ts", import.meta.url).pathname;

/** Runs `resetter.ts`: it treats each connection to `hostname` in one way. */
async function withResetter(
  how: string,
  hostname: string,
  run: (port: number) => Promise<void>,
): Promise<void> {
  await withChildServer(RESETTER, [how, hostname], run);
}

async function connect(port: number, hostname: string): Promise<TestSocket> {
  const client = await TestSocket.connect(port, hostname);
  await client.write("go");
  return client;
}

for (const hostname of ["127.0.0.1", "::1"]) {
  Deno.test(`A reset is seen as one at ${hostname}, whatever is under way, and after a half-close`, async () => {
    await withResetter("reset", hostname, async (port) => {
      await using quiet = await connect(port, hostname);
      assert.equal(await quiet.waitEnd(), "reset");
      await using sending = await TestSocket.connect(port, hostname);
      const flood = sending.write(pattern(1_000_000)).catch(() => {}); // the reset may come first
      assert.equal(await sending.waitEnd(), "reset");
      await flood;
    });
    await withResetter("half-close", hostname, async (port) => {
      await using client = await connect(port, hostname);
      assert.equal(await client.waitEnd(), "fin", "the half-close came first");
      await assert.rejects(async () => {
        for (;;) await client.write(pattern(65_536));
      });
    });
  });
}

Deno.test("A listener for both families: a mapped IPv4 address is found as well", async () => {
  await withResetter("reset", "::", async (port) => {
    for (const hostname of ["127.0.0.1", "::1"]) {
      await using client = await connect(port, hostname);
      assert.equal(await client.waitEnd(), "reset", hostname);
    }
  });
});

Deno.test("Only that connection is reset: its neighbours of the same port go on", async () => {
  await withResetter("reset-earlier", "127.0.0.1", async (port) => {
    await using first = await connect(port, "127.0.0.1");
    assert.equal(new TextDecoder().decode(await first.readExactly(2)), "go");
    await using second = await connect(port, "127.0.0.1");
    assert.equal(await first.waitEnd(), "reset");
    assert.equal(new TextDecoder().decode(await second.readExactly(2)), "go");
    assert.equal(await second.nothingFollows(50), "open");
  });
});

Deno.test("A plain close is none", async () => {
  await withResetter("close", "127.0.0.1", async (port) => {
    await using client = await connect(port, "127.0.0.1");
    assert.equal(await client.waitEnd(), "fin");
  });
});
