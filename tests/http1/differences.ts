/**
 * Every deliberate difference between natsway's codec and llhttp. A stricter one is named by the fault
 * that natsway tells, and by what must then be found in what llhttp accepted; a looser one by llhttp's
 * error, and by what must then be found in what natsway accepted.
 * @module
 */

import {
  declaresBody,
  type Difference,
  equalBut,
  isChunked,
  looser,
  stricter,
  values,
} from "./difference.ts";
import { LLHTTP_METHODS } from "./llhttp.ts";

const HOST = "Host: app.example\r\n";
const CHUNKED = "Transfer-Encoding: chunked\r\n";

/** A Host value by RFC 3986 3.2.2, written apart from the codec's own. */
const HOST_VALUE =
  /^(?:\[[\w.~!$&'()*+,;=:-]+\]|(?:[\w.~!$&'()*+,;=-]|%[0-9A-Fa-f]{2})*)(?::[0-9]*)?$/;

/** A tab somewhere behind the first word of a field that frames the message or the connection. */
const TAB_BEHIND =
  /^(?:content-length|transfer-encoding|connection|proxy-connection|upgrade):[^\r\n]*[^ \t\r\n] *\t/im;

/** What is not the same if one parser finds a body framed otherwise. */
const BODY = ["body", "trailers"] as const;

const STRICTER: readonly Difference[] = [
  stricter("no Host", "RFC 9112 3.2", "node:http asks for it above llhttp", {
    faults: ["no Host"],
    accepted: (their) => their.version === "1.1" && values(their, "host").length === 0,
    requests: ["GET / HTTP/1.1\r\n\r\n"],
  }),
  stricter("several Hosts", "RFC 9112 3.2", "a request with more than one MUST get 400", {
    faults: ["more than one Host"],
    accepted: (their) => values(their, "host").length > 1,
    requests: [`GET / HTTP/1.1\r\n${HOST}${HOST}\r\n`],
  }),
  stricter("malformed Host", "RFC 9112 3.2", "an invalid value MUST get 400", {
    faults: ["malformed Host"],
    accepted: (their) => !HOST_VALUE.test(values(their, "host")[0] ?? ""),
    requests: [
      "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n",
      "GET / HTTP/1.1\r\nHost: ::1:80\r\n\r\n",
      "GET / HTTP/1.0\r\nHost: a b\r\n\r\n",
    ],
  }),
  stricter("request line without version", "RFC 9112 3", "HTTP/0.9 is not served", {
    faults: ["malformed request-target or request line", "bare LF in the head"],
    octets: /[A-Z-]+ +[^ \r\n]* *\r?\n/,
    accepted: (their) => their.version === "0.9",
    requests: ["GET /\r\n\r\n", "GET /\n\r\n"],
  }),
  stricter("another major version", "RFC 9110 2.5, 15.6.6", "505", {
    faults: ["not HTTP/1"],
    accepted: (their) => !their.version.startsWith("1."),
    requests: [`GET / HTTP/2.0\r\n${HOST}\r\n`, `GET / HTTP/0.9\r\n${HOST}\r\n`],
    responses: ["HTTP/2.0 200 OK\r\n\r\n"],
  }),
  stricter("another protocol's version", "RFC 9112 2.3", "llhttp serves ICE and RTSP too", {
    faults: ["no HTTP version"],
    octets: /(?:ICE|RTSP)\/[0-9]/,
    requests: [`SOURCE /x ICE/1.0\r\n${HOST}\r\n`, `OPTIONS /x RTSP/1.0\r\n${HOST}\r\n`],
    responses: ["RTSP/1.0 200 OK\r\n\r\n"],
  }),
  stricter("several spaces in a request line", "RFC 9112 3", "exactly one SP between the parts", {
    faults: ["malformed request-target or request line", "no HTTP version"],
    octets: /[A-Z-]+ (?: +[^ \r\n]+ *|[^ \r\n]+ {2,})(?: *[A-Z]+\/[0-9]|\r?\n)/,
    requests: [`GET  / HTTP/1.1\r\n${HOST}\r\n`, `GET /  HTTP/1.1\r\n${HOST}\r\n`],
  }),
  stricter("bare CR", "RFC 9112 2.2", "a recipient MUST NOT take it as it is", {
    faults: ["bare CR in the head"],
    octets: /\r(?!\n)/,
    requests: [`\rGET / HTTP/1.1\r\n${HOST}\r\n`],
    responses: ["HTTP/1.1 200 OK\r\rContent-Length: 0\r\n\r\n"],
  }),
  stricter("bare LF before a message", "RFC 9112 2.2", "only CRLF ends a line", {
    faults: ["bare LF in the head"],
    octets: /\n/,
    requests: [`\nGET / HTTP/1.1\r\n${HOST}\r\n`],
    responses: ["\nHTTP/1.1 200 OK\r\n\r\n"],
  }),
  stricter("many empty lines", "RFC 9112 2.2", "at least one is skipped, here up to four", {
    faults: ["too many empty lines before the head"],
    octets: /(?:^|\n)(?:\r\n){5}/,
    requests: [`${"\r\n".repeat(5)}GET / HTTP/1.1\r\n${HOST}\r\n`],
    responses: [`HTTP/1.1 204 x\r\n\r\n${"\r\n".repeat(5)}HTTP/1.1 204 x\r\n\r\n`],
  }),
  stricter("an empty line before a response", "RFC 9112 2.2", "skipped before requests only", {
    faults: ["no HTTP version"],
    octets: /\r\n[A-Z]+\//,
    responses: ["\r\nHTTP/1.1 200 OK\r\n\r\n"],
  }),
  stricter("a status below 100", "RFC 9110 15", "no status code", {
    faults: ["status code below 100"],
    accepted: (their) => Number(their.start[0]) < 100,
    responses: ["HTTP/1.1 099 x\r\n\r\n"],
  }),
  stricter("a control in the reason phrase", "RFC 9112 4", "HTAB, SP, VCHAR and obs-text only", {
    faults: ["control octet in the reason phrase", "control octet in the head", "NUL in the head"],
    // deno-lint-ignore no-control-regex -- controls are what this is about
    octets: /[A-Z]\/\d\.\d \d{3} [^\r\n]*[\0-\x08\x0b\x0c\x0e-\x1f\x7f]/,
    responses: [
      "HTTP/1.1 200 a\x7f\r\n\r\n",
      "HTTP/1.1 200 a\0\r\n\r\n",
      "HTTP/1.1 200 \x0b\r\n\r\n",
    ],
  }),
  stricter("Transfer-Encoding in HTTP/1.0", "RFC 9112 6.1", "faulty framing", {
    faults: ["Transfer-Encoding in HTTP/1.0"],
    accepted: (their) => their.version === "1.0" && values(their, "transfer-encoding").length > 0,
    requests: [`POST / HTTP/1.0\r\n${CHUNKED}\r\n0\r\n\r\n`],
    responses: [`HTTP/1.0 200 x\r\n${CHUNKED}\r\n0\r\n\r\n`],
  }),
  stricter("a coding besides chunked", "RFC 9112 6.1, 7", "it would be lost on the way: 501", {
    faults: ["a transfer coding other than chunked"],
    accepted: (their) =>
      /[^ \t,].*,[ \t]*chunked$/i.test(values(their, "transfer-encoding").join()),
    requests: [`POST / HTTP/1.1\r\n${HOST}Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n`],
    responses: ["HTTP/1.1 200 x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"],
  }),
  stricter("a coding that is not chunked alone", "RFC 9112 6.1, 6.3, 7.4", "it was never offered", {
    faults: ["Transfer-Encoding must be chunked, once and alone"],
    accepted: (their) => {
      const codings = values(their, "transfer-encoding");
      return codings.length > 0 && codings.join().toLowerCase() !== "chunked";
    },
    requests: [`GET / HTTP/1.1\r\n${HOST}Transfer-Encoding:\r\n\r\n`],
    responses: [
      "HTTP/1.1 200 x\r\nTransfer-Encoding: gzip\r\n\r\n",
      `HTTP/1.1 200 x\r\n${CHUNKED}${CHUNKED}\r\n0\r\n\r\n`,
    ],
  }),
  stricter("an empty coding and a length", "RFC 9112 6.3", "both fields are there", {
    faults: ["Content-Length together with Transfer-Encoding"],
    accepted: (their) =>
      values(their, "content-length").length > 0 &&
      values(their, "transfer-encoding").every((value) => value === ""),
    requests: [
      `POST / HTTP/1.1\r\n${HOST}Transfer-Encoding:\r\nContent-Length: 3\r\n\r\nabc`,
    ],
    responses: ["HTTP/1.1 200 x\r\nTransfer-Encoding:\r\nContent-Length: 3\r\n\r\nabc"],
  }),
  stricter("a CONNECT that declares a body", "RFC 9110 9.3.6", "CONNECT has no content", {
    faults: ["a CONNECT request that declares a body"],
    accepted: (their) => their.start[0] === "CONNECT" && declaresBody(their),
    requests: ["CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\nContent-Length: 3\r\n\r\nabc"],
  }),
  stricter("a framing field in the trailers", "RFC 9110 6.5.1", "nobody may send it there", {
    faults: ["a framing field in the trailers"],
    octets: /^(?:content-length|transfer-encoding):/im,
    requests: [`POST / HTTP/1.1\r\n${HOST}${CHUNKED}\r\n0\r\nTransfer-Encoding:\r\n\r\n`],
  }),
  stricter("a length over 2^53-1", "RFC 9110 8.6", "JavaScript would not count it exactly", {
    faults: ["Content-Length is too large"],
    accepted: (their) => Number(values(their, "content-length")[0]) >= 2 ** 53,
    requests: [`POST / HTTP/1.1\r\n${HOST}Content-Length: 9007199254740992\r\n\r\nabc`],
    responses: ["HTTP/1.1 200 x\r\nContent-Length: 9007199254740992\r\n\r\nabc"],
  }),
  stricter("a chunk over 2^53-1", "RFC 9112 7.1", "large sizes are to be anticipated", {
    faults: ["a chunk size that is too large"],
    octets: /^[0-9a-f]{14,}/im,
    requests: [`POST / HTTP/1.1\r\n${HOST}${CHUNKED}\r\nfffffffffffffff\r\nabc`],
    responses: [`HTTP/1.1 200 x\r\n${CHUNKED}\r\nfffffffffffffff\r\nabc`],
  }),
  stricter("a chunk size of many digits", "RFC 9112 7.1", "zeros in front count", {
    faults: ["a chunk size with too many digits"],
    octets: /^[0-9a-f]{17,}/im,
    requests: [`POST / HTTP/1.1\r\n${HOST}${CHUNKED}\r\n${"0".repeat(16)}3\r\nabc\r\n0\r\n\r\n`],
  }),
  stricter("long chunk extensions", "RFC 9112 7.1.1", "their length ought to be limited", {
    faults: ["chunk extensions over the limit"],
    octets: /^[0-9a-f]+[ \t]*;[^\r\n]{1000,}/im,
    requests: [`POST / HTTP/1.1\r\n${HOST}${CHUNKED}\r\n3;${"a".repeat(1025)}\r\nabc\r\n0\r\n\r\n`],
  }),
];

const LOOSER: readonly Difference[] = [
  looser("unknown method", "RFC 9110 9.1", "every token is a method, and goes on as it is", {
    errors: /^HPE_INVALID_METHOD|^HPE_INVALID_CONSTANT: Expected SOURCE/,
    accepted: (our) => !LLHTTP_METHODS.includes(our.start[0]),
    requests: [`BREW / HTTP/1.1\r\n${HOST}\r\n`, `GETX / HTTP/1.1\r\n${HOST}\r\n`],
  }),
  looser("a later minor version", "RFC 9110 2.5", "1.2 to 1.9 are read as 1.1", {
    errors: /^HPE_INVALID_VERSION: Invalid HTTP version/,
    octets: /HTTP\/1\.[2-9]/,
    requests: [`GET / HTTP/1.7\r\n${HOST}\r\n`],
    responses: ["HTTP/1.3 200 x\r\n\r\n"],
  }),
  looser(
    "a target in none of the four forms",
    "RFC 9112 3.2",
    "lib/service.ts routes, and refuses",
    {
      errors: /^HPE_INVALID_URL/,
      accepted: (our) => !/^(?:\/|\*$)/.test(our.start[1]),
      requests: [`GET x HTTP/1.1\r\n${HOST}\r\n`, `GET http:/x HTTP/1.1\r\n${HOST}\r\n`],
    },
  ),
  looser("a blank before a chunk extension", "RFC 9112 7.1.1", "bad whitespace, to be taken", {
    errors: /^HPE_INVALID_CHUNK_SIZE|^unnamed/,
    octets: /^[0-9a-f]+[ \t]+;/im,
    accepted: isChunked,
    requests: [`POST / HTTP/1.1\r\n${HOST}${CHUNKED}\r\n3 ;a\r\nabc\r\n0\r\n\r\n`],
    responses: [`HTTP/1.1 200 x\r\n${CHUNKED}\r\n3\t;a\r\nabc\r\n0\r\n\r\n`],
  }),
  looser("what a chunk extension says", "RFC 9112 7.1.1", "skipped unread, controls apart", {
    errors: /^HPE_STRICT: Invalid character in chunk extensions|^HPE_INVALID_CHUNK_SIZE|^unnamed/,
    octets: /^[0-9a-f]+[ \t]*;/im,
    accepted: isChunked,
    requests: [
      `POST / HTTP/1.1\r\n${HOST}${CHUNKED}\r\n3;\r\nabc\r\n0\r\n\r\n`,
      `POST / HTTP/1.1\r\n${HOST}${CHUNKED}\r\n3;a b\r\nabc\r\n0\r\n\r\n`,
      `POST / HTTP/1.1\r\n${HOST}${CHUNKED}\r\n3;a="b\r\nabc\r\n0\r\n\r\n`,
    ],
  }),
  looser("framing fields that do not count", "RFC 9112 6.3 (1, 2)", "no body, whatever they say", {
    errors: /^HPE_(?:INVALID_CONTENT_LENGTH|UNEXPECTED_CONTENT_LENGTH|INVALID_TRANSFER_ENCODING)/,
    accepted: (our, found) =>
      declaresBody(our) && (/^(?:1..|204|304)$/.test(our.start[0]) ||
        found.input.requestMethod === "HEAD" ||
        (found.input.requestMethod === "CONNECT" && our.start[0].startsWith("2"))),
    responses: [
      "HTTP/1.1 204 x\r\nContent-Length: x\r\n\r\n",
      `HTTP/1.1 304 x\r\nContent-Length: 3\r\n${CHUNKED}\r\n`,
    ],
  }),
  looser("Connection in the trailers", "RFC 9110 6.5.1", "it comes too late to say anything", {
    errors: /^HPE_CLOSED_CONNECTION/,
    accepted: (_, { ours }) =>
      ours.messages.some(({ trailers }) => trailers.some(([name]) => /connection$/i.test(name))),
    requests: [
      `POST / HTTP/1.1\r\n${HOST}${CHUNKED}\r\n0\r\nConnection: close\r\n\r\n` +
      `GET /2 HTTP/1.1\r\n${HOST}\r\n`,
    ],
  }),
  looser("lengths that agree", "RFC 9112 6.3 (5)", "one line with the number is sent on", {
    errors: /^HPE_(?:INVALID_CONTENT_LENGTH|UNEXPECTED_CONTENT_LENGTH)/,
    accepted: (our) => {
      const lengths = values(our, "content-length").join().split(",").map((item) =>
        item.replace(/^[ \t]+|[ \t]+$/g, "")
      );
      return lengths.length > 1 &&
        lengths.every((item) => /^\d+$/.test(item) && Number(item) === Number(lengths[0]));
    },
    responses: [
      "HTTP/1.1 200 x\r\nContent-Length: 2, 2\r\n\r\nok",
      "HTTP/1.1 200 x\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nok",
    ],
  }),
];

const OTHER: readonly Difference[] = [
  {
    name: "a tab behind a value",
    ours: "other",
    rfc: "RFC 9110 5.5, 5.6.3",
    why: "blanks around a value or a member are no part of it; llhttp sees another word",
    samples: [
      {
        side: "request",
        text: `POST / HTTP/1.1\r\n${HOST}Content-Length: 3\t\r\n\r\nabc`,
      },
      {
        side: "request",
        text: `POST / HTTP/1.1\r\n${HOST}Transfer-Encoding: chunked\t\r\n\r\n0\r\n\r\n`,
      },
      { side: "request", text: `GET / HTTP/1.1\r\n${HOST}Connection: x, close\t\r\n\r\n` },
      { side: "response", text: "HTTP/1.1 200 x\r\nContent-Length: 3 \t\r\n\r\nabc" },
      {
        side: "response",
        text: "HTTP/1.1 200 x\r\nTransfer-Encoding: chunked\t\r\n\r\n0\r\n\r\n",
      },
    ],
    explains({ text, ours, theirs, our, their }) {
      if (!TAB_BEHIND.test(text)) return false;
      const isReframed = their !== null && isChunked(their) && !their.keepAlive; // read to the close
      if (our === null) return isReframed && ours.end === "refused";
      if (their !== null) {
        return equalBut(our, their, "keepAlive", "leavesHttp", ...isReframed ? BODY : []);
      }
      return theirs.end === "refused" && /CONTENT_LENGTH|TRANSFER_ENCODING/.test(theirs.fault);
    },
  },
  {
    name: "an answer to HEAD without a length",
    ours: "other",
    rfc: "RFC 9112 6.3 (1)",
    why: "it ends with its head, so the connection goes on; llhttp does not know the request",
    samples: [{ side: "response", requestMethod: "HEAD", text: "HTTP/1.1 200 x\r\n\r\n" }],
    explains: ({ input, our, their }) =>
      input.side === "response" && input.requestMethod === "HEAD" && our !== null &&
      their !== null && our.keepAlive && !their.keepAlive && !isChunked(our) &&
      values(our, "content-length").length === 0 && equalBut(our, their, "keepAlive"),
  },
  {
    name: "Proxy-Connection",
    ours: "other",
    rfc: "RFC 9112 C.2.2",
    why: "it says nothing about this connection; llhttp reads it as Connection",
    samples: [
      { side: "request", text: "GET / HTTP/1.0\r\nProxy-Connection: keep-alive\r\n\r\n" },
      { side: "request", text: `GET / HTTP/1.1\r\n${HOST}Proxy-Connection: close\r\n\r\n` },
    ],
    explains: ({ our, their }) =>
      our !== null && their !== null && values(our, "proxy-connection").length > 0 &&
      equalBut(our, their, "keepAlive", "leavesHttp"),
  },
  {
    name: "close and keep-alive in HTTP/1.0",
    ours: "other",
    rfc: "RFC 9112 9.3",
    why: "close comes first",
    samples: [
      { side: "request", text: "GET / HTTP/1.0\r\nConnection: keep-alive, close\r\n\r\n" },
    ],
    explains: ({ our, their }) =>
      our !== null && their !== null && !our.keepAlive && their.keepAlive &&
      our.version === "1.0" && /\bclose\b/i.test(values(our, "connection").join()) &&
      equalBut(our, their, "keepAlive"),
  },
  {
    name: "Upgrade in HTTP/1.0",
    ours: "other",
    rfc: "RFC 9110 7.8",
    why: "a server MUST ignore it",
    samples: [{
      side: "request",
      text: `GET / HTTP/1.0\r\n${HOST}Connection: keep-alive, Upgrade\r\nUpgrade: x\r\n\r\n`,
    }],
    explains: ({ our, their }) =>
      our !== null && their !== null && our.version === "1.0" && !our.leavesHttp &&
      their.leavesHttp && equalBut(our, their, "leavesHttp", "keepAlive"),
  },
];

/** The whole table. */
export const DIFFERENCES: readonly Difference[] = [...STRICTER, ...LOOSER, ...OTHER];
