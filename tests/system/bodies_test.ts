import assert from "node:assert/strict";
import { concat, latin1, octets, pattern, sha256 } from "../helpers/bytes.ts";
import { requestOctets } from "../helpers/client.ts";
import { all, json, one, text } from "../helpers/http_message.ts";
import { type Rig, startRig } from "../helpers/rig.ts";
import { type Row, runRows } from "../helpers/rows.ts";
import { answer } from "../helpers/upstream.ts";

/** Default of INLINE_BODY_BYTES. */
const INLINE_BYTES = 32_768;
/** Default max_payload of nats-server; bodies up to half of it cross in one message for now. */
const MAX_PAYLOAD = 1_048_576;

/** The upstream answers every `/echo` with the digest of the body that it got. */
function echoDigest(rig: Rig): void {
  rig.upstream.route("/echo", async (request, connection) => {
    const body = await request.readBody();
    const fields = [
      `X-Sha256: ${sha256(body)}`,
      `X-Bytes: ${body.length}`,
      `X-Complete: ${request.bodyComplete}`,
    ];
    await connection.write(
      request.method === "HEAD"
        ? octets(`HTTP/1.1 200 OK\r\n${fields.join("\r\n")}\r\nContent-Length: 3\r\n\r\n`)
        : answer("got", { fields }),
    );
  });
}

/** Sends `body` and checks that the upstream got exactly these octets. */
async function arrives(
  rig: Rig,
  target: string,
  body: Uint8Array,
  fields: string[] = [],
): Promise<void> {
  const response = await rig.request(target, { method: "POST", body, fields, ms: 30_000 });
  assert.equal(response.status, 200, text(response));
  assert.equal(one(response, "x-bytes"), String(body.length));
  assert.equal(one(response, "x-sha256"), sha256(body));
}

function rows(rig: Rig): Row[] {
  const { upstream } = rig;
  const methods = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE"];
  return [
    ...[...methods, "PROPFIND", "QUERY", "X-ODD_1"].map((method): Row => ({
      name: `method ${method} reaches the upstream as it is`,
      run: async () => {
        const target = `/echo/method-${method}?a=1&a=2`;
        const response = await rig.request(target, { method });
        assert.equal(response.status, 200);
        assert.equal(response.bodyBytes, method === "HEAD" ? 0 : 3);
        assert.equal(one(response, "content-length"), "3");
        const seen = upstream.requestsFor(target);
        assert.deepEqual(seen.map((request) => request.method), [method]);
        assert.equal(seen[0]?.target, target);
        assert.equal(seen[0]?.body?.length, 0);
      },
    })),
    {
      name: "a lower-case method is another method and keeps its case",
      run: async () => {
        await rig.request("/echo/case", { method: "get" });
        assert.equal(upstream.requestsFor("/echo/case")[0]?.method, "get");
      },
    },
    {
      name: "OPTIONS * reaches the upstream as *",
      run: async () => {
        upstream.route("*", (_, connection) => connection.write(answer("star")));
        const response = await rig.request("*", { method: "OPTIONS" });
        assert.equal(text(response), "star");
        assert.equal(upstream.requestsFor("*")[0]?.method, "OPTIONS");
      },
    },
    ...[
      '{"sku": "A-1",\n  "qty":1.0, "a":1, "a":2}',
      '"just a string"',
      "null",
      "1e2",
      "[ 1 , 2 ]",
      " \n{}\n ",
    ].map((body, i): Row => ({
      name: `a JSON body arrives byte for byte: ${JSON.stringify(body)}`,
      run: async () => {
        const fields = ["Content-Type: application/json"];
        await arrives(rig, `/echo/json-${i}`, new TextEncoder().encode(body), fields);
        const [seen] = upstream.requestsFor(`/echo/json-${i}`);
        assert.equal(seen && one(seen, "content-type"), "application/json");
      },
    })),
    {
      name: "a body of every octet value arrives byte for byte",
      run: () => arrives(rig, "/echo/binary", Uint8Array.from({ length: 256 }, (_, i) => i)),
    },
    {
      name: "a UTF-8 body that starts with a byte order mark keeps it",
      run: () => arrives(rig, "/echo/bom", octets("\xef\xbb\xbfhello \xc3\xa9")),
    },
    {
      name: "a body that is cut inside a UTF-8 character arrives byte for byte",
      run: () => arrives(rig, "/echo/cut", octets("caf\xc3")),
    },
    {
      name: "no body and an empty body are told apart by the framing fields",
      run: async () => {
        await rig.request("/echo/none", { method: "GET" });
        await rig.request("/echo/empty", { method: "POST", body: "" });
        const [none] = upstream.requestsFor("/echo/none");
        const [empty] = upstream.requestsFor("/echo/empty");
        assert.ok(none && empty);
        assert.deepEqual(all(none, "content-length"), []);
        assert.deepEqual(all(none, "transfer-encoding"), []);
        assert.equal(one(empty, "content-length"), "0");
        assert.deepEqual(all(empty, "transfer-encoding"), []);
      },
    },
    ...[
      1,
      INLINE_BYTES - 1,
      INLINE_BYTES,
      INLINE_BYTES + 1,
      100_000,
      MAX_PAYLOAD / 2 - 65_536,
    ].map((size): Row => ({
      name: `a body of ${size} octets arrives byte for byte`,
      run: () => arrives(rig, `/echo/size-${size}`, pattern(size, size)),
    })),
    {
      name: "a text body that would grow as JSON arrives byte for byte",
      run: () => arrives(rig, "/echo/control", new Uint8Array(30_000).fill(1)),
    },
    {
      name: "a body over the limit is answered 413 and is never read as the next request",
      run: async () => {
        await using client = await rig.connect();
        const inner = octets("GET /echo/smuggled HTTP/1.1\r\nHost: app.example\r\n\r\n");
        const body = new Uint8Array(MAX_PAYLOAD);
        for (let at = 0; at + inner.length < body.length; at += inner.length) body.set(inner, at);
        // Answering early and closing is allowed, so the rest of the body may find no reader.
        client.send(requestOctets("/echo/too-big", { method: "POST", body })).catch(() => {});
        const response = await client.response({ method: "POST" });
        assert.equal(response.status, 413);
        assert.equal(typeof json(response)["error"], "string");
        assert.deepEqual(upstream.requestsFor("/echo/too-big"), []);
        await client.nothingFollows();
        assert.deepEqual(upstream.requestsFor("/echo/smuggled"), []);
      },
    },
    {
      name: "a chunked body over the limit is answered 413 and nothing reaches the upstream",
      run: async () => {
        await using client = await rig.connect();
        await client.send(
          requestOctets("/echo/chunked-big", {
            method: "POST",
            fields: ["Transfer-Encoding: chunked"],
          }),
        );
        const piece = concat([octets("10000\r\n"), pattern(65_536), octets("\r\n")]);
        const sending = (async () => {
          for (let i = 0; i < 16; i++) await client.send(piece);
        })().catch(() => {});
        const response = await client.response({ method: "POST" });
        assert.equal(response.status, 413);
        await client.close();
        await sending;
        assert.deepEqual(upstream.requestsFor("/echo/chunked-big"), []);
      },
    },
    {
      name: "a chunked body arrives whole, framed once, wherever the octets are cut",
      run: async () => {
        const body = "5;note=x\r\nhello\r\n6\r\n world\r\n0\r\nX-Trailer: t\r\n\r\n";
        for (const size of [1, 7, 4096]) {
          await using client = await rig.connect();
          const fields = ["Transfer-Encoding: chunked"];
          await client.socket.writeInPieces(
            requestOctets(`/echo/chunked-${size}`, { method: "POST", fields, body }),
            size,
          );
          const response = await client.response({ method: "POST" });
          assert.equal(one(response, "x-sha256"), sha256(octets("hello world")));
          assert.equal(one(response, "x-complete"), "true");
          const next = await client.exchange(requestOctets("/echo/after-chunked"));
          assert.equal(next.status, 200);
        }
      },
    },
    ...["Z\r\nhello\r\n0\r\n\r\n", "5\r\nhelloX\r\n0\r\n\r\n", "5\nhello\n0\n\n", "-1\r\n"].map((
      body,
      i,
    ): Row => ({
      name: `a broken chunked body is answered 400 and closed: ${JSON.stringify(body)}`,
      run: async () => {
        await using client = await rig.connect();
        const fields = ["Transfer-Encoding: chunked"];
        const response = await client.exchange(
          requestOctets(`/echo/broken-${i}`, { method: "POST", fields, body }),
        );
        assert.equal(response.status, 400);
        await client.mustClose();
        assert.deepEqual(upstream.requestsFor(`/echo/broken-${i}`), []);
      },
    })),
    {
      name: "a request whose body never comes whole reaches nobody as a whole request",
      run: async () => {
        const client = await rig.connect();
        await client.send(
          requestOctets("/echo/cut-short", {
            method: "POST",
            fields: ["Content-Length: 10"],
            body: "hello",
          }),
        );
        await client.socket.closeWrite();
        await client.socket.waitEnd(15_000);
        await client.close();
        assert.equal(
          upstream.requestsFor("/echo/cut-short").some((request) => request.bodyComplete === true),
          false,
        );
      },
    },
    {
      name: "F08 a client that expects 100 gets it within 1 s and its body arrives once",
      run: async () => {
        upstream.route("/f08", async (request, connection) => {
          if (one(request, "expect") !== null) {
            await connection.write("HTTP/1.1 100 Continue\r\n\r\n");
          }
          const body = await request.readBody();
          await connection.write(answer(`got ${latin1(body)}`));
        });
        await using client = await rig.connect();
        await client.send(
          requestOctets("/f08", {
            method: "PUT",
            fields: ["Content-Length: 11", "Expect: 100-continue"],
          }),
        );
        const interim = latin1(await client.socket.readUntil("\r\n\r\n", 1_000));
        assert.match(interim, /^HTTP\/1\.1 100 /);
        await client.send("hello world");
        const response = await client.response({ method: "PUT" });
        assert.equal(text(response), "got hello world");
        assert.deepEqual(response.interim, []);
        assert.equal(upstream.requestsFor("/f08").length, 1);
        await client.mustStayOpen();
      },
    },
    {
      name: "an unknown expectation is answered 417 or passed on, never dropped",
      run: async () => {
        const response = await rig.request("/echo/expect", { fields: ["Expect: 200-maybe"] });
        if (response.status !== 417) {
          const [seen] = upstream.requestsFor("/echo/expect");
          assert.equal(seen && one(seen, "expect"), "200-maybe");
        }
      },
    },
  ];
}

Deno.test("methods and request bodies reach the upstream as they were sent", async (t) => {
  await using rig = await startRig();
  echoDigest(rig);
  await runRows(t, rows(rig));
});

Deno.test("MAX_BODY_BYTES and INLINE_BODY_BYTES bound request bodies", async (t) => {
  await using rig = await startRig({
    requesterSettings: { MAX_BODY_BYTES: "1000", INLINE_BODY_BYTES: "100" },
  });
  echoDigest(rig);
  await t.step("a body at MAX_BODY_BYTES passes", () => arrives(rig, "/echo/at", pattern(1_000)));
  await t.step(
    "a body between the two limits passes",
    () => arrives(rig, "/echo/mid", pattern(101)),
  );
  await t.step("a body over MAX_BODY_BYTES is answered 413", async () => {
    const response = await rig.request("/echo/over", { method: "POST", body: pattern(1_001) });
    assert.equal(response.status, 413);
    assert.deepEqual(rig.upstream.requestsFor("/echo/over"), []);
  });
});
