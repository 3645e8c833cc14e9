import assert from "node:assert/strict";
import { latin1 } from "../helpers/bytes.ts";
import { answerBody, echo, ok, PortRig, readResponse } from "../helpers/unit_server.ts";

Deno.test("Pipelined requests are answered in their order, and the connection lives on", async () => {
  await using rig = new PortRig(echo);
  await using client = await rig.connect();
  await client.write(
    "GET /1 HTTP/1.1\r\nHost: a\r\n\r\n" +
      "POST /2 HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc" +
      "POST /3 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nde\r\n1\r\nf\r\n0\r\n\r\n" +
      "GET /4 HTTP/1.1\r\nHost: a\r\n\r\n",
  );
  for (const body of ["GET /1", "POST /2 abc", "POST /3 def", "GET /4"]) {
    assert.equal(await readResponse(client), ok(body));
  }
  await client.write("GET /5 HTTP/1.1\r\nHost: a\r\n\r\n");
  assert.equal(await readResponse(client), ok("GET /5"));
});

Deno.test("A second request is not handed over before the first is answered", async () => {
  await using rig = new PortRig((request) => {
    if (request.head.target === "/2") request.response.answer(200, "text/plain", "2");
  });
  await using client = await rig.connect();
  await client.write("GET /1 HTTP/1.1\r\nHost: a\r\n\r\nGET /2 HTTP/1.1\r\nHost: a\r\n\r\n");
  const first = await rig.requests.find(() => true, { ms: 5_000, what: "the first request" });
  // The server reads ahead, so it has seen the second one when this echo came back.
  await using other = await rig.connect();
  await other.write("GET /2 HTTP/1.1\r\nHost: a\r\n\r\n");
  await readResponse(other);
  assert.deepEqual(rig.requests.events.map((one) => one.head.target), ["/1", "/2"]);
  first.response.answer(200, "text/plain", "1");
  assert.equal(await readResponse(client), ok("1"));
  assert.equal(await readResponse(client), ok("2"));
});

Deno.test("A request that comes octet by octet is read like one that comes whole", async () => {
  await using rig = new PortRig(echo);
  await using client = await rig.connect();
  await client.writeInPieces("POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc", 1);
  assert.equal(await readResponse(client), ok("POST /x abc"));
});

const REFUSED: readonly [name: string, request: string, status: string][] = [
  ["no HTTP at all", "hello\r\n\r\n", "400 Bad Request"],
  ["no Host", "GET / HTTP/1.1\r\n\r\n", "400 Bad Request"],
  ["a blank before the colon", "GET / HTTP/1.1\r\nHost : a\r\n\r\n", "400 Bad Request"],
  [
    "two lengths",
    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
    "400 Bad Request",
  ],
  [
    "length and chunked",
    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "400 Bad Request",
  ],
  [
    "a coding before chunked",
    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
    "501 Not Implemented",
  ],
  [
    "a coding without chunked",
    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n",
    "400 Bad Request",
  ],
  ["HTTP/2", "GET / HTTP/2.0\r\nHost: a\r\n\r\n", "505 HTTP Version Not Supported"],
  [
    "a head that is too large",
    `GET / HTTP/1.1\r\nHost: a\r\nX: ${"y".repeat(5000)}`,
    "431 Request Header Fields Too Large",
  ],
  ["a target that is too long", `GET /${"y".repeat(5000)}`, "414 URI Too Long"],
];

for (const [name, request, status] of REFUSED) {
  Deno.test(`Refused with ${status.slice(0, 3)}, and nothing behind it is a request: ${name}`, async () => {
    await using rig = new PortRig(echo);
    await using client = await rig.connect();
    await client.write(`${request}GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n`);
    const answer = await readResponse(client);
    assert.ok(answer.startsWith(`HTTP/1.1 ${status}\r\n`), answer);
    assert.match(answer, /\r\nConnection: close\r\n/);
    assert.match(answer, /"code":"/);
    assert.equal(await client.waitEnd(), "fin");
    assert.equal(client.receivedBytes, client.transcript.length);
    assert.equal(rig.requests.events.length, 0);
  });
}

Deno.test("A head that does not become whole in time is answered with 408", async () => {
  await using rig = new PortRig(echo, { headerTimeoutMs: 60 });
  await using client = await rig.connect();
  await client.write("GET / HTTP/1.1\r\nHost: a\r\n");
  const answer = await readResponse(client);
  assert.ok(answer.startsWith("HTTP/1.1 408 Request Timeout\r\n"), answer);
  assert.match(answer, /"code":"request_timeout"/);
  assert.equal(await client.waitEnd(), "fin");
});

Deno.test("An idle connection is closed without a word, before the first request and between two", async () => {
  await using rig = new PortRig(echo, { keepaliveTimeoutMs: 60 });
  await using silent = await rig.connect();
  assert.equal(await silent.waitEnd(), "fin");
  assert.equal(silent.receivedBytes, 0);
  await using client = await rig.connect();
  await client.write("GET /1 HTTP/1.1\r\nHost: a\r\n\r\n");
  assert.equal(await readResponse(client), ok("GET /1"));
  assert.equal(await client.nothingFollows(5_000), "fin");
});

Deno.test("A body that is too large is refused and never parsed as the next request", async () => {
  await using rig = new PortRig((request) => echo(request, 10));
  const tail = "GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n";
  for (
    const body of [
      `Content-Length: ${tail.length}\r\n\r\n${tail}`,
      `Transfer-Encoding: chunked\r\n\r\n${tail.length.toString(16)}\r\n${tail}\r\n0\r\n\r\n`,
    ]
  ) {
    await using client = await rig.connect();
    await client.write(`POST / HTTP/1.1\r\nHost: a\r\n${body}${tail}`);
    assert.ok((await readResponse(client)).startsWith("HTTP/1.1 413 Content Too Large\r\n"));
    assert.equal(await client.nothingFollows(5_000), "fin");
  }
  assert.equal(rig.requests.events.length, 2);
});

Deno.test("A body that the handler does not read ends the connection behind the answer", async () => {
  await using rig = new PortRig((request) => request.response.answer(200, "text/plain", "no"));
  await using client = await rig.connect();
  await client.write(
    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 38\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n....",
  );
  assert.equal(await readResponse(client), ok("no"));
  assert.equal(await client.nothingFollows(5_000), "fin");
  assert.equal(rig.requests.events.length, 1);
});

Deno.test("An empty body is told from none", async () => {
  await using rig = new PortRig((request) => {
    const { method, target } = request.head;
    void request.readBody(10).then((result) => answerBody(request, method, target, result));
  });
  await using client = await rig.connect();
  await client.write(
    "POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\nPOST /b HTTP/1.1\r\nHost: a\r\n\r\n",
  );
  assert.equal(await readResponse(client), ok("POST /a "));
  assert.equal(await readResponse(client), ok("POST /b none"));
});

for (
  const [name, body] of [
    ["a chunk size that is none", "zz\r\n"],
    ["a chunk without its line end", "3\r\nabcd\r\n"],
    ["a blank before the size", " 3\r\nabc\r\n"],
  ] as const
) {
  Deno.test(`A body that is not chunked framing gets 400 and the end: ${name}`, async () => {
    await using rig = new PortRig(echo);
    await using client = await rig.connect();
    await client.write(`POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n${body}`);
    assert.ok((await readResponse(client)).startsWith("HTTP/1.1 400 Bad Request\r\n"));
    assert.equal(await client.nothingFollows(5_000), "fin");
  });
}

Deno.test("A body that stops coming gets 408, one whose client ended gets 400", async () => {
  await using rig = new PortRig(echo, { headerTimeoutMs: 80 });
  const head = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc";
  await using slow = await rig.connect();
  await slow.write(head);
  assert.ok((await readResponse(slow)).startsWith("HTTP/1.1 408 Request Timeout\r\n"));
  await using ended = await rig.connect();
  await ended.write(head);
  await ended.closeWrite();
  assert.ok((await readResponse(ended)).startsWith("HTTP/1.1 400 Bad Request\r\n"));
  assert.equal(await ended.waitEnd(), "fin");
});

Deno.test("Each piece of a body has the whole time: a slow upload is no stalled one", async () => {
  await using rig = new PortRig(echo, { headerTimeoutMs: 250 });
  await using client = await rig.connect();
  await client.write("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 8\r\n\r\n");
  await client.writeInPieces("abcdefgh", 1, 60);
  assert.equal(await readResponse(client), ok("POST / abcdefgh"));
});

Deno.test("Expect: 100-continue is answered when the body is asked for, and only then", async () => {
  await using rig = new PortRig((request) => echo(request, 10));
  await using client = await rig.connect();
  await client.write(
    "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n",
  );
  assert.equal(latin1(await client.readUntil("\r\n\r\n")), "HTTP/1.1 100 Continue\r\n\r\n");
  await client.write("abc");
  assert.equal(await readResponse(client), ok("POST / abc"));
  await client.write(
    "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\nabc",
  );
  assert.equal(await readResponse(client), ok("POST / abc"), "the body is there already");
  await client.write(
    "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 11\r\n\r\n",
  );
  const refused = await readResponse(client);
  assert.ok(refused.startsWith("HTTP/1.1 413 Content Too Large\r\n"), refused);
});
