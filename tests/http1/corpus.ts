/**
 * Messages of the field cases (their ids are the names), octet by octet, and some that a strict reader
 * has to refuse. One code point is one octet.
 * @module
 */

/** A name and the octets as text. */
export interface Sample {
  readonly name: string;
  readonly text: string;
}

/** What clients send. */
export const REQUEST_SAMPLES: readonly Sample[] = [
  {
    name: "F01-absolute-form-host-mismatch",
    text: "GET http://127.0.0.1:18080/f01?x=1 HTTP/1.1\r\n" +
      "Host: other.example\r\n" +
      "Accept: */*\r\n" +
      "\r\n",
  },
  {
    name: "F02-path-bytes",
    text: "GET /f02/queues/%2F/a%2fb//c/../d/./e;v=1?x=%2f&&y=&z HTTP/1.1\r\n" +
      "Host: app.example\r\n" +
      "\r\n",
  },
  {
    name: "F03-cl-and-te",
    text: "POST /f03 HTTP/1.1\r\n" +
      "Host: app.example\r\n" +
      "Content-Length: 6\r\n" +
      "Transfer-Encoding: chunked\r\n" +
      "\r\n" +
      "0\r\n" +
      "\r\n" +
      "GET /f03-smuggled HTTP/1.1\r\n" +
      "Host: app.example\r\n" +
      "\r\n",
  },
  {
    name: "F04-two-content-lengths",
    text: "POST /f04 HTTP/1.1\r\n" +
      "Host: app.example\r\n" +
      "Content-Length: 5\r\n" +
      "Content-Length: 54\r\n" +
      "\r\n" +
      "helloGET /f04-smuggled HTTP/1.1\r\n" +
      "Host: app.example\r\n" +
      "\r\n",
  },
  {
    name: "F05-obs-fold",
    text: "GET /f05 HTTP/1.1\r\n" +
      "Host: app.example\r\n" +
      "X-Folded: one\r\n" +
      " two\r\n" +
      "X-After: 3\r\n" +
      "\r\n",
  },
  {
    name: "F05-space-before-colon",
    text: "POST /f05 HTTP/1.1\r\n" +
      "Host: app.example\r\n" +
      "Transfer-Encoding : chunked\r\n" +
      "\r\n" +
      "0\r\n" +
      "\r\n",
  },
  {
    name: "F06-connection-nominated",
    text: "GET /f06 HTTP/1.1\r\n" +
      "Host: app.example\r\n" +
      "Connection: close, X-Hop\r\n" +
      "X-Hop: must-not-forward\r\n" +
      "Keep-Alive: timeout=5\r\n" +
      "Proxy-Connection: keep-alive\r\n" +
      "TE: trailers\r\n" +
      "X-End: keep\r\n" +
      "\r\n",
  },
  {
    name: "F07-absolute-form-ipv6",
    text: "GET http://[::1]:18080/f07 HTTP/1.1\r\n" +
      "Host: [::1]:18080\r\n" +
      "\r\n",
  },
  {
    name: "F08-expect-100",
    text: "PUT /f08 HTTP/1.1\r\n" +
      "Host: app.example\r\n" +
      "Content-Length: 11\r\n" +
      "Expect: 100-continue\r\n" +
      "\r\n",
  },
  {
    name: "F09-delete-no-body",
    text: "DELETE /f09 HTTP/1.1\r\n" +
      "Host: app.example\r\n" +
      "\r\n",
  },
  {
    name: "F09-get-with-body",
    text: "GET /f09 HTTP/1.1\r\n" +
      "Host: app.example\r\n" +
      "Content-Length: 5\r\n" +
      "\r\n" +
      "hello",
  },
  {
    name: "F10-header-bytes",
    text: "GET /f10 HTTP/1.1\r\n" +
      "Host: app.example\r\n" +
      "X-Empty:\r\n" +
      "X-Dup: 1\r\n" +
      "x-dup: 2\r\n" +
      "X-Dup: 1\r\n" +
      "Cookie: a=1\r\n" +
      "Cookie: b=2\r\n" +
      "X-Latin1: caf\xe9\r\n" +
      "X-Utf8: caf\xc3\xa9\r\n" +
      "X-Tab: a\tb\r\n" +
      "\r\n",
  },
  {
    name: "F11-pipelined",
    text: "GET /f11/slow HTTP/1.1\r\n" +
      "Host: app.example\r\n" +
      "\r\n" +
      "GET /f11/fast HTTP/1.1\r\n" +
      "Host: app.example\r\n" +
      "Connection: close\r\n" +
      "\r\n",
  },
  {
    name: "F12-forwarded-for",
    text: "GET /f12 HTTP/1.1\r\n" +
      "Host: app.example\r\n" +
      "X-Forwarded-For: 203.0.113.9\r\n" +
      "X-Forwarded-Proto: https\r\n" +
      "Forwarded: for=203.0.113.9;proto=https\r\n" +
      "\r\n",
  },
  {
    name: "F14-head",
    text: "HEAD /f14 HTTP/1.1\r\n" +
      "Host: app.example\r\n" +
      "\r\n",
  },
  {
    name: "F24-connect",
    text: "CONNECT 127.0.0.1:18080 HTTP/1.1\r\n" +
      "Host: 127.0.0.1:18080\r\n" +
      "Proxy-Connection: Keep-Alive\r\n" +
      "\r\n",
  },
  {
    name: "F25-connect-early-data",
    text: "CONNECT 127.0.0.1:18080 HTTP/1.1\r\n" +
      "Host: 127.0.0.1:18080\r\n" +
      "\r\n" +
      "GET /f25 HTTP/1.1\r\n" +
      "Host: 127.0.0.1:18080\r\n" +
      "Connection: close\r\n" +
      "\r\n",
  },
  {
    name: "F27-connect-refused",
    text: "CONNECT 127.0.0.1:1 HTTP/1.1\r\n" +
      "Host: 127.0.0.1:1\r\n" +
      "\r\n",
  },
  {
    name: "F27-connect-unresolvable",
    text: "CONNECT no-such-host.invalid:443 HTTP/1.1\r\n" +
      "Host: no-such-host.invalid:443\r\n" +
      "\r\n",
  },
  {
    name: "F28-connect-ipv6-unbracketed",
    text: "CONNECT ::1:18080 HTTP/1.1\r\n" +
      "Host: ::1:18080\r\n" +
      "\r\n",
  },
  {
    name: "F28-connect-ipv6",
    text: "CONNECT [::1]:18080 HTTP/1.1\r\n" +
      "Host: [::1]:18080\r\n" +
      "\r\n",
  },
  {
    name: "F34-upgrade",
    text: "GET /f34 HTTP/1.1\r\n" +
      "Host: app.example\r\n" +
      "Connection: Upgrade\r\n" +
      "Upgrade: websocket\r\n" +
      "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n" +
      "Sec-WebSocket-Version: 13\r\n" +
      "\r\n",
  },
  {
    name: "F36-upgrade-h2c",
    text: "GET /f36 HTTP/1.1\r\n" +
      "Host: app.example\r\n" +
      "Connection: Upgrade, HTTP2-Settings\r\n" +
      "Upgrade: h2c\r\n" +
      "HTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n" +
      "\r\n",
  },
  {
    name: "F49-proxy-authorization",
    text: "GET http://127.0.0.1:18080/f49 HTTP/1.1\r\n" +
      "Host: 127.0.0.1:18080\r\n" +
      "Proxy-Authorization: Basic YWxpY2U6czNjcjpldA==\r\n" +
      "Authorization: Bearer origin-token\r\n" +
      "\r\n",
  },
  {
    name: "F50-connect-no-credentials",
    text: "CONNECT 127.0.0.1:18080 HTTP/1.1\r\n" +
      "Host: 127.0.0.1:18080\r\n" +
      "\r\n",
  },
  {
    name: "F50-lowercase-scheme",
    text: "GET http://127.0.0.1:18080/f50 HTTP/1.1\r\n" +
      "Host: 127.0.0.1:18080\r\n" +
      "Proxy-Authorization: basic YWxpY2U6czNjcjpldA==\r\n" +
      "\r\n",
  },
  {
    name: "F50-no-credentials",
    text: "GET http://127.0.0.1:18080/f50 HTTP/1.1\r\n" +
      "Host: 127.0.0.1:18080\r\n" +
      "\r\n",
  },
  {
    name: "F52-connect-mapped-ipv6",
    text: "CONNECT [::ffff:169.254.169.254]:80 HTTP/1.1\r\n" +
      "Host: [::ffff:169.254.169.254]:80\r\n" +
      "\r\n",
  },
  {
    name: "F52-target-link-local",
    text: "GET http://169.254.169.254/latest/ HTTP/1.1\r\n" +
      "Host: 169.254.169.254\r\n" +
      "\r\n",
  },
  {
    name: "F60-partial-head",
    text: "GET /f60 HTTP/1.1\r\n" +
      "Host: app.example\r\n" +
      "X-Slow: ",
  },
  {
    name: "chunked-with-extension-and-trailers",
    text: "POST /c HTTP/1.1\r\nHost: app.example\r\nTransfer-Encoding: chunked\r\n\r\n" +
      '5;a=b;c="d e"\r\nhello\r\n' +
      "00A \t;x\r\n0123456789\r\n" +
      "0\r\nX-Sum: 15\r\nx-sum:\tcaf\xe9 \r\n\r\n" +
      "GET /next HTTP/1.1\r\nHost: app.example\r\n\r\n",
  },
  {
    name: "empty-lines-before-each-request",
    text: "\r\n\r\nPOST /1 HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc" +
      "\r\nGET /2 HTTP/1.1\r\nHost: a\r\n\r\n",
  },
  {
    name: "http-1.0",
    text: "GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\nGET / HTTP/1.0\r\n\r\n",
  },
];

/** What upstreams send. */
export const RESPONSE_SAMPLES: readonly Sample[] = [
  {
    name: "F13-upstream-set-cookie",
    text: "HTTP/1.1 200 OK\r\n" +
      "Set-Cookie: sid=1; Path=/\r\n" +
      "Set-Cookie: lang=en; Expires=Wed, 09 Jun 2032 10:18:14 GMT; Path=/\r\n" +
      "Set-Cookie: sid=1; Path=/app\r\n" +
      "Content-Length: 2\r\n" +
      "\r\n" +
      "ok",
  },
  {
    name: "F14-upstream-head-chunked",
    text: "HTTP/1.1 200 OK\r\n" +
      "Content-Type: application/json\r\n" +
      "Transfer-Encoding: chunked\r\n" +
      "\r\n",
  },
  {
    name: "F14-upstream-head-length",
    text: "HTTP/1.1 200 OK\r\n" +
      "Content-Type: application/json\r\n" +
      "Content-Length: 9757\r\n" +
      "\r\n",
  },
  {
    name: "F15-upstream-204-length",
    text: "HTTP/1.1 204 No Content\r\n" +
      "X-Id: 7\r\n" +
      "Content-Length: 0\r\n" +
      "\r\n",
  },
  {
    name: "F15-upstream-304-chunked",
    text: "HTTP/1.1 304 Not Modified\r\n" +
      'ETag: "v1"\r\n' +
      "Transfer-Encoding: chunked\r\n" +
      "\r\n",
  },
  {
    name: "F16-upstream-gzip",
    text: "HTTP/1.1 200 OK\r\n" +
      "Content-Type: text/plain\r\n" +
      "Content-Encoding: gzip\r\n" +
      "Content-Length: 29\r\n" +
      'ETag: "g1"\r\n' +
      "\r\n" +
      "\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\x03\xcbH\xcd\xc9\xc9W\xc8@'\xb9\x00\x00\x88Y\x0b\x18\x00\x00\x00",
  },
  {
    name: "F17-upstream-short-chunked",
    text: "HTTP/1.1 200 OK\r\n" +
      "Content-Type: text/plain\r\n" +
      "Transfer-Encoding: chunked\r\n" +
      "\r\n" +
      "A\r\n" +
      "0123456789\r\n",
  },
  {
    name: "F17-upstream-short-length",
    text: "HTTP/1.1 200 OK\r\n" +
      "Content-Type: text/plain\r\n" +
      "Content-Length: 100\r\n" +
      "\r\n" +
      "0123456789",
  },
  {
    name: "F18-upstream-103",
    text: "HTTP/1.1 103 Early Hints\r\n" +
      "Link: </s.css>; rel=preload; as=style\r\n" +
      "X-Hint: only-in-103\r\n" +
      "\r\n" +
      "HTTP/1.1 200 OK\r\n" +
      "Content-Type: text/plain\r\n" +
      "Content-Length: 2\r\n" +
      "\r\n" +
      "ok",
  },
  {
    name: "F19-upstream-302",
    text: "HTTP/1.1 302 Found\r\n" +
      "Location: http://127.0.0.1:18080/f19-elsewhere\r\n" +
      "Set-Cookie: s=1; Path=/\r\n" +
      "Content-Length: 0\r\n" +
      "\r\n",
  },
  {
    name: "F34-upstream-101-and-frame",
    text: "HTTP/1.1 101 Switching Protocols\r\n" +
      "Upgrade: websocket\r\n" +
      "Connection: Upgrade\r\n" +
      "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n" +
      "\r\n" +
      "\x81\x05hello",
  },
  {
    name: "F35-upstream-refuses-upgrade",
    text: "HTTP/1.1 401 Unauthorized\r\n" +
      'WWW-Authenticate: Basic realm="u"\r\n' +
      "Content-Type: text/plain\r\n" +
      "Content-Length: 7\r\n" +
      "\r\n" +
      "denied\n",
  },
  {
    name: "close-delimited",
    text: "HTTP/1.0 200\r\nServer: x\r\n\r\nall of this",
  },
  {
    name: "chunked-with-trailers",
    text: "HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\nTrailer: X-Sum\r\n\r\n" +
      "3\r\nabc\r\n0\r\nX-Sum: 3\r\n\r\n",
  },
];
