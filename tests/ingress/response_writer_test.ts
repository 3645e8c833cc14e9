import assert from "node:assert/strict";
import { parseFieldBlock } from "../../lib/http1/parse.ts";
import type { Fields } from "../../lib/http1/head.ts";
import { answerError, answerFailure, errorBody } from "../../lib/ingress/answers.ts";
import type { ResponseStart } from "../../lib/ingress/response_writer.ts";
import { octets } from "../helpers/bytes.ts";
import { MemoryClient, withoutDate } from "../helpers/unit_client.ts";

function fields(text: string): Fields {
  const bytes = octets(text);
  return parseFieldBlock(bytes, 0, bytes.length);
}

/** A head with a Date of its own, so that the octets are always the same. */
const DATE = "Date: Tue, 02 Jun 2026 08:15:30 GMT\r\n";

interface Row {
  readonly name: string;
  readonly client?: ConstructorParameters<typeof MemoryClient>[0];
  readonly start: Partial<ResponseStart> & { block?: string };
  readonly body?: readonly string[];
  readonly out: string;
  readonly end: "keep" | "close" | "broken";
}

const ROWS: readonly Row[] = [
  {
    name: "A declared length is passed on as it stands",
    start: { block: `Content-Length: 5\r\n${DATE}X: y\r\n`, declaredLength: 5 },
    body: ["hel", "lo"],
    out: `HTTP/1.1 200 OK\r\nContent-Length: 5\r\n${DATE}X: y\r\n\r\nhello`,
    end: "keep",
  },
  {
    name: "Without a length an HTTP/1.1 client gets chunks",
    start: { block: DATE },
    body: ["hello", "", "x".repeat(16)],
    out: `HTTP/1.1 200 OK\r\n${DATE}Transfer-Encoding: chunked\r\n\r\n` +
      `5\r\nhello\r\n10\r\n${"x".repeat(16)}\r\n0\r\n\r\n`,
    end: "keep",
  },
  {
    name: "A chunked body without octets is the last chunk alone",
    start: { block: DATE },
    out: `HTTP/1.1 200 OK\r\n${DATE}Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
    end: "keep",
  },
  {
    name: "A body that is whole at hand gets its length",
    start: { block: DATE, completeLength: 3 },
    body: ["abc"],
    out: `HTTP/1.1 200 OK\r\n${DATE}Content-Length: 3\r\n\r\nabc`,
    end: "keep",
  },
  {
    name: "An HTTP/1.0 client gets no chunks but the end of the connection",
    client: { minor: 0, keepAlive: true },
    start: { block: DATE },
    body: ["abc"],
    out: `HTTP/1.1 200 OK\r\n${DATE}Connection: close\r\n\r\nabc`,
    end: "close",
  },
  {
    name: "An HTTP/1.0 client that asked for it keeps its connection behind a length",
    client: { minor: 0, keepAlive: true },
    start: { block: `${DATE}content-length: 3\r\n`, declaredLength: 3 },
    body: ["abc"],
    out: `HTTP/1.1 200 OK\r\n${DATE}content-length: 3\r\nConnection: keep-alive\r\n\r\nabc`,
    end: "keep",
  },
  {
    name: "A client that wants no more is told so",
    client: { keepAlive: false },
    start: { block: `${DATE}Content-Length: 0\r\n`, declaredLength: 0 },
    out: `HTTP/1.1 200 OK\r\n${DATE}Content-Length: 0\r\nConnection: close\r\n\r\n`,
    end: "close",
  },
  {
    name: "HEAD keeps the length that a GET would have, and has no body",
    client: { method: "HEAD" },
    start: { block: `${DATE}Content-Length: 5\r\n`, declaredLength: 5 },
    body: ["hello"],
    out: `HTTP/1.1 200 OK\r\n${DATE}Content-Length: 5\r\n\r\n`,
    end: "keep",
  },
  {
    name: "HEAD without a declared length says none, whatever is at hand",
    client: { method: "HEAD" },
    start: { block: DATE, completeLength: 0 },
    out: `HTTP/1.1 200 OK\r\n${DATE}\r\n`,
    end: "keep",
  },
  {
    name: "204 has neither body nor length",
    start: { status: 204, block: `${DATE}Content-Length: 5\r\n`, declaredLength: 5 },
    body: ["hello"],
    out: `HTTP/1.1 204 No Content\r\n${DATE}\r\n`,
    end: "keep",
  },
  {
    name: "304 keeps the length of the representation and has no body",
    start: { status: 304, block: `${DATE}Content-Length: 5\r\nETag: "a"\r\n`, declaredLength: 5 },
    body: ["hello"],
    out: `HTTP/1.1 304 Not Modified\r\n${DATE}Content-Length: 5\r\nETag: "a"\r\n\r\n`,
    end: "keep",
  },
  {
    name: "304 without a length is given none",
    start: { status: 304, block: DATE, completeLength: 0 },
    out: `HTTP/1.1 304 Not Modified\r\n${DATE}\r\n`,
    end: "keep",
  },
  {
    name: "205 of an origin is framed like any other",
    start: { status: 205, block: `${DATE}Content-Length: 0\r\n`, declaredLength: 0 },
    out: `HTTP/1.1 205 Reset Content\r\n${DATE}Content-Length: 0\r\n\r\n`,
    end: "keep",
  },
  {
    name: "Hop-by-hop and nominated fields stay behind; framing fields cannot be named away",
    start: {
      block:
        "A: 1\r\nConnection: x-hop, content-length, keep-alive\r\nX-Hop: 2\r\nKeep-Alive: 5\r\n" +
        "Transfer-Encoding: gzip\r\nUpgrade: x\r\nTE: x\r\nTrailer: x\r\nProxy-Connection: x\r\n" +
        `Proxy-Authenticate: x\r\nB: 3\r\nContent-Length: 0\r\n${DATE}`,
      declaredLength: 0,
    },
    out: `HTTP/1.1 200 OK\r\nA: 1\r\nB: 3\r\nContent-Length: 0\r\n${DATE}\r\n`,
    end: "keep",
  },
  {
    name: "Order, case, duplicates and octets of the fields survive",
    start: {
      block: `x-A: \xe9 \t b\r\nSET-cookie:a\r\n${DATE}set-Cookie: b\r\nEmpty:\r\n`,
      completeLength: 0,
    },
    out: `HTTP/1.1 200 OK\r\nx-A: \xe9 \t b\r\nSET-cookie:a\r\n${DATE}set-Cookie: b\r\nEmpty:\r\n` +
      "Content-Length: 0\r\n\r\n",
    end: "keep",
  },
  {
    name: "A list of equal lengths is written as one (RFC 9110 section 8.6)",
    start: { block: `Content-Length: 3, 3\r\nContent-Length: 3\r\n${DATE}`, declaredLength: 3 },
    body: ["abc"],
    out: `HTTP/1.1 200 OK\r\n${DATE}Content-Length: 3\r\n\r\nabc`,
    end: "keep",
  },
  {
    name: "A length that contradicts the count is not believed",
    start: { block: `Content-Length: 30\r\n${DATE}`, declaredLength: 3 },
    body: ["abc"],
    out: `HTTP/1.1 200 OK\r\n${DATE}Content-Length: 3\r\n\r\nabc`,
    end: "keep",
  },
  {
    name: "A length that nobody vouches for is dropped",
    start: { block: `Content-Length: 30\r\n${DATE}` },
    body: ["abc"],
    out: `HTTP/1.1 200 OK\r\n${DATE}Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n`,
    end: "keep",
  },
  {
    name: "A body that is shorter than declared breaks the message off",
    start: { block: `Content-Length: 5\r\n${DATE}`, declaredLength: 5 },
    body: ["abc"],
    out: `HTTP/1.1 200 OK\r\nContent-Length: 5\r\n${DATE}\r\nabc`,
    end: "broken",
  },
  {
    name: "A body that is longer than declared breaks the message off, without the surplus",
    start: { block: `Content-Length: 5\r\n${DATE}`, declaredLength: 5 },
    body: ["abc", "def"],
    out: `HTTP/1.1 200 OK\r\nContent-Length: 5\r\n${DATE}\r\nabc`,
    end: "broken",
  },
  {
    name: "A reason of its own crosses octet for octet",
    start: { reason: octets("Tr\xe8s bien"), block: DATE, completeLength: 0 },
    out: `HTTP/1.1 200 Tr\xe8s bien\r\n${DATE}Content-Length: 0\r\n\r\n`,
    end: "keep",
  },
  {
    name: "A reason that would write lines of its own is replaced",
    start: { reason: octets("OK\r\nX: y"), block: DATE, completeLength: 0 },
    out: `HTTP/1.1 200 OK\r\n${DATE}Content-Length: 0\r\n\r\n`,
    end: "keep",
  },
  {
    name: "A status without a registered phrase has an empty one",
    start: { status: 799, block: DATE, completeLength: 0 },
    out: `HTTP/1.1 799 \r\n${DATE}Content-Length: 0\r\n\r\n`,
    end: "keep",
  },
  {
    name: "Lines of our own stand behind those of the origin",
    start: { block: DATE, lines: "Via: 1.1 natsway-1\r\n", completeLength: 0 },
    out: `HTTP/1.1 200 OK\r\n${DATE}Via: 1.1 natsway-1\r\nContent-Length: 0\r\n\r\n`,
    end: "keep",
  },
];

for (const row of ROWS) {
  Deno.test(`ResponseWriter: ${row.name}`, async () => {
    const client = new MemoryClient(row.client);
    const { block, ...start } = row.start;
    const head = {
      status: 200,
      fields: block === undefined ? null : fields(block),
      declaredLength: -1,
      ...start,
    };
    client.response.start(head);
    for (const piece of row.body ?? []) client.response.body(octets(piece));
    client.response.end();
    assert.equal(await client.text(), row.out);
    assert.equal(client.end, row.end);
  });
}

Deno.test("A response without Date gets one of now (RFC 9110 section 6.6.1)", async () => {
  const client = new MemoryClient();
  const before = Math.floor(Date.now() / 1000) * 1000;
  client.response.start({ status: 200, fields: fields("A: b\r\n"), declaredLength: 0 });
  client.response.end();
  const text = await client.text();
  const date = /^HTTP\/1\.1 200 OK\r\nA: b\r\nDate: ([^\r]+)\r\nContent-Length: 0\r\n\r\n$/.exec(
    text,
  );
  assert.ok(date !== null, text);
  assert.match(date[1]!, /^\w{3}, \d{2} \w{3} \d{4} \d{2}:\d{2}:\d{2} GMT$/);
  const said = Date.parse(date[1]!);
  assert.ok(said >= before && said <= Date.now());
});

Deno.test("100 Continue goes before the head, to HTTP/1.1 clients only, and never behind it", async () => {
  const client = new MemoryClient();
  client.response.continue();
  client.response.start({ status: 200, fields: fields(DATE), declaredLength: 0 });
  client.response.continue();
  client.response.end();
  client.response.continue();
  assert.equal(
    await client.text(),
    `HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n${DATE}Content-Length: 0\r\n\r\n`,
  );
  const old = new MemoryClient({ minor: 0 });
  old.response.continue();
  assert.equal(await old.text(), "");
});

Deno.test("closeAfter makes any response the last one", async () => {
  const client = new MemoryClient();
  client.response.closeAfter();
  client.response.answer(200, "text/plain", "ok");
  assert.match(await client.text(), /\r\nConnection: close\r\n/);
  assert.equal(client.end, "close");
});

Deno.test("Only one thing ends a response, and nothing is written behind the end", async () => {
  const client = new MemoryClient();
  client.response.start({ status: 200, fields: fields(DATE), declaredLength: 3 });
  client.response.start({ status: 500, fields: null, declaredLength: 0 });
  client.response.body(octets("abc"));
  client.response.end();
  client.response.body(octets("more"));
  client.response.abort();
  client.response.gone();
  client.response.answer(500, "text/plain", "no");
  assert.equal(client.end, "keep");
  assert.equal(await client.text(), `HTTP/1.1 200 OK\r\n${DATE}Content-Length: 3\r\n\r\nabc`);
});

Deno.test("An end without a head, and an abort, break the connection off", () => {
  const never = new MemoryClient();
  never.response.end();
  assert.equal(never.end, "broken");
  const aborted = new MemoryClient();
  aborted.response.start({ status: 200, fields: null, declaredLength: -1 });
  aborted.response.abort();
  assert.equal(aborted.end, "broken");
});

Deno.test("A chunked message that is broken off has no last chunk", async () => {
  const client = new MemoryClient();
  client.response.start({ status: 200, fields: fields(DATE), declaredLength: -1 });
  client.response.body(octets("abc"));
  client.response.abort();
  assert.ok((await client.text()).endsWith("\r\n\r\n3\r\nabc\r\n"));
});

Deno.test("onGone is called once, when the client leaves before the end", () => {
  const client = new MemoryClient();
  let gone = 0;
  client.response.onGone = () => gone++;
  client.response.gone();
  client.response.gone();
  assert.equal(gone, 1);
  const ended = new MemoryClient();
  ended.response.onGone = () => gone++;
  ended.response.answer(200, "text/plain", "");
  ended.response.gone();
  assert.equal(gone, 1);
});

Deno.test("Body octets are copied and counted", async () => {
  const client = new MemoryClient();
  client.response.start({ status: 200, fields: fields(DATE), declaredLength: 3 });
  const buffer = octets("abc");
  client.response.body(buffer);
  buffer.fill(0x2a);
  client.response.end();
  assert.equal(client.response.bodyBytes, 3);
  assert.ok((await client.text()).endsWith("\r\n\r\nabc"));
});

Deno.test("answerError and answerFailure answer with the JSON of http-surface.md section 3", async () => {
  const client = new MemoryClient();
  answerError(client.response, 413, "over MAX_BODY_BYTES", "body_too_large");
  const body =
    '{"error":"Content Too Large","message":"over MAX_BODY_BYTES","code":"body_too_large"}';
  assert.equal(
    withoutDate(await client.text()),
    "HTTP/1.1 413 Content Too Large\r\nContent-Type: application/json\r\n" +
      `Content-Length: ${body.length}\r\n\r\n${body}`,
  );
  for (
    const [code, status, retry] of [
      ["overloaded", "503 Service Unavailable", true],
      ["no_receiver", "503 Service Unavailable", false],
      ["response_timeout", "504 Gateway Timeout", false],
      ["loop", "508 Loop Detected", false],
    ] as const
  ) {
    const failed = new MemoryClient();
    answerFailure(failed.response, code, "m", { state: "ready" });
    const text = await failed.text();
    assert.ok(text.startsWith(`HTTP/1.1 ${status}\r\n`), text);
    assert.equal(text.includes("\r\nRetry-After: 1\r\n"), retry, text);
    assert.ok(text.endsWith(`,"message":"m","code":"${code}","details":{"state":"ready"}}`), text);
  }
  assert.equal(errorBody(599, "m", "c"), '{"error":"Error","message":"m","code":"c"}');
  assert.equal(
    errorBody(503, "m", "__proto__"),
    '{"error":"Service Unavailable","message":"m","code":"__proto__"}',
  );
});

Deno.test("An answer with a code that is no failure has no Retry-After", async () => {
  const client = new MemoryClient();
  answerError(client.response, 400, "m", "toString");
  assert.ok(!(await client.text()).includes("Retry-After"));
});
