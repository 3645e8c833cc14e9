import assert from "node:assert/strict";
import type { IngressRequest } from "../../lib/ingress/connection.ts";
import type { BodyResult } from "../../lib/ingress/request_body.ts";
import { HttpServer, type HttpServerOptions } from "../../lib/ingress/server.ts";
import { answerError } from "../../lib/ingress/answers.ts";
import { latin1, octets, pattern, sha256 } from "../helpers/bytes.ts";
import { TestSocket } from "../helpers/socket.ts";
import { MemoryLogger } from "../helpers/unit_transport.ts";
import { withoutDate } from "../helpers/unit_client.ts";
import { EventLog, within } from "../helpers/wait.ts";

/** A server whose handler is the test's; it is closed with the test. */
class Rig implements AsyncDisposable {
  readonly server: HttpServer;
  readonly requests = new EventLog<IngressRequest>();
  readonly logger = new MemoryLogger();

  constructor(
    handler: (request: IngressRequest) => void,
    options: Partial<HttpServerOptions> = {},
  ) {
    this.server = new HttpServer({
      hostname: "127.0.0.1",
      port: 0,
      role: "requester",
      maxConnections: 100,
      maxHeaderBytes: 4096,
      headerTimeoutMs: 10_000,
      keepaliveTimeoutMs: 10_000,
      logger: this.logger,
      ...options,
      handler: (request) => {
        this.requests.add(request);
        handler(request);
      },
    });
  }

  connect(): Promise<TestSocket> {
    return TestSocket.connect(this.server.port);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await within(this.server.close(), 5_000, "the server's close");
  }
}

/** Answers with method, target and body. */
function echo(request: IngressRequest, maxBytes = 1_000_000): void {
  const { method, target } = request.head;
  if (request.head.framing.kind === "none") {
    request.response.answer(200, "text/plain", `${method} ${target}`);
    return;
  }
  void request.readBody(maxBytes).then((result) => answerBody(request, method, target, result));
}

function answerBody(
  request: IngressRequest,
  method: string,
  target: string,
  result: BodyResult,
): void {
  const { response } = request;
  switch (result.kind) {
    case "body": {
      const body = result.bytes === null ? "none" : latin1(result.bytes);
      response.answer(200, "text/plain", `${method} ${target} ${body}`);
      return;
    }
    case "too_large":
      answerError(response, 413, "too large", "body_too_large");
      return;
    case "broken":
      if (result.status === 0) response.abort();
      else answerError(response, result.status, result.reason, "bad_request");
  }
}

/** One response with a Content-Length, as text without its Date. */
async function readResponse(socket: TestSocket): Promise<string> {
  const head = latin1(await socket.readUntil("\r\n\r\n"));
  const length = /\r\ncontent-length: (\d+)\r\n/i.exec(head)?.[1] ?? "0";
  return withoutDate(head) + latin1(await socket.readExactly(Number(length)));
}

function ok(body: string): string {
  return `HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: ${body.length}\r\n\r\n${body}`;
}

Deno.test("Pipelined requests are answered in their order, and the connection lives on", async () => {
  await using rig = new Rig(echo);
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
  await using rig = new Rig((request) => {
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
  await using rig = new Rig(echo);
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
    "another coding",
    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n",
    "501 Not Implemented",
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
    await using rig = new Rig(echo);
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
  await using rig = new Rig(echo, { headerTimeoutMs: 60 });
  await using client = await rig.connect();
  await client.write("GET / HTTP/1.1\r\nHost: a\r\n");
  const answer = await readResponse(client);
  assert.ok(answer.startsWith("HTTP/1.1 408 Request Timeout\r\n"), answer);
  assert.match(answer, /"code":"request_timeout"/);
  assert.equal(await client.waitEnd(), "fin");
});

Deno.test("An idle connection is closed without a word, before the first request and between two", async () => {
  await using rig = new Rig(echo, { keepaliveTimeoutMs: 60 });
  await using silent = await rig.connect();
  assert.equal(await silent.waitEnd(), "fin");
  assert.equal(silent.receivedBytes, 0);
  await using client = await rig.connect();
  await client.write("GET /1 HTTP/1.1\r\nHost: a\r\n\r\n");
  assert.equal(await readResponse(client), ok("GET /1"));
  assert.equal(await client.nothingFollows(5_000), "fin");
});

Deno.test("A body that is too large is refused and never parsed as the next request", async () => {
  await using rig = new Rig((request) => echo(request, 10));
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
  await using rig = new Rig((request) => request.response.answer(200, "text/plain", "no"));
  await using client = await rig.connect();
  await client.write(
    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 38\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n....",
  );
  assert.equal(await readResponse(client), ok("no"));
  assert.equal(await client.nothingFollows(5_000), "fin");
  assert.equal(rig.requests.events.length, 1);
});

Deno.test("An empty body is told from none", async () => {
  await using rig = new Rig((request) => {
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
    await using rig = new Rig(echo);
    await using client = await rig.connect();
    await client.write(`POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n${body}`);
    assert.ok((await readResponse(client)).startsWith("HTTP/1.1 400 Bad Request\r\n"));
    assert.equal(await client.nothingFollows(5_000), "fin");
  });
}

Deno.test("A body that stops coming gets 408, one whose client ended gets 400", async () => {
  await using rig = new Rig(echo, { headerTimeoutMs: 80 });
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
  await using rig = new Rig(echo, { headerTimeoutMs: 250 });
  await using client = await rig.connect();
  await client.write("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 8\r\n\r\n");
  await client.writeInPieces("abcdefgh", 1, 60);
  assert.equal(await readResponse(client), ok("POST / abcdefgh"));
});

Deno.test("Expect: 100-continue is answered when the body is asked for, and only then", async () => {
  await using rig = new Rig((request) => echo(request, 10));
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

Deno.test("A client that ended its input still gets what is answered soon", async () => {
  await using rig = new Rig(() => {});
  await using client = await rig.connect();
  await client.write("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
  await client.closeWrite();
  const request = await rig.requests.find(() => true, { ms: 5_000, what: "the request" });
  request.response.answer(200, "text/plain", "late");
  assert.equal(await readResponse(client), ok("late"));
  assert.equal(await client.waitEnd(), "fin");
});

Deno.test("A client that ended its input and is not answered soon counts as gone", async () => {
  await using rig = new Rig(() => {});
  await using client = await rig.connect();
  await client.write("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
  const request = await rig.requests.find(() => true, { ms: 5_000, what: "the request" });
  const gone = new Promise<void>((resolve) => request.response.onGone = resolve);
  await client.closeWrite();
  await within(gone, 5_000, "onGone");
  assert.ok(request.response.ended);
  assert.equal(await client.waitEnd(), "fin");
});

Deno.test("A client that resets is gone at once, with and without a body under way", async () => {
  await using rig = new Rig((request) => {
    if (request.head.framing.kind !== "none") echo(request);
  });
  const client = await rig.connect();
  await client.write("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
  const request = await rig.requests.find(() => true, { ms: 5_000, what: "the request" });
  const gone = new Promise<void>((resolve) => request.response.onGone = resolve);
  await client.reset();
  await within(gone, 5_000, "onGone");
  const uploading = await rig.connect();
  await uploading.write("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc");
  await rig.requests.find(() => true, { ms: 5_000, what: "the upload", from: 1 });
  await uploading.reset();
});

Deno.test("A broken message ends with the connection, never with the next response", async () => {
  await using rig = new Rig((request) => {
    request.response.start({ status: 200, fields: null, declaredLength: -1 });
    request.response.body(octets("abc"));
    request.response.abort();
  });
  await using client = await rig.connect();
  await client.write("GET /1 HTTP/1.1\r\nHost: a\r\n\r\nGET /2 HTTP/1.1\r\nHost: a\r\n\r\n");
  assert.equal(await client.waitEnd(), "fin");
  assert.ok(latin1(client.transcript).endsWith("\r\n\r\n3\r\nabc\r\n"));
  assert.equal(rig.requests.events.length, 1);
});

Deno.test("An answer survives unread input behind it: it is thrown away before the close", async () => {
  await using rig = new Rig((request) => {
    request.response.closeAfter();
    request.response.answer(200, "text/plain", "bye");
  });
  await using client = await rig.connect();
  await client.write(
    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n" + "x".repeat(50_000),
  );
  const answer = await readResponse(client);
  assert.match(answer, /\r\nConnection: close\r\n/);
  assert.ok(answer.endsWith("bye"));
  await client.write("x".repeat(50_000));
  assert.equal(await client.waitEnd(), "fin");
});

Deno.test("A client that never stops sending is cut off, not served for ever", async () => {
  await using rig = new Rig((request) => {
    request.response.closeAfter();
    request.response.answer(200, "text/plain", "bye");
  });
  await using client = await rig.connect();
  await client.write("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000000\r\n\r\n");
  await readResponse(client);
  const flood = (async () => {
    for (;;) await client.write("x".repeat(65_536));
  })().catch(() => "cut");
  assert.equal(await within(flood, 10_000, "the cut"), "cut");
});

Deno.test("A slow reader gets all of the last response of its connection", async () => {
  const body = pattern(3_000_000);
  await using rig = new Rig((request) => {
    request.response.closeAfter();
    request.response.start({ status: 200, fields: null, declaredLength: body.length });
    request.response.body(body);
    request.response.end();
  });
  await using client = await rig.connect();
  await client.write("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
  await client.readUntil("\r\n\r\n");
  // Longer than input is thrown away for after the end: what is pending must not count as that.
  await new Promise((resolve) => setTimeout(resolve, 1_300));
  assert.equal(sha256(await client.readExactly(body.length)), sha256(body));
  assert.equal(await client.waitEnd(), "fin");
});

Deno.test("A reader that takes nothing for the idle time is closed", async () => {
  await using rig = new Rig((request) => {
    request.response.start({ status: 200, fields: null, declaredLength: 30_000_000 });
    request.response.body(new Uint8Array(30_000_000));
    request.response.end();
  }, { keepaliveTimeoutMs: 150 });
  await using client = await rig.connect();
  await client.write("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
  await within(rig.requests.find(() => true, { ms: 5_000, what: "the request" }), 5_000, "it");
  const limit = Date.now() + 5_000;
  while (rig.server.connections > 0 && Date.now() < limit) {
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  assert.equal(rig.server.connections, 0);
});

Deno.test("drain lets the response under way end, and closes behind it", async () => {
  await using rig = new Rig(() => {});
  await using idle = await rig.connect();
  await using client = await rig.connect();
  await client.write("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
  const request = await rig.requests.find(() => true, { ms: 5_000, what: "the request" });
  rig.server.drain();
  assert.equal(await idle.waitEnd(), "fin");
  request.response.answer(200, "text/plain", "done");
  const answer = await readResponse(client);
  assert.match(answer, /\r\nConnection: close\r\n/);
  assert.equal(await client.waitEnd(), "fin");
  await within(rig.server.closed(), 5_000, "the last connection");
  await assert.rejects(TestSocket.connect(rig.server.port));
});

Deno.test("MAX_CONNECTIONS bounds the connections, and names itself in the log", async () => {
  await using rig = new Rig(echo, { maxConnections: 1 });
  await using first = await rig.connect();
  await first.write("GET /1 HTTP/1.1\r\nHost: a\r\n\r\n");
  assert.equal(await readResponse(first), ok("GET /1"));
  await using second = await rig.connect();
  await second.waitEnd();
  assert.equal(second.receivedBytes, 0);
  assert.equal(
    rig.logger.lines.find((line) => line.fields.setting)?.fields.setting,
    "MAX_CONNECTIONS",
  );
  await first.write("GET /2 HTTP/1.1\r\nHost: a\r\n\r\n");
  assert.equal(await readResponse(first), ok("GET /2"));
});

Deno.test("A handler that throws ends its connection and no other one", async () => {
  await using rig = new Rig((request) => {
    if (request.head.target === "/throw") throw new Error("a fault in a handler");
    echo(request);
  });
  await using broken = await rig.connect();
  await broken.write("GET /throw HTTP/1.1\r\nHost: a\r\n\r\n");
  await broken.waitEnd();
  assert.equal(broken.receivedBytes, 0);
  await using client = await rig.connect();
  await client.write("GET /fine HTTP/1.1\r\nHost: a\r\n\r\n");
  assert.equal(await readResponse(client), ok("GET /fine"));
});
