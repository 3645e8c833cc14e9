import assert from "node:assert/strict";
import { parseAuthority, serveConnect } from "../../lib/requester/connect.ts";
import type {
  OpenSession,
  SessionClient,
  SessionTarget,
} from "../../lib/requester/session_types.ts";
import { ingressRequest, withoutDate } from "../helpers/unit_client.ts";

Deno.test("An authority is host and port; IPv6 stands in brackets, which end here (F28)", () => {
  const rows: [string, string, number][] = [
    ["db.lan:5432", "db.lan", 5432],
    ["127.0.0.1:1", "127.0.0.1", 1],
    ["x:65535", "x", 65535],
    ["x:00443", "x", 443],
    ["[::1]:18080", "::1", 18080],
    ["[2001:DB8::A]:443", "2001:DB8::A", 443],
    ["[::ffff:192.0.2.1]:443", "::ffff:192.0.2.1", 443],
    ["[fe80::1%eth0]:22", "fe80::1%eth0", 22],
    ["EXAMPLE.Test:443", "EXAMPLE.Test", 443],
    ["_srv._tcp.x-1.test.:443", "_srv._tcp.x-1.test.", 443],
    [`${"a".repeat(255)}:1`, "a".repeat(255), 1],
  ];
  for (const [target, host, port] of rows) {
    assert.deepEqual(parseAuthority(target), { host, port }, target);
  }
});

Deno.test("What is no authority is refused, not guessed at", () => {
  const rows = [
    "",
    ":",
    "x",
    "x:",
    ":443",
    "x:0",
    "x:65536",
    "x:99999",
    "x:100000",
    "x:443x",
    "x:-1",
    "x:+1",
    "x:4 3",
    "x: 443",
    "x:0x50",
    "x:\u0664\u0664\u0663",
    "::1:18080",
    "2001:db8::1:443",
    "[::1]",
    "[::1]:",
    "[::1]443",
    "[::1:443",
    "::1]:443",
    "[]:443",
    "[x]:443",
    "[127.0.0.1]:443",
    "[::1::2]:443",
    "[::1%]:443",
    "[::1%a b]:443",
    "[::1%25a%25b]:443",
    "[[::1]]:443",
    "user@x:443",
    "user:password@x:443",
    "http://x:443",
    "x/y:443",
    "/:443",
    "*:443?x",
    "x#y:443",
    "a b:443",
    " x:443",
    "x\t:443",
    "x\\y:443",
    `${"a".repeat(256)}:1`,
  ];
  for (const target of rows) assert.equal(parseAuthority(target), null, JSON.stringify(target));
});

/** Serves one CONNECT; the session is the test's. */
function serve(text: string) {
  const { request, client } = ingressRequest(text);
  const opened: SessionTarget[] = [];
  const seen = { abandoned: 0, session: null as SessionClient | null };
  const open: OpenSession = (target, session) => {
    opened.push(target);
    seen.session = session;
    return { abandon: () => void seen.abandoned++ };
  };
  serveConnect(request, open);
  return { client, opened, seen };
}

const CONNECT = "CONNECT [::1]:22 HTTP/1.1\r\nHost: [::1]:22\r\n\r\n";

Deno.test("A success is a bare 200, and the connection is no HTTP connection any more", () => {
  const { client, opened, seen } = serve(CONNECT);
  assert.deepEqual(opened, [{ host: "::1", port: 22, ingressKind: "http_connect" }]);
  assert.equal(client.end, null);
  const socket = seen.session!.established({ host: "::1", port: 40_000 });
  assert.equal(client.tunnel?.reply, "HTTP/1.1 200 Connection Established\r\n\r\n");
  assert.equal(socket, client.tunnel.socket);
  assert.equal(client.end, "taken");
  assert.equal(seen.abandoned, 0);
});

Deno.test("A failure is answered with its status and code before any 2xx, and closes the connection", async () => {
  const { client, seen } = serve(CONNECT);
  seen.session!.failed("target_refused", "Connection to [::1]:22 refused");
  const body = '{"error":"Bad Gateway","message":"Connection to [::1]:22 refused",' +
    '"code":"target_refused"}';
  assert.equal(
    withoutDate(await client.text()),
    "HTTP/1.1 502 Bad Gateway\r\nContent-Type: application/json\r\n" +
      `Content-Length: ${body.length}\r\nConnection: close\r\n\r\n${body}`,
  );
  assert.equal(client.end, "close");
  assert.equal(seen.abandoned, 0);
});

Deno.test("A client that leaves while it waits abandons its session, and finds nothing to take", () => {
  const { client, seen } = serve(CONNECT);
  client.response.gone();
  assert.equal(seen.abandoned, 1);
  assert.equal(seen.session!.established({ host: null, port: 0 }), null);
});

Deno.test("A bad authority is 400 without a session", async () => {
  const rows = [
    "CONNECT ::1:22 HTTP/1.1\r\nHost: x\r\n\r\n",
    "CONNECT db.lan:0 HTTP/1.1\r\nHost: x\r\n\r\n",
    "CONNECT db.lan HTTP/1.1\r\nHost: x\r\n\r\n",
  ];
  for (const text of rows) {
    const { client, opened } = serve(text);
    assert.equal(opened.length, 0);
    const answer = await client.text();
    assert.match(answer, /^HTTP\/1\.1 400 Bad Request\r\n[^]*"code":"bad_request"/, text);
    assert.match(answer, /\r\nConnection: close\r\n/);
    assert.equal(client.end, "close");
  }
});
