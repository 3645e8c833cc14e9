import assert from "node:assert/strict";
import { FlowError } from "../../lib/errors.ts";
import type { HttpPayload } from "../../lib/protocol/envelope.ts";
import { upstreamHead, type UpstreamRules } from "../../lib/receiver/upstream_request.ts";
import { octets } from "../helpers/bytes.ts";

const RULES: UpstreamRules = { prefix: "", authority: "shop.internal:8080", host: "upstream" };

function head(payload: Partial<HttpPayload>, rules: Partial<UpstreamRules> = {}): string {
  const request = { method: "GET", path: "/", fields: [], ordered: true, body: null, ...payload };
  return upstreamHead(request, { ...RULES, ...rules });
}

Deno.test("Fields of a natsway peer go in their order and case, Host where it stood", () => {
  assert.equal(
    head({ path: "/a?b", fields: [["X-b", "1"], ["hOST", "client"], ["x-B", "\xe9"], ["E", ""]] }),
    "GET /a?b HTTP/1.1\r\nX-b: 1\r\nHost: shop.internal:8080\r\nx-B: \xe9\r\nE: \r\n\r\n",
  );
  assert.equal(head({}), "GET / HTTP/1.1\r\nHost: shop.internal:8080\r\n\r\n");
});

Deno.test("Fields of a Ruby peer go behind Host", () => {
  assert.equal(
    head({ ordered: false, fields: [["accept", "*/*"], ["host", "evil"]] }),
    "GET / HTTP/1.1\r\nHost: shop.internal:8080\r\naccept: */*\r\n\r\n",
  );
});

Deno.test("UPSTREAM_HOST=client keeps the client's Host, once", () => {
  const rules = { host: "client" } as const;
  assert.equal(
    head({ fields: [["A", "1"], ["Host", "client"], ["Host", "second"]] }, rules),
    "GET / HTTP/1.1\r\nA: 1\r\nHost: client\r\n\r\n",
  );
  assert.equal(head({}, rules), "GET / HTTP/1.1\r\nHost: shop.internal:8080\r\n\r\n");
  assert.equal(
    head({ fields: [["Host", "a\r\nX: y"]] }, rules),
    "GET / HTTP/1.1\r\nHost: shop.internal:8080\r\n\r\n",
  );
});

Deno.test("The path prefix of UPSTREAM_URL goes in front, except of *", () => {
  assert.match(
    head({ path: "/x?y" }, { prefix: "/api/v1" }),
    /^GET \/api\/v1\/x\?y HTTP\/1\.1\r\n/,
  );
  assert.match(
    head({ method: "OPTIONS", path: "*" }, { prefix: "/api" }),
    /^OPTIONS \* HTTP\/1\.1\r\n/,
  );
  assert.match(head({ path: "//a/../%2e?#" }), /^GET \/\/a\/\.\.\/%2e\?# HTTP\/1\.1\r\n/);
});

Deno.test("Content-Length is that of the body that is sent, where and as the client wrote it", () => {
  const body = octets("abc");
  assert.equal(
    head({
      method: "PUT",
      body,
      fields: [["content-LENGTH", "999"], ["A", "1"], ["Content-Length", "1"]],
    }),
    "PUT / HTTP/1.1\r\ncontent-LENGTH: 3\r\nA: 1\r\nHost: shop.internal:8080\r\n\r\n",
  );
  assert.equal(
    head({ method: "PUT", body, fields: [["Host", "x"], ["Transfer-Encoding", "chunked"]] }),
    "PUT / HTTP/1.1\r\nHost: shop.internal:8080\r\nContent-Length: 3\r\n\r\n",
  );
  assert.match(head({ method: "PUT", body: octets("") }), /\r\nContent-Length: 0\r\n/);
});

Deno.test("Without a body no length is said, but for Ruby's empty POST, PUT and PATCH", () => {
  assert.ok(!head({ method: "POST" }).includes("Content-Length"));
  assert.ok(!head({ fields: [["Content-Length", "5"]] }).includes("Content-Length"));
  for (const method of ["POST", "PUT", "PATCH"]) {
    assert.match(head({ method, ordered: false }), /\r\nContent-Length: 0\r\n/);
  }
  assert.ok(!head({ method: "DELETE", ordered: false }).includes("Content-Length"));
});

Deno.test("Hop-by-hop fields of a peer end here", () => {
  const fields = ["Connection", "keep-alive", "TE", "Trailer", "Transfer-Encoding", "Upgrade"]
    .concat("Proxy-Connection", "Proxy-Authorization", "Proxy-Authenticate", "HTTP2-Settings")
    .map((name) => [name, "x"] as const);
  assert.equal(head({ fields }), "GET / HTTP/1.1\r\nHost: shop.internal:8080\r\n\r\n");
});

Deno.test("Fields that a peer's Connection names end here too, but for those that others rely on", () => {
  assert.equal(
    head({
      fields: [
        ["X-Hop", "1"],
        ["Connection", "close, X-HOP,host"],
        ["Host", "h"],
        ["connection", "via, content-type"],
        ["Via", "1.1 a"],
        ["Content-Type", "a/b"],
        ["X", "2"],
      ],
    }),
    "GET / HTTP/1.1\r\nHost: shop.internal:8080\r\nVia: 1.1 a\r\nContent-Type: a/b\r\nX: 2\r\n\r\n",
  );
});

Deno.test("What could write lines of its own, or is no HTTP, is refused with bad_request", () => {
  const rows: [Partial<HttpPayload>, RegExp][] = [
    [{ method: "GET / HTTP/1.1\r\nX: y\r\n\r\nGET" }, /method/],
    [{ method: "G T" }, /method/],
    [{ method: "GÉT" }, /method/],
    [{ path: "/a HTTP/1.1\r\nX: y" }, /path/],
    [{ path: "/a b" }, /path/],
    [{ path: "/\0" }, /path/],
    [{ path: "/ü" }, /path/],
    [{ path: "/\x7f" }, /path/],
    [{ path: "relative" }, /path/],
    [{ path: "other.test:80" }, /path/],
    [{ path: "*x" }, /path/],
    [{ fields: [["A\r\nB", "c"]] }, /header name/],
    [{ fields: [["A:", "c"]] }, /header name/],
    [{ fields: [["A B", "c"]] }, /header name/],
    [{ fields: [["", "c"]] }, /header name/],
    [{ fields: [["Ä", "c"]] }, /header name/],
    [{ fields: [["A", "b\r\nC: d"]] }, /value of header A/],
    [{ fields: [["A", "b\nc"]] }, /value/],
    [{ fields: [["A", "b\rc"]] }, /value/],
    [{ fields: [["A", "b\0c"]] }, /value/],
    [{ fields: [["A", " b"]] }, /value/],
    [{ fields: [["A", "€"]] }, /value/],
    // Cut to one octet each, these would be CR and LF.
    [{ fields: [["A", "b\u010d\u010aC: d"]] }, /value/],
    [{ path: "/\u010d\u010a" }, /path/],
    [{ method: "GET\u0120" }, /method/],
  ];
  for (const [payload, message] of rows) {
    assert.throws(
      () => head(payload),
      (error) =>
        error instanceof FlowError && error.code === "bad_request" && message.test(error.message),
      JSON.stringify(payload),
    );
  }
});

Deno.test("CONNECT never reaches an upstream: its answer would be read as another request's", () => {
  for (const method of ["CONNECT"]) {
    assert.throws(() => head({ method, path: "/ok" }), (error: unknown) => {
      return error instanceof FlowError && error.code === "bad_request";
    });
  }
  assert.match(head({ method: "connect", path: "/ok" }), /^connect \/ok HTTP/);
});
