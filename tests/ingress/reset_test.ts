import assert from "node:assert/strict";
import { latin1 } from "../helpers/bytes.ts";
import { withChildServer } from "../helpers/child_server.ts";
import { TestSocket } from "../helpers/socket.ts";

// Resets take rights that tests do not have (all of /proc), so they happen in a process of their own.
const SERVER = new URL("./reset_server.ts", import.meta.url).pathname;

/** Runs `reset_server.ts`: it answers by the path, and takes the socket of a CONNECT. */
async function withServer(run: (port: number) => Promise<void>): Promise<void> {
  await withChildServer(SERVER, [], run);
}

/** The body of the response to one request, and how the connection ended. */
async function get(port: number, head: string): Promise<{ body: string; end: string }> {
  await using client = await TestSocket.connect(port);
  await client.write(head);
  await client.readUntil("\r\n\r\n");
  const end = await client.waitEnd();
  const text = latin1(client.transcript);
  return { body: text.slice(text.indexOf("\r\n\r\n") + 4), end };
}

Deno.test("A body that ends with the connection is broken off by a reset, behind all that was sent", async () => {
  await withServer(async (port) => {
    const broken = await get(port, "GET /broken HTTP/1.0\r\n\r\n");
    assert.deepEqual(broken, { body: "abc".repeat(100), end: "reset" });
    const whole = await get(port, "GET /whole HTTP/1.0\r\n\r\n");
    assert.deepEqual(whole, { body: "abc".repeat(100), end: "fin" });
  });
});

Deno.test("Where the framing shows that it is not all, no reset is needed", async () => {
  await withServer(async (port) => {
    const chunked = await get(port, "GET /broken HTTP/1.1\r\nHost: a\r\n\r\n");
    assert.equal(chunked.end, "fin");
    assert.ok(chunked.body.endsWith("abc\r\n"), "no last chunk");
    const declared = await get(port, "GET /declared HTTP/1.0\r\n\r\n");
    assert.deepEqual(declared, { body: "abc".repeat(100), end: "fin" });
  });
});

Deno.test("A tunnel that is reset is seen as such by its client", async () => {
  await withServer(async (port) => {
    await using client = await TestSocket.connect(port);
    await client.write("CONNECT x:1 HTTP/1.1\r\nHost: x:1\r\n\r\n");
    await client.readUntil("\r\n\r\n");
    await client.write("go");
    assert.equal(await client.waitEnd(), "reset");
  });
});
