import assert from "node:assert/strict";
import { latin1, octets } from "../helpers/bytes.ts";
import { requestOctets } from "../helpers/client.ts";
import { one, type TestResponse, text } from "../helpers/http_message.ts";
import { NatsClient } from "../helpers/nats_client.ts";
import { type Rig, startRig } from "../helpers/rig.ts";
import type { UpstreamConnection } from "../helpers/upstream.ts";
import { pause, within } from "../helpers/wait.ts";
import { flowsGone } from "./flows.ts";

const FULL = Deno.env.get("NATSWAY_TEST_FULL") === "1";
/** F20 and F21: from the upstream's write of a piece to its arrival at the client. */
const DELAY_MS = 250;
const SSE = "text/event-stream; charset=utf-8";

interface Pieces {
  readonly count: number;
  readonly bytes: number;
  readonly everyMs: number;
}

const EVENTS: Pieces = FULL
  ? { count: 30, bytes: 20, everyMs: 1_000 }
  : { count: 8, bytes: 20, everyMs: 300 };
const LONG_PIECES: Pieces = FULL
  ? { count: 100, bytes: 100, everyMs: 100 }
  : { count: 25, bytes: 100, everyMs: 100 };

/** Piece number `i`, of its own content. */
function piece(i: number, bytes: number): string {
  return `data: piece ${i} `.padEnd(bytes - 2, ".") + "\n\n";
}

/** Framings that a body of unknown or known length may have. */
type Framing = "chunked" | "length" | "close";

/** Writes a paced response and returns when each piece was written. */
async function writePaced(
  connection: UpstreamConnection,
  type: string | null,
  framing: Framing,
  { count, bytes, everyMs }: Pieces,
): Promise<number[]> {
  const fields = type === null ? [] : [`Content-Type: ${type}`];
  if (framing === "chunked") fields.push("Transfer-Encoding: chunked");
  if (framing === "length") fields.push(`Content-Length: ${count * bytes}`);
  if (framing === "close") fields.push("Connection: close");
  await connection.write(["HTTP/1.1 200 OK", ...fields, "", ""].join("\r\n"));
  const times: number[] = [];
  for (let i = 0; i < count; i++) {
    await pause(everyMs);
    times.push(performance.now());
    const data = piece(i, bytes);
    const size = data.length.toString(16);
    await connection.write(framing === "chunked" ? `${size}\r\n${data}\r\n` : data);
  }
  if (framing === "chunked") await connection.write("0\r\n\r\n");
  return times;
}

/** One paced response through `rig`: every piece by itself, each within the bound. */
async function paced(
  rig: Rig,
  method: string,
  type: string | null,
  framing: Framing,
  pieces: Pieces,
): Promise<void> {
  const target = `/paced/${crypto.randomUUID()}`;
  const written = Promise.withResolvers<number[]>();
  rig.upstream.route(target, async (request, connection) => {
    await request.readBody();
    written.resolve(await writePaced(connection, type, framing, pieces));
    return framing === "close" ? "close" : null;
  });
  const arrived: { at: number; text: string }[] = [];
  const response = await rig.request(target, {
    method,
    ...(method === "POST" ? { body: "q=1" } : {}),
    onBody: (bytes) => void arrived.push({ at: performance.now(), text: latin1(bytes) }),
  });
  const what = `${method} ${type} ${framing}`;
  assert.equal(response.complete, true, what);
  assert.equal(one(response, "content-type"), type, what);
  const wanted = Array.from({ length: pieces.count }, (_, i) => piece(i, pieces.bytes));
  assert.deepEqual(arrived.map((one) => one.text), wanted, what);
  const times = await written.promise;
  const late = Math.max(...arrived.map(({ at }, i) => at - (times[i] ?? 0)));
  assert.ok(late < DELAY_MS, `${what}: a piece came after ${late} ms`);
}

Deno.test("F20 server-sent events arrive one by one as they are written, with GET and with POST", async () => {
  await using rig = await startRig();
  await Promise.all([
    paced(rig, "GET", SSE, "chunked", EVENTS),
    paced(rig, "POST", SSE, "chunked", EVENTS),
    paced(rig, "GET", SSE, "close", EVENTS),
  ]);
});

Deno.test("F21 whatever the media type and the framing, pieces arrive as they are written", async () => {
  await using rig = await startRig({ receivers: 2 });
  const types = [
    "text/html",
    "application/octet-stream",
    "application/x-git-upload-pack-result",
    "application/x-ndjson",
    "application/json",
    null,
  ];
  await Promise.all([
    ...types.map((type) => paced(rig, "GET", type, "chunked", LONG_PIECES)),
    paced(rig, "GET", "video/mp4", "length", LONG_PIECES),
    paced(rig, "GET", "text/plain", "close", LONG_PIECES),
    paced(rig, "DELETE", "text/plain", "chunked", LONG_PIECES),
  ]);
});

Deno.test("a response head leaves when the upstream's head is there, before any body", async () => {
  await using rig = await startRig();
  const seen = Promise.withResolvers<void>();
  rig.upstream.route("/head-first", async (_, connection) => {
    await connection.write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
    await seen.promise;
    await connection.write("2\r\nok\r\n0\r\n\r\n");
  });
  await using client = await rig.connect();
  await client.send(requestOctets("/head-first"));
  await client.socket.readUntil("\r\n\r\n", 2_000);
  seen.resolve();
  assert.equal(latin1(await client.socket.readUntil("0\r\n\r\n")), "2\r\nok\r\n0\r\n\r\n");
});

Deno.test("an idle stream lives longer than PEER_TIMEOUT and every other timeout", async () => {
  await using rig = await startRig({
    settings: {
      PEER_TIMEOUT: "2",
      STREAM_RESPONSE_TIMEOUT: "1",
      NATS_RESPONSE_TIMEOUT: "1",
      KEEPALIVE_TIMEOUT: "1",
      HEADER_TIMEOUT: "1",
    },
  });
  rig.upstream.route("/quiet", async (_, connection) => {
    await connection.write(`HTTP/1.1 200 OK\r\nContent-Type: ${SSE}\r\n`);
    await connection.write("Transfer-Encoding: chunked\r\n\r\n6\r\nfirst\n\r\n");
    await pause(7_000);
    await connection.write("7\r\nsecond\n\r\n0\r\n\r\n");
  });
  const response = await rig.request("/quiet");
  assert.equal(text(response), "first\nsecond\n");
  assert.equal(response.complete, true);
});

for (const how of ["FIN", "RST"] as const) {
  Deno.test(`F22 a client that leaves a stream by ${how}: the upstream is closed within 2 s and nothing is left of the flow`, async () => {
    await using rig = await startRig();
    const ended = Promise.withResolvers<number>();
    rig.upstream.route("/left", async (_, connection) => {
      const writing = writePaced(connection, SSE, "chunked", { ...EVENTS, count: 1_000 });
      writing.catch(() => {}); // the client's leaving ends it
      await connection.waitEnd(30_000);
      ended.resolve(performance.now());
      return "close";
    });
    await using spy = await NatsClient.connect(rig.nats.port);
    const seen = await spy.subscribe(">");
    const client = await rig.connect();
    await client.send(requestOctets("/left"));
    for (let i = 0; i < 3; i++) await client.socket.readUntil(piece(i, 20));
    const left = performance.now();
    await (how === "RST" ? client.socket.reset() : client.socket.close());
    const tookMs = await within(ended.promise, 10_000, "the upstream's end") - left;
    assert.ok(tookMs < 2_000, `after ${tookMs} ms`);
    const closed = await rig.requester.flowClosed();
    assert.equal(closed["code"], "canceled");
    assert.equal((await rig.receiver.flowClosed())["code"], "canceled");
    await flowsGone([rig.requester, rig.receiver]);
    await spy.flush();
    const before = seen.events.length;
    await pause(2_000);
    await spy.flush();
    const id = String(closed["request_id"]);
    const more = seen.events.slice(before).filter((message) => message.subject.includes(id));
    assert.deepEqual(more.map((message) => message.subject), []);
  });
}

/** Late failures: what the upstream does after the first event. */
const BREAKS: Record<string, (connection: UpstreamConnection) => Promise<unknown>> = {
  "resets": (connection) => connection.reset(),
  "closes in the middle of a chunk": async (connection) => {
    await connection.write("ff\r\nhalf");
    await connection.closeWrite();
  },
  "sends what is no chunk": (connection) => connection.write("zz\r\n"),
};

for (const [name, act] of Object.entries(BREAKS)) {
  Deno.test(`an upstream that ${name} late: SSE and NDJSON get the error in-band, and every message is broken off`, async () => {
    await using rig = await startRig();
    const broken = async (type: string): Promise<TestResponse> => {
      const seen = Promise.withResolvers<void>();
      const target = `/late/${crypto.randomUUID()}`;
      rig.upstream.route(target, async (_, connection) => {
        await connection.write(`HTTP/1.1 200 OK\r\nContent-Type: ${type}\r\n`);
        await connection.write("Transfer-Encoding: chunked\r\n\r\n6\r\nfirst\n\r\n");
        await seen.promise;
        await act(connection);
        await connection.waitEnd(10_000).catch(() => {});
        return "close";
      });
      const response = await rig.request(target, { onBody: () => seen.resolve() });
      assert.equal(response.complete, false, type);
      return response;
    };
    const sse = text(await broken(SSE));
    const event = /\nevent: error\ndata: (\{.*\})\n\n$/.exec(sse);
    assert.equal(typeof JSON.parse(event?.[1] ?? "null")?.error, "string", sse);
    const ndjson = text(await broken("application/x-ndjson"));
    assert.ok(ndjson.endsWith("}\n"), ndjson);
    const lines = ndjson.trim().split("\n");
    assert.equal(typeof JSON.parse(lines.at(-1) ?? "null")?.error, "string", lines.join("|"));
    const html = text(await broken("text/html"));
    assert.match(html, /^first\n(half)?$/);
    await flowsGone([rig.requester, rig.receiver]);
  });
}

Deno.test("a late error is not told in-band where the body is coded or has a length that it could fill", async () => {
  await using rig = await startRig();
  const late = async (target: string, fields: readonly string[], body: string) => {
    rig.upstream.route(target, async (_, connection) => {
      const head = ["HTTP/1.1 200 OK", `Content-Type: ${SSE}`, ...fields, "", ""].join("\r\n");
      await connection.write(head + body);
      await pause(200);
      await connection.reset();
      return "close";
    });
    return await rig.request(target);
  };
  const chunked = "Transfer-Encoding: chunked";
  const open = await late("/open", [chunked], "6\r\nfirst\n\r\n");
  const coded = await late("/coded", [chunked, "Content-Encoding: gzip"], "6\r\nfirst\n\r\n");
  assert.equal(text(coded), "first\n");
  assert.equal(coded.complete, false);
  // Exactly as much is missing as the text would bring.
  const lined = await late("/lined", [`Content-Length: ${open.bodyBytes}`], "first\n");
  assert.equal(lined.complete, false, text(lined));
});

Deno.test("a late error never exceeds a declared length and never completes it", async () => {
  await using rig = await startRig();
  for (const length of [7, 60, 4_000]) {
    rig.upstream.route(`/declared/${length}`, async (_, connection) => {
      const head = `HTTP/1.1 200 OK\r\nContent-Type: ${SSE}\r\nContent-Length: ${length}\r\n\r\n`;
      await connection.write(octets(`${head}first\n`));
      await pause(200);
      await connection.reset();
      return "close";
    });
    const response = await rig.request(`/declared/${length}`);
    assert.equal(response.complete, false, `${length}: ${text(response)}`);
    assert.equal(response.status, 200);
    assert.ok(response.bodyBytes < length, `${response.bodyBytes} of ${length}`);
  }
});
