import assert from "node:assert/strict";
import { caseFile, concat, octets, pattern, sha256 } from "./bytes.ts";
import { RawClient, request } from "./client.ts";
import { all, text } from "./http_message.ts";
import { pause, within } from "./wait.ts";
import { answer, startUpstream } from "./upstream.ts";

Deno.test("the rig's client and upstream exchange a request on a kept connection", async () => {
  await using upstream = await startUpstream();
  await using client = await RawClient.connect(upstream.port);
  for (const target of ["/a", "/b"]) {
    const response = await client.exchange(`GET ${target} HTTP/1.1\r\nHost: x\r\n\r\n`);
    assert.equal(response.status, 200);
    assert.equal(text(response), `GET ${target}`);
    assert.equal(response.complete, true);
  }
  assert.equal(upstream.connections.length, 1);
});

Deno.test("the rig's upstream records a chunked request body and its octets", async () => {
  await using upstream = await startUpstream();
  await request(upstream.port, "/up", {
    method: "POST",
    fields: ["Transfer-Encoding: chunked"],
    body: "5\r\nhello\r\n6;x=1\r\n world\r\n0\r\nX-T: 1\r\n\r\n",
  });
  const seen = upstream.requests[0];
  assert.equal(new TextDecoder().decode(seen?.body ?? new Uint8Array()), "hello world");
  assert.deepEqual(seen?.trailers, [["X-T", "1"]]);
});

Deno.test("the rig's reader tells a short message from a whole one", async () => {
  for (const file of ["F17-upstream-short-length.http", "F17-upstream-short-chunked.http"]) {
    await using upstream = await startUpstream();
    upstream.route("/", async (_, connection) => {
      await connection.write(caseFile(file));
      return "close";
    });
    const response = await request(upstream.port, "/f17");
    assert.equal(response.complete, false, file);
    assert.equal(text(response), "0123456789");
    assert.equal(response.end, "fin");
  }
});

Deno.test("the rig tells RST from FIN on either side", async () => {
  for (const how of ["fin", "reset"] as const) {
    const seen = Promise.withResolvers<string>();
    await using upstream = await startUpstream(async (connection) => {
      await connection.readExactly(5);
      await connection.write("world");
      seen.resolve(await connection.waitEnd());
    });
    const client = await RawClient.connect(upstream.port);
    await client.send("hello");
    await client.socket.readExactly(5);
    await (how === "fin" ? client.close() : client.socket.reset());
    assert.equal(await within(seen.promise, 5_000, "the client's end"), how);
  }
  for (const how of ["fin", "reset"] as const) {
    await using upstream = await startUpstream(async (connection) => {
      await connection.readExactly(5);
      if (how === "reset") await connection.reset();
    });
    await using client = await RawClient.connect(upstream.port);
    await client.send("hello");
    assert.equal(await client.socket.waitEnd(), how);
  }
});

Deno.test("the rig's quiet check sees surplus octets and a missing close", async () => {
  await using upstream = await startUpstream(async (connection) => {
    await connection.write(answer());
    await pause(100);
    await connection.write("HTTP/1.1 200 OK\r\n");
    await connection.waitEnd();
  });
  await using client = await RawClient.connect(upstream.port);
  await client.response();
  await assert.rejects(client.mustClose(), /surplus octets/);
  await client.socket.readExactly("HTTP/1.1 200 OK\r\n".length);
  await assert.rejects(client.mustClose(), /not closed/);
});

Deno.test("a read that timed out loses nothing of what comes later", async () => {
  const body = pattern(300_000);
  await using upstream = await startUpstream(async (connection) => {
    await connection.readExactly(1);
    await connection.write(body);
    await connection.waitEnd();
  });
  await using client = await RawClient.connect(upstream.port);
  await assert.rejects(client.socket.read(50), /not within 50 ms/);
  await client.send("x");
  const got = await client.socket.readExactly(body.length);
  assert.equal(sha256(got), sha256(body));
});

Deno.test("a slow test client leaves the sender to TCP", async () => {
  const piece = pattern(65_536);
  let written = 0;
  await using upstream = await startUpstream(async (connection) => {
    for (let i = 0; i < 1024; i++) {
      await connection.write(piece);
      written += piece.length;
    }
  });
  await using client = await RawClient.connect(upstream.port);
  assert.notEqual(await client.socket.read(), null);
  await pause(500);
  assert.ok(written < 16 * 1024 * 1024, `${written} octets were taken without a reader`);
});

Deno.test("case files keep their octets", () => {
  const file = caseFile("F10-header-bytes.http");
  assert.ok(file.includes(0xe9));
  assert.ok(file.includes(0x09));
  assert.equal(concat([octets("a"), octets("\xff")])[1], 0xff);
  assert.equal(all({ fields: [["A", "1"], ["a", "2"]] }, "A").length, 2);
});
