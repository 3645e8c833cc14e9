import assert from "node:assert/strict";
import { concat, octets, pattern, sha256 } from "../helpers/bytes.ts";
import { all, one } from "../helpers/http_message.ts";
import { startNatsway } from "../helpers/natsway.ts";
import { startNats } from "../helpers/nats_server.ts";
import { type Row, runRows } from "../helpers/rows.ts";
import { answer, startUpstream, type Upstream } from "../helpers/upstream.ts";
import { exactHeader } from "./bare_nats.ts";
import { RubyRequester } from "./ruby_requester.ts";
import { bodyText, routeEcho, routeTicks, values, writeChunked } from "./sides.ts";

const TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

function requestRows(edge: RubyRequester, upstream: Upstream): Row[] {
  const bodies = [
    ["an object", { sku: "A-1", n: [1, null, "\u00e9"] }, "application/json"],
    ["a list", [1, { a: false }], "application/json"],
    ["a number", 7.5, "application/json"],
    ["true", true, "application/json"],
  ] as const;
  return [
    ...["GET", "POST", "PUT", "PATCH", "DELETE"].map((method): Row => ({
      name: `${method} with text crosses`,
      run: async () => {
        const path = `/rq/method-${method}?b=2&a=1`;
        const response = await edge.ask(path, {
          method,
          body: "line 1\nline 2 \u20ac",
          fields: [["Content-Type", "text/plain"], ["X-Dup", "1"], ["X-Dup", "2"]],
        }).done;
        assert.equal(response.status, 200);
        const [seen] = upstream.requestsFor(path);
        assert.equal(seen?.startLine, `${method} ${path} HTTP/1.1`);
        const body = new TextDecoder().decode(await seen?.readBody());
        assert.equal(body, method === "GET" ? "" : "line 1\nline 2 \u20ac");
        assert.deepEqual(seen && all(seen, "x-dup").join(","), "1,2");
        assert.equal(seen && all(seen, "host").length, 1);
      },
    })),
    ...bodies.map(([name, value, type], i): Row => ({
      name: `a parsed JSON body that is ${name} goes out as compact JSON`,
      run: async () => {
        const path = `/rq/json-${i}`;
        const call = edge.ask(path, {
          method: "POST",
          body: ` ${JSON.stringify(value, null, 2)} `,
        });
        assert.equal((await call.done).status, 200);
        const [seen] = upstream.requestsFor(path);
        assert.equal(new TextDecoder().decode(await seen?.readBody()), JSON.stringify(value));
        assert.equal(seen && one(seen, "content-type"), type);
      },
    })),
    {
      name: "a JSON body keeps the content type that it had",
      run: async () => {
        const fields = [["Content-Type", "application/vnd.x+json"]] as const;
        await edge.ask("/rq/typed", { method: "POST", body: '{"a":1}', fields }).done;
        const [seen] = upstream.requestsFor("/rq/typed");
        assert.equal(seen && one(seen, "content-type"), "application/vnd.x+json");
      },
    },
    {
      name: "hop-by-hop names, Host and Content-Length of a peer's headers are not sent on",
      run: async () => {
        const call = edge.open("7b".repeat(16));
        const dropped = ["connection", "keep-alive", "proxy-authenticate", "te", "trailer"];
        const headers = Object.fromEntries(
          [...dropped, "proxy-authorization", "proxy-connection", "upgrade", "content-length"]
            .map((name) => [name, "77"]),
        );
        edge.nats.publish(
          edge.requestSubject(call.id),
          JSON.stringify({
            type: "request",
            request_id: call.id,
            reply_to: edge.replySubject(call.id),
            operation: "http_request",
            payload: {
              method: "POST",
              path: "/rq/hop",
              headers: { ...headers, "X-List": ["a", "b"], host: "evil.example" },
              body: "four",
            },
          }),
        );
        assert.equal((await call.done).status, 200);
        const [seen] = upstream.requestsFor("/rq/hop");
        assert.ok(seen);
        for (const name of Object.keys(headers)) {
          assert.ok(!all(seen, name).includes("77"), `${name} crossed`);
        }
        assert.equal(one(seen, "content-length"), "4");
        assert.equal(all(seen, "x-list").join(", "), "a, b");
        assert.notEqual(one(seen, "host"), "evil.example");
      },
    },
    {
      name: "traceparent and tracestate are in the request and on every event",
      run: async () => {
        const fields = [["Traceparent", TRACE], ["Tracestate", "k=v"]] as const;
        const call = edge.ask("/rq/trace", { fields });
        await call.done;
        const [seen] = upstream.requestsFor("/rq/trace");
        assert.equal(seen && one(seen, "traceparent"), TRACE);
        assert.equal(call.messages.length, 3);
        for (const message of call.messages) {
          assert.equal(exactHeader(message, "traceparent"), TRACE);
          assert.equal(exactHeader(message, "tracestate"), "k=v");
        }
      },
    },
  ];
}

function responseRows(edge: RubyRequester, upstream: Upstream): Row[] {
  return [
    ...[204, 304, 404, 500].map((status): Row => ({
      name: `${status} comes as it is`,
      run: async () => {
        upstream.route(
          `/rs/${status}`,
          (_, connection) =>
            connection.write(
              status === 204 || status === 304
                ? `HTTP/1.1 ${status} X\r\nETag: "1"\r\n\r\n`
                : answer("no", { status: `${status} X`, fields: ['ETag: "1"'] }),
            ),
        );
        const response = await edge.ask(`/rs/${status}`).done;
        assert.equal(response.status, status);
        assert.deepEqual(values(response, "etag"), ['"1"']);
        assert.equal(bodyText(response), status === 204 || status === 304 ? "" : "no");
      },
    })),
    {
      name: "an answer to HEAD has its Content-Length and no body",
      run: async () => {
        upstream.route(
          "/rs/head",
          (_, connection) => connection.write("HTTP/1.1 200 OK\r\nContent-Length: 77\r\n\r\n"),
        );
        const call = edge.open("4ead".repeat(8));
        edge.nats.publish(
          edge.requestSubject(call.id),
          JSON.stringify({
            request_id: call.id,
            reply_to: edge.replySubject(call.id),
            operation: "http_request",
            payload: { method: "head", path: "/rs/head", headers: null, body: null },
          }),
        );
        const response = await call.done;
        assert.equal(upstream.requestsFor("/rs/head")[0]?.method, "HEAD");
        assert.deepEqual(values(response, "content-length"), ["77"]);
        assert.equal(response.body.length, 0);
      },
    },
    {
      name: "each Set-Cookie becomes a line of its own; a repeated field stays repeated",
      run: async () => {
        const fields = ["Set-Cookie: a=1; Path=/", "X-A: 1", "Set-Cookie: b=2", "X-A: 2"];
        upstream.route("/rs/cookies", (_, connection) => connection.write(answer("x", { fields })));
        const response = await edge.ask("/rs/cookies").done;
        assert.deepEqual(values(response, "set-cookie"), ["a=1; Path=/", "b=2"]);
        assert.deepEqual(values(response, "x-a").join(", "), "1, 2");
        const start = response.events[0] as Record<string, unknown>;
        assert.deepEqual(
          Object.keys(start["headers"] as object).filter((name) => name !== name.toLowerCase()),
          [],
        );
      },
    },
    {
      name: "octets that are no UTF-8 come as strict base64, and characters cut in two survive",
      run: async () => {
        const body = concat([
          octets("\xff\xfe\x00"),
          new TextEncoder().encode("\u20ac".repeat(20_000)),
        ]);
        upstream.route("/rs/binary", (_, connection) => connection.write(answer(body)));
        const response = await edge.ask("/rs/binary").done;
        assert.equal(sha256(response.body), sha256(body));
        assert.ok(response.events.some((event) => event["body_encoding"] === "base64"));
      },
    },
    {
      name: "a UTF-8 body that begins with a byte order mark keeps it",
      run: async () => {
        const body = octets("\xef\xbb\xbf{}");
        upstream.route("/rs/bom", (_, connection) => connection.write(answer(body)));
        assert.deepEqual((await edge.ask("/rs/bom").done).body, body);
      },
    },
    {
      name: "3 MiB with a length are a buffered answer in many chunks",
      run: async () => {
        const body = pattern(3 * 1024 * 1024, 3);
        upstream.route("/rs/3m", (_, connection) => connection.write(answer(body)));
        const call = edge.ask("/rs/3m");
        const response = await call.done;
        assert.equal(sha256(response.body), sha256(body));
        assert.deepEqual(
          values(response, "content-length"),
          response.streaming ? [] : [String(body.length)],
        );
      },
    },
    ...["application/octet-stream", "application/x-ndjson; charset=utf-8"].map((type, i): Row => ({
      name: `20 MiB of ${type} without a length stream within their credit`,
      run: async () => {
        const body = pattern(20 * 1024 * 1024, i + 4);
        const path = `/rs/20m-${i}`;
        upstream.route(path, (_, connection) => writeChunked(connection, type, body));
        const call = edge.ask(path);
        const response = await call.done;
        assert.ok(response.streaming);
        assert.equal(response.inBand, null);
        assert.equal(sha256(response.body), sha256(body));
        const start = response.events[0] as Record<string, unknown>;
        assert.equal(start["content_type"], type.split(";")[0]);
        assert.equal(start["flow_kind"], "http_stream");
      },
    })),
    {
      name: "a stream waits while its reader does, within the first grant, and then comes whole",
      run: async () => {
        const body = pattern(16 * 1024 * 1024, 9);
        const go = Promise.withResolvers<void>();
        const full = Promise.withResolvers<void>();
        upstream.route(
          "/rs/slow",
          (_, connection) => writeChunked(connection, "text/event-stream", body),
        );
        const call = edge.ask("/rs/slow", { onBody: () => go.promise });
        void (async () => {
          while (call.received < call.granted || call.granted === 0) {
            await call.events.find(() => true, {
              ms: 10_000,
              what: "x",
              from: call.events.events.length,
            });
          }
          full.resolve();
        })();
        await full.promise;
        assert.equal(call.received, edge.sizes.initial);
        go.resolve();
        assert.equal(sha256((await call.done).body), sha256(body));
      },
    },
  ];
}

Deno.test("a Ruby requester is served by natsway's receiver as by its own", async (t) => {
  await using nats = await startNats();
  await using upstream = await startUpstream();
  routeEcho(upstream);
  routeTicks(upstream);
  await using receiver = await startNatsway("receiver", {
    NATS_URL: nats.url,
    UPSTREAM_URL: upstream.url,
    SERVICE_ID: "worker-1",
  });
  await using edge = await RubyRequester.start({ port: nats.port, serviceId: "edge-a" });
  await runRows(t, [...requestRows(edge, upstream), ...responseRows(edge, upstream)]);
  await t.step("nothing came that a Ruby requester has no place for", () => edge.assertContent());
  assert.ok(receiver.running);
});
