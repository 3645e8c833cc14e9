import assert from "node:assert/strict";
import { octets, pattern } from "../helpers/bytes.ts";
import { startNats } from "../helpers/nats_server.ts";
import { type Natsway, startNatsway } from "../helpers/natsway.ts";
import { type Row, runRows } from "../helpers/rows.ts";
import { startUpstream, type Upstream } from "../helpers/upstream.ts";
import { type BareMessage, BareNats } from "./bare_nats.ts";
import { chunkedHead, httpChunk } from "./sides.ts";

/** How long no answer must come where the contract has a dash. */
const QUIET_MS = 700;
const ROOT = "proxy";
const BAD_TARGET = "Missing or invalid host/port for tcp_stream";
let lastId = 0;

/** One message of raw bytes on subject 1, and all that comes back for its id. */
class RawRequest {
  readonly #nats: BareNats;
  readonly id = `9c41${String(++lastId).padStart(28, "0")}`;
  readonly replyTo = `${ROOT}.responses.edge-a.${this.id}`;
  /** Payloads on the reply subject, as text, in their order. */
  readonly answers: string[] = [];
  readonly subjects: string[] = [];
  readonly #ended = Promise.withResolvers<void>();

  constructor(nats: BareNats) {
    this.#nats = nats;
    for (const subject of [this.replyTo, `from.${this.replyTo}`]) {
      nats.subscribe(subject, (message) => this.#take(message));
    }
  }

  #take(message: BareMessage): void {
    this.answers.push(new TextDecoder().decode(message.data));
    this.subjects.push(message.subject);
    if (this.answers.at(-1) === '{"type":"response_end"}') this.#ended.resolve();
  }

  send(
    bytes: Uint8Array | string,
    options: { reply?: string; headers?: [string, string][] } = {},
  ): void {
    this.#nats.publish(`${ROOT}.requests.edge-a.${this.id}`, bytes, options);
  }

  async ended(): Promise<void> {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const late = new Promise<never>((_, reject) => {
      timer = setTimeout(() => reject(new Error(`no end: ${this.answers.join(" | ")}`)), 8_000);
    });
    await Promise.race([this.#ended.promise, late]).finally(() => clearTimeout(timer));
  }

  /** Waits as long as a dash of the table needs. */
  async quiet(): Promise<void> {
    await new Promise((resolve) => setTimeout(resolve, QUIET_MS));
    assert.deepEqual(this.answers, []);
  }
}

/** The three events of an error reply, octet for octet. */
function errorReply(status: number, error: string, id?: string): string[] {
  const known = id === undefined ? "" : `,"request_id":"${id}","flow_kind":"http_request"`;
  return [
    `{"type":"response_start","status":${status},"headers":{"content-type":"application/json"},` +
    `"content_type":"application/json","streaming":false,"receiver_service_id":"worker-1"${known}}`,
    JSON.stringify({ type: "response_chunk", body: JSON.stringify({ error }) }),
    '{"type":"response_end"}',
  ];
}

interface Case {
  readonly name: string;
  /** The bytes, with `ID` and `REPLY` put in. */
  readonly bytes: string;
  /** Status and text, or null for a dash. */
  readonly answer: readonly [status: number, error: string] | null;
  /** NATS reply subject; `REPLY` is put in. */
  readonly reply?: string;
  readonly headers?: readonly [string, string][];
}

const REST = '"operation":"http_request","payload":{"method":"GET","path":"/x"}';
const WHOLE = `"request_id":"ID","reply_to":"REPLY",${REST}`;
const http = (payload: string) =>
  `{"request_id":"ID","reply_to":"REPLY","operation":"http_request","payload":${payload}}`;

const CASES: readonly Case[] = [
  ...["", "{", "nonsense", '{"type":"request"', "\x00\xff\xfe", `${"[".repeat(60_000)}`].map((
    bytes,
  ): Case => ({
    name: `no JSON: ${JSON.stringify(bytes.slice(0, 20))}`,
    bytes,
    answer: null,
    headers: [["Reply-To", "REPLY"]],
  })),
  ...["[]", '"text"', "7", "true", "null", '[{"request_id":"ID"}]'].flatMap((bytes): Case[] => [
    {
      name: `${bytes}, reply in the message`,
      bytes,
      reply: "REPLY",
      answer: [400, "Invalid request envelope"],
    },
    {
      name: `${bytes}, reply in a header`,
      bytes,
      headers: [["REPLY-TO", "REPLY"]],
      answer: [400, "Invalid request envelope"],
    },
    { name: `${bytes}, no reply`, bytes, answer: null },
    { name: `${bytes}, a JetStream reply`, bytes, reply: "$JS.ACK.a.b.1.2.3.4.5", answer: null },
  ]),
  ...['"other"', "5", "{}", '"Request"'].map((type): Case => ({
    name: `type ${type}`,
    bytes: `{"type":${type},${WHOLE}}`,
    answer: [400, "Invalid request envelope type"],
  })),
  {
    name: "everything missing, in the order of the checks",
    bytes: '{"reply_to":"REPLY"}',
    answer: [400, "Missing request_id"],
  },
  ...["", '"request_id":"",', '"request_id":null,'].map((member): Case => ({
    name: `request_id: ${member || "absent"}`,
    bytes: `{${member}"reply_to":"REPLY",${REST}}`,
    answer: [400, "Missing request_id"],
  })),
  ...["", '"reply_to":"",', '"reply_to":null,'].map((member): Case => ({
    name: `reply_to: ${member || "absent"}`,
    bytes: `{"request_id":"ID",${member}${REST}}`,
    answer: null,
  })),
  {
    name: "no reply_to, but a message reply",
    bytes: '{"request_id":"ID","operation":"http_request"}',
    reply: "REPLY",
    answer: [400, "Missing payload"],
  },
  {
    name: "the field reply-to, and the header Reply_To above it",
    bytes: '{"request_id":"ID","reply-to":"nowhere","operation":"http_request"}',
    headers: [["Reply_To", "REPLY"]],
    answer: [400, "Missing payload"],
  },
  ...["", '"operation":"",', '"operation":null,'].map((member): Case => ({
    name: `operation: ${member || "absent"}`,
    bytes: `{"request_id":"ID","reply_to":"REPLY",${member}"payload":{}}`,
    answer: [400, "Missing operation"],
  })),
  {
    name: "no payload",
    bytes: '{"type":"","request_id":"ID","reply_to":"REPLY","operation":"http_request"}',
    answer: [400, "Missing payload"],
  },
  { name: "a null payload", bytes: http("null"), answer: [400, "Missing payload"] },
  {
    name: "a cancel without its object",
    bytes: '{"type":"cancel","request_id":"ID","reply_to":"REPLY"}',
    answer: null,
  },
  {
    name: "an unknown operation",
    bytes: '{"request_id":"ID","reply_to":"REPLY","operation":"fax","payload":{}}',
    answer: [503, "No handler registered for operation=fax"],
  },
  ...["{}", '{"method":"GET"}', '{"path":"/x"}', '{"method":"","path":"/x"}', '"GET /"'].concat(
    '{"method":"GET","path":""}',
  ).map((payload): Case => ({
    name: `payload ${payload}`,
    bytes: http(payload),
    answer: [400, "Missing method or path"],
  })),
];

function rawRows(nats: BareNats): Row[] {
  return CASES.map((one) => ({
    name: `${one.name}: ${one.answer === null ? "no answer" : one.answer.join(" ")}`,
    run: async () => {
      const request = new RawRequest(nats);
      const put = (text: string) =>
        text.replaceAll("ID", request.id).replaceAll("REPLY", request.replyTo);
      request.send(octets(put(one.bytes)), {
        ...(one.reply === undefined ? {} : { reply: put(one.reply) }),
        ...(one.headers === undefined
          ? {}
          : { headers: one.headers.map(([name, value]) => [name, put(value)]) }),
      });
      if (one.answer === null) return await request.quiet();
      await request.ended();
      assert.deepEqual(request.answers, errorReply(...one.answer));
    },
  }));
}

/** The rows whose reply is not exactly that of a table entry, or that need an upstream. */
function furtherRows(nats: BareNats, upstream: Upstream): Row[] {
  const send = (payload: string, replyTo?: string) => {
    const request = new RawRequest(nats);
    request.send(
      http(payload).replace("ID", request.id).replace("REPLY", replyTo ?? request.replyTo),
    );
    return request;
  };
  return [
    {
      name: "a reply that is no envelope's is not stripped of from.; an envelope's is",
      run: async () => {
        const bare = new RawRequest(nats);
        bare.send("[]", { reply: `from.${bare.replyTo}` });
        await bare.ended();
        assert.ok(bare.subjects.every((subject) => subject === `from.${bare.replyTo}`));
        const wrapped = new RawRequest(nats);
        wrapped.send(`{"request_id":"${wrapped.id}","reply_to":"from.${wrapped.replyTo}"}`);
        await wrapped.ended();
        assert.ok(wrapped.subjects.every((subject) => subject === wrapped.replyTo));
        assert.deepEqual(wrapped.answers, errorReply(400, "Missing operation"));
      },
    },
    ...["[]", "7", "true"].map((payload): Row => ({
      name: `payload ${payload}: no silence, a 400, and nothing runs`,
      run: async () => {
        const request = send(payload);
        await request.ended();
        assert.match(request.answers[0] ?? "", /"status":400,/);
      },
    })),
    ...["http://", "http://[::1", "https://a b/", "http://x:99999/"].map((path): Row => ({
      name: `an absolute URL that cannot be parsed: ${path}`,
      run: async () => {
        const request = send(JSON.stringify({ method: "GET", path }));
        await request.ended();
        assert.match(request.answers[0] ?? "", /"status":400,/);
        assert.match(request.answers[1] ?? "", /Invalid proxy target URL/);
      },
    })),
    ...["http://127.0.0.1:1/", "HTTPS://example.test/x"].map((path): Row => ({
      name: `proxy traffic is refused with a reply while this version does not serve it: ${path}`,
      run: async () => {
        const request = send(JSON.stringify({ method: "GET", path }));
        await request.ended();
        assert.match(request.answers[0] ?? "", /"status":403,/);
      },
    })),
    ...[
      ['{"host":"h","port":1}', "Missing requester_service_id for tcp_stream"],
      [
        '{"host":"h","port":1,"requester_service_id":""}',
        "Missing requester_service_id for tcp_stream",
      ],
      ['{"host":"","port":1,"requester_service_id":"e"}', BAD_TARGET],
      ['{"host":"h","port":"x","requester_service_id":"e"}', BAD_TARGET],
      ['{"host":"h","port":0}', BAD_TARGET],
      ['{"requester_service_id":"e"}', BAD_TARGET],
    ].map(([payload, text]): Row => ({
      name: `tcp_stream ${payload}: 400`,
      run: async () => {
        const request = new RawRequest(nats);
        const { id, replyTo } = request;
        request.send(
          `{"request_id":"${id}","reply_to":"${replyTo}","operation":"tcp_stream","payload":${payload}}`,
        );
        await request.ended();
        assert.deepEqual(request.answers, errorReply(400, String(text)));
      },
    })),
    {
      name: "the upstream breaks after a stream started: response_error, response_end",
      run: async () => {
        upstream.route("/broken", async (_, connection) => {
          await connection.write(chunkedHead("text/event-stream"));
          await connection.write(httpChunk("data: 1\n\n"));
          return "close";
        });
        const request = new RawRequest(nats);
        const { id, replyTo } = request;
        const payload = '{"method":"GET","path":"/broken"}';
        request.send(http(payload).replace("ID", id).replace("REPLY", replyTo));
        const credit = {
          type: "flow_credit",
          request_id: id,
          direction: "response",
          bytes: "1000",
          service_id: "edge-a",
          timestamp: "2026-06-02T08:15:30Z",
        };
        const granted = new Promise<void>((resolve) =>
          nats.subscribe(replyTo, (message) => {
            if (!new TextDecoder().decode(message.data).includes('"response_start"')) return;
            nats.publish(`${ROOT}.control.worker-1.${id}`, JSON.stringify(credit), {
              headers: [["Nats-Frame-Type", "response_credit"]],
            });
            resolve();
          })
        );
        await Promise.all([granted, request.ended()]);
        assert.match(request.answers[0] ?? "", /"streaming":true,.*"flow_kind":"http_stream"/);
        assert.equal(request.answers[1], '{"type":"response_chunk","body":"data: 1\\n\\n"}');
        const error = JSON.parse(request.answers[2] ?? "") as Record<string, unknown>;
        assert.equal(error["type"], "response_error");
        assert.match(String(error["error"]), /^Upstream unavailable: ./);
        assert.equal(request.answers.length, 4);
      },
    },
  ];
}

async function startReceiver(url: string, upstreamUrl: string): Promise<Natsway> {
  return await startNatsway("receiver", {
    NATS_URL: url,
    UPSTREAM_URL: upstreamUrl,
    SERVICE_ID: "worker-1",
    NATS_REQUEST_SUBJECT_ROOT: ROOT,
    NATS_RESPONSE_SUBJECT_ROOT: ROOT,
    UPSTREAM_TIMEOUT: "1",
  });
}

Deno.test("every row of wire-protocol section 9, sent as raw bytes", async (t) => {
  await using nats = await startNats();
  await using upstream = await startUpstream();
  await using receiver = await startReceiver(nats.url, upstream.url);
  await using raw = await BareNats.connect(nats.port);
  await runRows(t, [...rawRows(raw), ...furtherRows(raw, upstream)]);
  await t.step("the receiver lives, and of all these one request ran", async () => {
    const request = new RawRequest(raw);
    request.send(octets(pattern(2).join("")));
    request.send(
      `{${
        WHOLE.replace("ID", request.id).replace("REPLY", request.replyTo).replace("/x", "/fine")
      }}`,
    );
    await request.ended();
    assert.deepEqual(upstream.requests.map((one) => one.target), ["/broken", "/fine"]);
    assert.ok(receiver.running);
    assert.doesNotMatch(receiver.stderr, /Uncaught|unhandled/i);
  });
});

Deno.test("the rows of section 9 about upstreams that cannot be had", async (t) => {
  await using nats = await startNats();
  await using upstream = await startUpstream(async (connection) => {
    await connection.waitEnd(60_000);
  });
  await using raw = await BareNats.connect(nats.port);
  const ask = async () => {
    const request = new RawRequest(raw);
    request.send(`{${WHOLE.replace("ID", request.id).replace("REPLY", request.replyTo)}}`);
    await request.ended();
    return request;
  };
  const unavailable = (request: RawRequest) => {
    const [start] = errorReply(503, "", request.id);
    assert.equal(request.answers[0], start);
    const chunk = JSON.parse(request.answers[1] ?? "") as { body: string };
    assert.match(JSON.parse(chunk.body).error, /^Upstream unavailable: ./);
    assert.equal(request.answers[2], '{"type":"response_end"}');
  };
  await t.step("no UPSTREAM_URL: 503 Receiver is missing UPSTREAM_URL", async () => {
    await using _receiver = await startReceiver(nats.url, "");
    const request = await ask();
    const wanted = errorReply(503, "Receiver is missing UPSTREAM_URL", request.id);
    assert.deepEqual(request.answers, wanted);
  });
  await t.step("a connection that is refused: 503 Upstream unavailable", async () => {
    await using _receiver = await startReceiver(nats.url, "http://127.0.0.1:1");
    unavailable(await ask());
  });
  await t.step("a name that is not found: 503 Upstream unavailable", async () => {
    await using _receiver = await startReceiver(nats.url, "http://nothing.invalid");
    unavailable(await ask());
  });
  await t.step("a timeout before the start: 503 Upstream unavailable", async () => {
    await using _receiver = await startReceiver(nats.url, upstream.url);
    unavailable(await ask());
  });
});
