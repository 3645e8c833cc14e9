/**
 * Heads of requests and responses, with what they say about their connection.
 * @module
 */

import { equalsName, FieldId } from "./field.ts";
import { ConnectionOption, type FieldLines, Fields } from "./fields.ts";
import { type Framing, persists, requestFraming, responseFraming } from "./framing.ts";

export { Fields, type Framing };

/** Where the parts of a request line stand. */
export interface RequestLine {
  readonly start: number;
  readonly methodEnd: number;
  readonly targetStart: number;
  readonly targetEnd: number;
  readonly minor: 0 | 1;
}

/** Head of a request. `method` and `target`, like all text, stay good when the buffer is used again. */
export class RequestHead extends Fields {
  /** Case is significant (RFC 9110 §9.1). */
  readonly method: string;
  /** As it was sent: nothing is decoded or changed. */
  readonly target: string;
  /** Of HTTP/1.x; a later minor version counts as 1. */
  readonly minor: 0 | 1;
  readonly framing: Framing;
  /** The client lets the connection go on (RFC 9112 §9.3): in HTTP/1.0 only if it asked for it. */
  readonly keepAlive: boolean;
  /** `Expect: 100-continue`, body or not. Ignored in HTTP/1.0 (RFC 9110 §10.1.1). */
  readonly expectContinue: boolean;
  /** A protocol in an Upgrade field that Connection names. Ignored in HTTP/1.0 (RFC 9110 §7.8). */
  readonly upgrade: boolean;

  /** @throws {HttpSyntaxError} 400 or 501: the framing fields contradict each other or RFC 9112 §6 */
  constructor(bytes: Uint8Array, line: RequestLine, lines: FieldLines) {
    super(bytes, line.start, lines);
    const minor = line.minor;
    this.method = this.text(line.start, line.methodEnd);
    this.target = this.text(line.targetStart, line.targetEnd);
    this.minor = minor;
    this.framing = requestFraming(this, minor, this.method);
    this.keepAlive = persists(this, minor);
    const expect = minor === 1 ? this.indexOf(FieldId.Expect) : -1;
    this.expectContinue = expect >= 0 &&
      equalsName(bytes, this.valueStart(expect), this.valueEnd(expect), "100-continue");
    this.upgrade = minor === 1 && hasValue(this, FieldId.Upgrade) &&
      (this.connectionOptions() & ConnectionOption.Upgrade) !== 0;
  }
}

/** Whether a field `id` is there that is not empty. */
function hasValue(fields: Fields, id: number): boolean {
  for (let i = fields.indexOf(id); i >= 0; i = fields.indexOf(id, i + 1)) {
    if (fields.valueEnd(i) > fields.valueStart(i)) return true;
  }
  return false;
}

/** Where the parts of a status line stand. */
export interface StatusLine {
  readonly start: number;
  readonly minor: 0 | 1;
  readonly status: number;
  readonly reasonStart: number;
  readonly reasonEnd: number;
}

/** Head of a response, interim ones included. */
export class ResponseHead extends Fields {
  /** 100 to 999. */
  readonly status: number;
  /** Of HTTP/1.x; a later minor version counts as 1. */
  readonly minor: 0 | 1;
  readonly framing: Framing;
  /** Another response can follow on the connection; never behind `close`, 101 or an opened tunnel. */
  readonly keepAlive: boolean;
  readonly #line: StatusLine;

  /** @throws {HttpSyntaxError} 400 or 501: the framing fields contradict each other or RFC 9112 §6 */
  constructor(bytes: Uint8Array, line: StatusLine, lines: FieldLines, requestMethod: string) {
    super(bytes, line.start, lines);
    const { minor, status } = line;
    this.#line = line;
    this.status = status;
    this.minor = minor;
    this.framing = responseFraming(this, minor, status, requestMethod);
    const isTunnel = status === 101 ||
      (requestMethod === "CONNECT" && status >= 200 && status < 300);
    this.keepAlive = !isTunnel && this.framing.kind !== "close" && persists(this, minor);
  }

  /** Whether the reason phrase is `text`, which must be ASCII; decodes nothing. */
  hasReason(text: string): boolean {
    const { reasonStart, reasonEnd } = this.#line;
    if (reasonEnd - reasonStart !== text.length) return false;
    for (let i = 0; i < text.length; i++) {
      if (this.bytes[reasonStart + i] !== text.charCodeAt(i)) return false;
    }
    return true;
  }

  /** As it was sent, one code point per octet; may be empty. */
  get reason(): string {
    return this.text(this.#line.reasonStart, this.#line.reasonEnd);
  }
}
