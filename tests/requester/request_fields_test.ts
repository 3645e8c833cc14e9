import assert from "node:assert/strict";
import {
  crossingFields,
  type ForwardedMode,
  isLoop,
  maxForwards,
} from "../../lib/requester/request_fields.ts";
import { answerTrace } from "../../lib/requester/max_forwards.ts";
import { MemoryClient, requestHead, withoutDate } from "../helpers/unit_client.ts";

function crossing(
  lines: string,
  options: {
    start?: string;
    forwarded?: ForwardedMode;
    via?: string | null;
    address?: string;
  } = {},
) {
  const head = requestHead(`${options.start ?? "GET / HTTP/1.1"}\r\n${lines}\r\n`);
  return crossingFields(head, options.address ?? "192.0.2.7", {
    forwarded: options.forwarded ?? "off",
    via: options.via ?? null,
  });
}

Deno.test("Order, case, duplicates and octets of the client's fields cross in head", () => {
  const { head, headers, trace } = crossing(
    "Host: shop.test\r\nX-b: 1\r\nx-A:  \xe9\xc3\xbc \r\nX-B: 2\r\nEmpty:\r\n",
  );
  assert.deepEqual(head, [
    ["Host", "shop.test"],
    ["X-b", "1"],
    ["x-A", "\xe9\xc3\xbc"],
    ["X-B", "2"],
    ["Empty", ""],
  ]);
  assert.deepEqual({ ...headers }, { "x-b": "1, 2", "x-a": "\xe9\xc3\xbc", empty: "" });
  assert.deepEqual(trace, []);
});

Deno.test("Hop-by-hop and nominated fields stay; framing fields and Host cannot be named away", () => {
  const { head } = crossing(
    "Host: h\r\nConnection: x-hop, host, content-length, content-type, via\r\nX-Hop: 1\r\n" +
      "Keep-Alive: 5\r\nProxy-Connection: x\r\nProxy-Authorization: Basic x\r\nTE: trailers\r\n" +
      "Trailer: x\r\nUpgrade: x\r\nHTTP2-Settings: x\r\nContent-Length: 3\r\nContent-Type: a/b\r\nVia: 1.0 x\r\nZ: 1\r\n",
    { start: "POST / HTTP/1.1" },
  );
  assert.deepEqual(head, [
    ["Host", "h"],
    ["Content-Length", "3"],
    ["Content-Type", "a/b"],
    ["Via", "1.0 x"],
    ["Z", "1"],
  ]);
});

Deno.test("Ruby's form has lower-case names without Host and Content-Length, cookies joined by ;", () => {
  const { headers } = crossing(
    "Host: h\r\nContent-Length: 3\r\nCookie: a=1\r\nCOOKIE: b=2\r\nAccept: x\r\nAccept: y\r\nX: \xc3\xbc\r\n",
    { start: "POST / HTTP/1.1" },
  );
  assert.deepEqual({ ...headers }, { cookie: "a=1; b=2", accept: "x, y", x: "ü" });
});

Deno.test("Fields with the names of an object's members cross like any other", () => {
  const { head, headers } = crossing(
    "Host: h\r\n__proto__: 1\r\n__proto__: 2\r\nconstructor: 3\r\ntoString: 4\r\n",
  );
  assert.deepEqual(head.slice(1), [
    ["__proto__", "1"],
    ["__proto__", "2"],
    ["constructor", "3"],
    ["toString", "4"],
  ]);
  assert.equal(JSON.stringify(headers), '{"__proto__":"1, 2","constructor":"3","tostring":"4"}');
});

Deno.test("Via gets the pseudonym behind what came, with the client's version", () => {
  const { head, headers } = crossing("Host: h\r\nVia: 1.1 front\r\n", {
    start: "GET / HTTP/1.0",
    via: "natsway-12345678",
  });
  assert.deepEqual(head.slice(1), [["Via", "1.1 front"], ["Via", "1.0 natsway-12345678"]]);
  assert.equal(headers["via"], "1.1 front, 1.0 natsway-12345678");
});

Deno.test("isLoop finds the own pseudonym wherever it stands in Via, and no other", () => {
  const loop = (lines: string) =>
    isLoop(requestHead(`GET / HTTP/1.1\r\nHost: h\r\n${lines}\r\n`), "natsway-1");
  assert.ok(loop("Via: 1.1 natsway-1\r\n"));
  assert.ok(loop("Via: 1.0 a, HTTP/1.1\t natsway-1 (comment), 1.1 b\r\n"));
  assert.ok(loop("Via: 1.1 a\r\nX: y\r\nvia: 1.1 natsway-1\r\n"));
  assert.ok(!loop(""));
  assert.ok(!loop("Via: 1.1 natsway-12\r\n"));
  assert.ok(!loop("Via: natsway-1\r\nX: 1.1 natsway-1\r\n"));
});

Deno.test("Max-Forwards counts down for TRACE and OPTIONS alone", () => {
  const row = (start: string, value: string) =>
    crossing(`Host: h\r\nMax-Forwards: ${value}\r\n`, { start }).head[1]?.[1];
  assert.equal(row("TRACE / HTTP/1.1", "7"), "6");
  assert.equal(row("OPTIONS * HTTP/1.1", "1"), "0");
  assert.equal(row("GET / HTTP/1.1", "7"), "7");
  assert.equal(row("TRACE / HTTP/1.1", "x"), "x");
  const left = (start: string, lines: string) =>
    maxForwards(requestHead(`${start}\r\nHost: h\r\n${lines}\r\n`));
  assert.equal(left("TRACE / HTTP/1.1", "Max-Forwards: 0\r\n"), 0);
  assert.equal(left("OPTIONS / HTTP/1.1", "Max-Forwards: 3\r\n"), 3);
  assert.equal(left("GET / HTTP/1.1", "Max-Forwards: 0\r\n"), null);
  assert.equal(left("TRACE / HTTP/1.1", ""), null);
  assert.equal(left("TRACE / HTTP/1.1", "Max-Forwards: -1\r\n"), null);
});

Deno.test("A TRACE that ends here repeats the request octet for octet, without credentials", async () => {
  const head = requestHead(
    "TRACE /a?b HTTP/1.1\r\nHost: h\r\nMax-Forwards: 0\r\nCookie: s=1\r\nAuthorization: x\r\n" +
      "Proxy-Authorization: y\r\nX-Octets: \xe9\xff\r\n\r\n",
  );
  const client = new MemoryClient({ method: "TRACE" });
  answerTrace(head, client.response);
  const body = "TRACE /a?b HTTP/1.1\r\nHost: h\r\nMax-Forwards: 0\r\nX-Octets: \xe9\xff\r\n\r\n";
  assert.equal(
    withoutDate(await client.text()),
    `HTTP/1.1 200 OK\r\nContent-Type: message/http\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
  );
});

Deno.test("An OPTIONS that ends here has an empty answer", async () => {
  const client = new MemoryClient({ method: "OPTIONS" });
  answerTrace(
    requestHead("OPTIONS * HTTP/1.1\r\nHost: h\r\nMax-Forwards: 0\r\n\r\n"),
    client.response,
  );
  assert.equal(withoutDate(await client.text()), "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
});

const CAME = "Host: h\r\nX-Forwarded-For: 10.0.0.1\r\nX-Forwarded-For: 10.0.0.2\r\n" +
  "X-Forwarded-Proto: https\r\nX-Forwarded-Host: outer\r\nForwarded: for=10.0.0.1\r\n";

Deno.test("FORWARDED_HEADERS=append goes on with what came", () => {
  assert.deepEqual(crossing(CAME, { forwarded: "append" }).head.slice(1), [
    ["X-Forwarded-For", "10.0.0.1, 10.0.0.2, 192.0.2.7"],
    ["X-Forwarded-Proto", "https"],
    ["X-Forwarded-Host", "outer"],
    ["Forwarded", "for=10.0.0.1, for=192.0.2.7;proto=http"],
  ]);
  assert.deepEqual(crossing("Host: h\r\n", { forwarded: "append" }).head.slice(1), [
    ["X-Forwarded-For", "192.0.2.7"],
    ["X-Forwarded-Proto", "http"],
    ["X-Forwarded-Host", "h"],
  ]);
});

Deno.test("FORWARDED_HEADERS=replace believes nothing that came", () => {
  const { head, headers } = crossing(CAME, { forwarded: "replace" });
  assert.deepEqual(head.slice(1), [
    ["X-Forwarded-For", "192.0.2.7"],
    ["X-Forwarded-Proto", "http"],
    ["X-Forwarded-Host", "h"],
  ]);
  assert.equal(headers["x-forwarded-for"], "192.0.2.7");
  assert.ok(!("forwarded" in headers));
});

Deno.test("FORWARDED_HEADERS=off drops what came and gives nothing", () => {
  const { head, headers } = crossing(CAME, { forwarded: "off" });
  assert.deepEqual(head, [["Host", "h"]]);
  assert.deepEqual({ ...headers }, {});
});

Deno.test("An IPv6 client is quoted in Forwarded (RFC 7239 section 6)", () => {
  const { head } = crossing("Host: h\r\nForwarded: for=a\r\n", {
    forwarded: "append",
    address: "2001:db8::1",
  });
  assert.deepEqual(head.at(-1), ["Forwarded", 'for=a, for="[2001:db8::1]";proto=http']);
  assert.deepEqual(head[1], ["X-Forwarded-For", "2001:db8::1"]);
});

Deno.test("Expect: 100-continue ends here, other expectations cross", () => {
  const names = (value: string) =>
    crossing(`Host: h\r\nExpect: ${value}\r\nContent-Length: 1\r\n`, { start: "PUT / HTTP/1.1" })
      .head.map(([name]) => name);
  assert.deepEqual(names("100-continue"), ["Host", "Content-Length"]);
  assert.deepEqual(names("something"), ["Host", "Expect", "Content-Length"]);
});

Deno.test("traceparent and tracestate are given for the NATS headers, and stay in place", () => {
  const { trace, head, headers } = crossing(
    "Host: h\r\nTraceParent: 00-ab-cd-01\r\nTraceState: a=b\r\n",
  );
  assert.deepEqual(trace, [["traceparent", "00-ab-cd-01"], ["tracestate", "a=b"]]);
  assert.equal(head.length, 3);
  assert.equal(headers["traceparent"], "00-ab-cd-01");
});
