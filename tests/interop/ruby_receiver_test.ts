import assert from "node:assert/strict";
import { octets, pattern, sha256 } from "../helpers/bytes.ts";
import { RawClient, requestOctets } from "../helpers/client.ts";
import { all, json, one } from "../helpers/http_message.ts";
import { type Natsway, startNatsway } from "../helpers/natsway.ts";
import { startNats } from "../helpers/nats_server.ts";
import { type Row, runRows } from "../helpers/rows.ts";
import { answer, startUpstream, type Upstream } from "../helpers/upstream.ts";
import { exactHeader } from "./bare_nats.ts";
import { RubyReceiver, type RubyRequest } from "./ruby_receiver.ts";
import { script } from "./receiver_script.ts";
import { askNatsway, bodyText, chunkedHead, httpChunk } from "./sides.ts";
import { routeEcho, routeTicks, values, writeChunked } from "./sides.ts";
import { type JsonRecord, parseObject } from "./ruby_wire.ts";

const TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
const TIMEOUT_S = 1.5;

interface Bridge {
  readonly requester: Natsway;
  readonly double: RubyReceiver;
  readonly upstream: Upstream;
}

/** The request at the double whose path starts with `path`. */
function atDouble(double: RubyReceiver, path: string): Promise<RubyRequest> {
  return double.requests.find((request) => String(request.payload["path"]).startsWith(path), {
    ms: 10_000,
    what: `a request for ${path} at the double`,
  });
}

function requestRows({ requester, double, upstream }: Bridge): Row[] {
  const ask = askNatsway(requester.port);
  return [
    ...["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"].map((
      method,
    ): Row => ({
      name: `${method} reaches the upstream of a Ruby receiver`,
      run: async () => {
        const path = `/m/${method}?a=1`;
        const response = await ask(path, { method });
        assert.equal(response.status, 200);
        const seen = await upstream.request(path);
        assert.equal(seen.startLine, `${method} ${path} HTTP/1.1`);
        assert.equal((await atDouble(double, path)).envelope["operation"], "http_request");
      },
    })),
    ...([
      ["JSON with its own spaces", ' {"sku" : "A-1",\n "n": 1.0}\n', "application/json"],
      ["a JSON string", '"quoted"', "application/json"],
      ["a number as text", "1e3", "application/json"],
      ["form data", "a=1&b=%20", "application/x-www-form-urlencoded"],
      ["text beyond ASCII", "\u00e9\u20ac\u{1f600}\u0000\u2028", "text/plain"],
    ] as const).map(([name, body, type], i): Row => ({
      name: `a body that is ${name} reaches the upstream octet for octet`,
      run: async () => {
        const path = `/echo/${i}`;
        const fields = [["Content-Type", type]] as const;
        const response = await ask(path, { method: "POST", body, fields });
        assert.equal(bodyText(response), body);
        const seen = await upstream.request(path);
        assert.equal(one(seen, "content-type"), type);
        const { payload } = await atDouble(double, path);
        assert.equal(payload["body"], body);
      },
    })),
    {
      name: "no body, and an empty body, are null or empty for a Ruby receiver",
      run: async () => {
        await ask("/empty/none", { method: "POST" });
        await ask("/empty/zero", { method: "POST", body: "" });
        for (const path of ["/empty/none", "/empty/zero"]) {
          const { payload } = await atDouble(double, path);
          assert.ok(payload["body"] === null || payload["body"] === "", path);
          assert.equal((await (await upstream.request(path)).readBody()).length, 0);
        }
      },
    },
    {
      name: "the envelope has nats-proxy's members in their order, and safe extras behind them",
      run: async () => {
        await ask("/order", { method: "POST", body: "x", fields: [["Traceparent", TRACE]] });
        const { envelope, payload, message, id } = await atDouble(double, "/order");
        const members = ["type", "request_id", "reply_to", "operation", "payload"];
        assert.deepEqual(Object.keys(envelope).slice(0, 5), members);
        const inner = ["method", "path", "headers", "body"];
        assert.deepEqual(Object.keys(payload).slice(0, 4), inner);
        assert.equal(message.reply, envelope["reply_to"]);
        assert.match(id, /^[A-Za-z0-9_-]{20,64}$/);
        assert.deepEqual(message.headers, [["traceparent", TRACE]]);
        const headers = payload["headers"] as JsonRecord;
        assert.equal(headers["traceparent"], TRACE);
        for (const [name, value] of Object.entries(headers)) {
          assert.equal(name, name.toLowerCase());
          assert.equal(typeof value, "string");
        }
      },
    },
    {
      name: "repeated request fields are one for a Ruby receiver; Host and hop-by-hop do not cross",
      run: async () => {
        const fields = [
          ["X-Dup", "1"],
          ["Cookie", "a=1"],
          ["X-Dup", "2"],
          ["Cookie", "b=2"],
          ["Connection", "X-Named"],
          ["X-Named", "1"],
          ["Proxy-Connection", "keep-alive"],
          ["TE", "trailers"],
        ] as const;
        await ask("/merge", { fields });
        const seen = await upstream.request("/merge");
        assert.deepEqual(all(seen, "x-dup").map((value) => value.replace(" ", "")), ["1,2"]);
        assert.deepEqual(all(seen, "cookie").map((value) => value.replace(" ", "")), ["a=1;b=2"]);
        for (const name of ["x-named", "proxy-connection", "te"]) {
          assert.deepEqual(all(seen, name), [], name);
        }
        const { payload } = await atDouble(double, "/merge");
        assert.equal("host" in (payload["headers"] as object), false);
      },
    },
  ];
}

function responseRows({ requester, double, upstream }: Bridge): Row[] {
  const ask = askNatsway(requester.port);
  return [
    ...[204, 304, 404, 503].map((status): Row => ({
      name: `${status} of the upstream comes as it is`,
      run: async () => {
        const bare = status === 204 || status === 304;
        upstream.route(`/s/${status}`, (_, connection) =>
          connection.write(
            bare
              ? `HTTP/1.1 ${status} X\r\nETag: "1"\r\n\r\n`
              : answer("no", { status: `${status} X` }),
          ));
        const response = await ask(`/s/${status}`);
        assert.equal(response.status, status);
        assert.equal(bodyText(response), bare ? "" : "no");
      },
    })),
    {
      name: "of repeated Set-Cookie a Ruby receiver leaves the last, which arrives once",
      run: async () => {
        const fields = ["Set-Cookie: a=1", "Set-Cookie: b=2"];
        upstream.route("/cookies", (_, connection) => connection.write(answer("x", { fields })));
        assert.deepEqual(values(await ask("/cookies"), "set-cookie"), ["b=2"]);
      },
    },
    {
      name: "arrays in a peer's headers become lines; values that would split lines do not cross",
      run: async () => {
        const response = await ask("/script/arrays");
        assert.deepEqual(values(response, "set-cookie"), ["a=1", "b=2"]);
        assert.deepEqual(values(response, "x-evil"), []);
        assert.equal(bodyText(response), "ok");
      },
    },
    ...[0, 700_000].map((size): Row => ({
      name: `${size} octets that are no text come as base64, with their length`,
      run: async () => {
        const body = pattern(size);
        upstream.route(`/bin/${size}`, (_, connection) => connection.write(answer(body)));
        const response = await ask(`/bin/${size}`);
        assert.equal(sha256(response.body), sha256(body));
        assert.deepEqual(values(response, "content-length"), [String(size)]);
      },
    })),
    {
      name: "NDJSON of 20 MiB streams by credit, none lost and none over the cap",
      run: async () => {
        const body = pattern(20 * 1024 * 1024, 5);
        upstream.route(
          "/nd",
          (_, connection) => writeChunked(connection, "application/x-ndjson", body),
        );
        const response = await ask("/nd");
        assert.ok(response.complete);
        assert.equal(sha256(response.body), sha256(body));
      },
    },
    {
      name: "credit has the form of section 7, and the first is 1 MiB",
      run: async () => {
        await ask("/nd/credit");
        upstream.route(
          "/sse/credit",
          (_, connection) => writeChunked(connection, "text/event-stream", pattern(3_000_000)),
        );
        await ask("/sse/credit");
        const { id } = await atDouble(double, "/sse/credit");
        const credits = double.credits.events.filter((one) => one.subject.endsWith(`.${id}`));
        assert.ok(credits.length >= 3, `${credits.length} credits`);
        const bytes = credits.map((message) => {
          const credit = parseObject(message.data) ?? {};
          const { timestamp, ...rest } = credit;
          assert.match(String(timestamp), /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/);
          assert.deepEqual(Object.keys(rest).slice(0, 5), [
            "type",
            "request_id",
            "direction",
            "bytes",
            "service_id",
          ]);
          assert.equal(rest["service_id"], "edge-a");
          assert.equal(exactHeader(message, "Nats-Session-Id"), id);
          assert.equal(message.subject, `to.proxy.control.ruby-worker.${id}`);
          return Number(rest["bytes"]);
        });
        assert.equal(bytes[0], double.sizes.initial);
        assert.ok(bytes.slice(1, -1).every((one) => one >= double.sizes.batch), String(bytes));
      },
    },
    {
      name: "a client that reads nothing stops the receiver, and then gets everything",
      run: async () => {
        const body = pattern(40 * 1024 * 1024, 6);
        upstream.route(
          "/stall",
          (_, connection) => writeChunked(connection, "text/event-stream", body),
        );
        await using client = await RawClient.connect(requester.port);
        await client.send(requestOctets("/stall"));
        const { id } = await atDouble(double, "/stall");
        const window = () => double.window(id);
        await double.creditWaits.find((one) => one === id, {
          ms: 10_000,
          what: "a wait for credit",
        });
        assert.ok((window()?.sent ?? Infinity) < body.length);
        const response = await client.response({ collect: false });
        assert.ok(response.complete);
        assert.equal(response.bodySha256, sha256(body));
      },
    },
    {
      name: "events at once or late, empty chunks and many chunks of a buffered answer are taken",
      run: async () => assert.equal(bodyText(await ask("/script/pieces")), "one two \u20ac"),
    },
    {
      name: "streaming is obeyed, whatever the content type says",
      run: async () => {
        const response = await ask("/script/streamed");
        assert.ok(response.complete);
        assert.deepEqual(values(response, "content-length"), []);
        assert.equal(bodyText(response), "abc");
      },
    },
  ];
}

function endingRows({ requester, double, upstream }: Bridge): Row[] {
  const ask = askNatsway(requester.port);
  const brokenOff: Row[] = [
    ["a late error", "/script/late-error"],
    ["an unknown event", "/script/unknown-late"],
    ["a second response_start", "/script/twice"],
    ["base64 that is none", "/script/bad-base64"],
    ["silence", "/script/silent-late"],
  ].map(([name, path]) => ({
    name: `${name} in a stream breaks the message off; it never ends as if it were whole`,
    run: async () => {
      const response = await ask(path as string);
      assert.equal(response.complete, false);
      assert.ok(bodyText(response).startsWith("first"));
    },
  }));
  return [
    ...brokenOff,
    {
      name: "empty chunks keep a stream from STREAM_RESPONSE_TIMEOUT",
      run: async () => {
        const response = await ask("/script/kept");
        assert.ok(response.complete);
        assert.equal(bodyText(response), "first last");
      },
    },
    {
      name: "an upstream that breaks within a stream is seen by the client as a broken message",
      run: async () => {
        upstream.route("/cut", async (_, connection) => {
          await connection.write(chunkedHead("text/event-stream"));
          await connection.write(httpChunk("data: 1\n\n"));
          return "close";
        });
        const response = await ask("/cut");
        assert.equal(response.complete, false);
        assert.ok(bodyText(response).startsWith("data: 1\n\n"));
      },
    },
    ...([
      ["an unknown event first", "/script/unknown", 502],
      ["response_error first", "/script/error", 502],
      ["response_error within a buffered answer", "/script/error-buffered", 502],
      ["silence", "/script/silent", 504],
      ["silence behind a buffered start", "/script/silent-buffered", 504],
    ] as const).map(([name, path, status]): Row => ({
      name: `${name} is a ${status}`,
      run: async () => {
        const response = await ask(path);
        assert.equal(response.status, status, bodyText(response));
        const { error, message } = json(response);
        assert.equal(error, status === 504 ? "Gateway Timeout" : "Bad Gateway");
        if (status === 504) assert.equal(message, `No response from bridge within ${TIMEOUT_S}s`);
      },
    })),
    {
      name: "an upstream that refuses: the Ruby receiver's 503 arrives as it is",
      run: async () => {
        const response = await ask("/script/refused");
        assert.equal(response.status, 503);
        assert.equal(bodyText(response), '{"error":"Upstream unavailable: refused"}');
      },
    },
    {
      name: "a client that leaves a stream is one cancel in the owner form, and the flow ends",
      run: async () => {
        await using client = await RawClient.connect(requester.port);
        await client.send(requestOctets("/ticks/leave"));
        await client.socket.readUntil("data: 3\n\n");
        await client.close();
        const { id } = await atDouble(double, "/ticks/leave");
        await double.finished.find((one) => one === id, { ms: 10_000, what: "the flow's end" });
        const cancels = double.cancels.events.filter((one) => one.subject.endsWith(`.${id}`));
        assert.deepEqual(cancels.map((one) => one.subject), [`to.proxy.cancel.ruby-worker.${id}`]);
        const { timestamp, ...cancel } =
          (parseObject(cancels[0]!.data)?.["cancel"] ?? {}) as JsonRecord;
        assert.match(String(timestamp), /Z$/);
        const reason = "downstream_disconnect";
        assert.deepEqual(cancel, { request_id: id, service_id: "edge-a", reason });
      },
    },
  ];
}

for (const part of ["requests", "responses", "endings"] as const) {
  Deno.test(`natsway's requester is at home with a Ruby receiver: ${part}`, async (t) => {
    await using nats = await startNats();
    await using upstream = await startUpstream();
    routeEcho(upstream);
    routeTicks(upstream);
    await using requester = await startNatsway("requester", {
      NATS_URL: nats.url,
      SERVICE_ID: "edge-a",
      NATS_RESPONSE_TIMEOUT: String(part === "endings" ? TIMEOUT_S : 30),
      STREAM_RESPONSE_TIMEOUT: String(part === "endings" ? TIMEOUT_S : 30),
    });
    await using double = await RubyReceiver.start({
      port: nats.port,
      serviceId: "ruby-worker",
      upstreamUrl: upstream.url,
    });
    double.intercept = script;
    const bridge = { requester, double, upstream };
    const rows = { requests: requestRows, responses: responseRows, endings: endingRows };
    await runRows(t, rows[part](bridge));
    await t.step("nothing came that a Ruby receiver trips over", () => double.assertContent());
    assert.ok(requester.running);
    assert.doesNotMatch(requester.stderr, /Uncaught|unhandled/i);
  });
}

Deno.test("a binary body towards Ruby receivers alone is refused with the cause, not garbled", async () => {
  await using nats = await startNats();
  await using upstream = await startUpstream();
  await using requester = await startNatsway("requester", { NATS_URL: nats.url });
  await using double = await RubyReceiver.start({
    port: nats.port,
    serviceId: "ruby-worker",
    upstreamUrl: upstream.url,
  });
  const ask = askNatsway(requester.port);
  const response = await ask("/binary", { method: "POST", body: octets("\xff\x00") });
  // PEERS=natsway takes every peer for natsway: the one that is not is named as the cause.
  assert.equal(response.status, 502);
  assert.match(bodyText(response), /PEERS=mixed.*"code":"peer_lacks"/);
  assert.equal((await atDouble(double, "/binary")).envelope["operation"], "natsway_http");
  assert.equal(double.requests.events.length, 1, "published once: PEERS=natsway does not search");
  assert.deepEqual(upstream.requests, []);
  double.assertContent();
});
