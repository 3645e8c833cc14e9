/**
 * What is written into messages: chunk frames, text as octets, reason phrases.
 * @module
 */

const HEX_DIGITS = new Uint8Array([...Array(16).keys()].map((n) => n.toString(16).charCodeAt(0)));

const encoder = new TextEncoder();

/** From here on the native encoder wins over a loop; measured on Deno 2.9. */
const LONG_TEXT = 64;

/** One line end. Not to be changed. */
export const CRLF: Uint8Array = latin1("\r\n");

/** The last chunk and an empty trailer section. Not to be changed. */
export const LAST_CHUNK: Uint8Array = latin1("0\r\n\r\n");

/**
 * The line before `length` octets of chunk data: size and CRLF. A CRLF must follow the data.
 * @throws {RangeError} `length` is 0, which would end the body, or no safe integer
 */
export function chunkPrefix(length: number): Uint8Array {
  if (!Number.isSafeInteger(length) || length <= 0) {
    throw new RangeError(`Cannot frame a chunk of ${length} bytes: take 1 to 2^53-1`);
  }
  let digits = 1;
  for (let rest = length; rest >= 16; rest /= 16) digits++;
  const line = new Uint8Array(digits + 2);
  let rest = length;
  for (let i = digits - 1; i >= 0; i--) {
    line[i] = HEX_DIGITS[rest % 16]!;
    rest = Math.floor(rest / 16);
  }
  line[digits] = 0x0d;
  line[digits + 1] = 0x0a;
  return line;
}

/**
 * Writes `text`, one octet per code point, into `into` from `at` on and returns the offset behind it.
 * @throws {RangeError} a code point over U+00FF, which cut to one octet could become a CR or LF, or too
 * little room; then octets from `at` on may have been written
 */
export function latin1Into(text: string, into: Uint8Array, at: number): number {
  const length = text.length;
  if (at < 0 || at + length > into.length) {
    throw new RangeError(`Cannot write ${length} bytes at ${at}: the buffer has ${into.length}`);
  }
  if (length >= LONG_TEXT) {
    const { read, written } = encoder.encodeInto(text, into.subarray(at, at + length));
    if (read === length && written === length) return at + length; // ASCII only
  }
  for (let i = 0; i < length; i++) {
    const code = text.charCodeAt(i);
    if (code > 0xff) throw new RangeError(`Cannot write code point ${code} as one octet`);
    into[at + i] = code;
  }
  return at + length;
}

/**
 * `text` as octets, one per code point.
 * @throws {RangeError} a code point over U+00FF
 */
export function latin1(text: string): Uint8Array {
  const bytes = new Uint8Array(text.length);
  latin1Into(text, bytes, 0);
  return bytes;
}

const REASON_PHRASES: Readonly<Record<number, string>> = {
  100: "Continue",
  101: "Switching Protocols",
  102: "Processing",
  103: "Early Hints",
  200: "OK",
  201: "Created",
  202: "Accepted",
  203: "Non-Authoritative Information",
  204: "No Content",
  205: "Reset Content",
  206: "Partial Content",
  207: "Multi-Status",
  208: "Already Reported",
  226: "IM Used",
  300: "Multiple Choices",
  301: "Moved Permanently",
  302: "Found",
  303: "See Other",
  304: "Not Modified",
  305: "Use Proxy",
  307: "Temporary Redirect",
  308: "Permanent Redirect",
  400: "Bad Request",
  401: "Unauthorized",
  402: "Payment Required",
  403: "Forbidden",
  404: "Not Found",
  405: "Method Not Allowed",
  406: "Not Acceptable",
  407: "Proxy Authentication Required",
  408: "Request Timeout",
  409: "Conflict",
  410: "Gone",
  411: "Length Required",
  412: "Precondition Failed",
  413: "Content Too Large",
  414: "URI Too Long",
  415: "Unsupported Media Type",
  416: "Range Not Satisfiable",
  417: "Expectation Failed",
  421: "Misdirected Request",
  422: "Unprocessable Content",
  423: "Locked",
  424: "Failed Dependency",
  425: "Too Early",
  426: "Upgrade Required",
  428: "Precondition Required",
  429: "Too Many Requests",
  431: "Request Header Fields Too Large",
  451: "Unavailable For Legal Reasons",
  500: "Internal Server Error",
  501: "Not Implemented",
  502: "Bad Gateway",
  503: "Service Unavailable",
  504: "Gateway Timeout",
  505: "HTTP Version Not Supported",
  506: "Variant Also Negotiates",
  507: "Insufficient Storage",
  508: "Loop Detected",
  510: "Not Extended",
  511: "Network Authentication Required",
};

/** The registered phrase of a status (IANA), or "" for an unregistered one. */
export function reasonPhrase(status: number): string {
  return REASON_PHRASES[status] ?? "";
}
