/**
 * Writes one response to a client: framing by RFC 9112 section 6, fields by RFC 9110 section 7.6.
 * @module
 */
import { chunkPrefix, CRLF, LAST_CHUNK, latin1Into, reasonPhrase } from "../http1/encode.ts";
import { FieldId, isHopByHop } from "../http1/field.ts";
import type { Fields } from "../http1/head.ts";
import type { BufferedWriter } from "../net/buffered_writer.ts";

/** What is known of the request when its response is written. */
export interface ResponseContext {
  readonly method: string;
  /** Minor version of the client's HTTP/1. */
  readonly minor: number;
  /** Whether the client lets the connection live on. */
  readonly keepAlive: boolean;
}

/** How the connection goes on after a response. */
export type ResponseEnd = "keep" | "close" | "broken" | "taken";

/** A response head, as it came from the other side or as natsway makes it. */
export interface ResponseStart {
  readonly status: number;
  /** Reason phrase as octets, where it is not the usual one. */
  readonly reason?: Uint8Array;
  /** Fields to pass on; hop-by-hop and nominated ones are left out here. */
  readonly fields: Fields | null;
  /** Further whole lines, each with CRLF. */
  readonly lines?: string;
  /** Body length in bytes that the origin declared, or -1. */
  readonly declaredLength: number;
  /** Length of the whole body when it is already at hand, else -1: saves chunked framing. */
  readonly completeLength?: number;
}

const encoder = new TextEncoder();
const LF = 0x0a;

/** The response to one request. Exactly one of `end`, `abort` and the client's leaving ends it. */
export class ResponseWriter {
  readonly #writer: BufferedWriter;
  readonly #context: ResponseContext;
  readonly #onEnd: (end: ResponseEnd) => void;
  #framing: "none" | "length" | "chunked" | "close" = "none";
  #left = 0;
  #keep: boolean;
  #ended = false;
  #endedWhole = false;
  #started = false;
  #lastOctet = LF;
  /** Body octets accepted so far. */
  bodyBytes = 0;
  /** Called when the client's socket has taken some of what is pending. */
  onTaken: (() => void) | null = null;
  /** Called once when the client has left before the response was complete. */
  onGone: (() => void) | null = null;

  constructor(
    writer: BufferedWriter,
    context: ResponseContext,
    onEnd: (end: ResponseEnd) => void,
  ) {
    this.#writer = writer;
    this.#context = context;
    this.#onEnd = onEnd;
    this.#keep = context.keepAlive;
  }

  /** Whether a final head was written. */
  get started(): boolean {
    return this.#started;
  }

  /** Whether the response is over, in whichever way. */
  get ended(): boolean {
    return this.#ended;
  }

  /** Octets that wait for the client's socket. */
  get pendingBytes(): number {
    return this.#writer.pendingBytes;
  }

  get method(): string {
    return this.#context.method;
  }

  /** Whether the body ends where the connection does. */
  get closeFramed(): boolean {
    return this.#framing === "close";
  }

  /** Whether octets of our own may follow the body: none where they could complete it by their number. */
  get openEnded(): boolean {
    return this.#framing === "chunked" || this.#framing === "close";
  }

  /** Whether the body so far ends within a line. */
  get midLine(): boolean {
    return this.#lastOctet !== LF;
  }

  /** Whether the response ended as a complete message. */
  get endedWhole(): boolean {
    return this.#endedWhole;
  }

  /** Resolves when the client's socket has taken all; rejects when it has broken. */
  flushed(): Promise<void> {
    return this.#writer.flushed();
  }

  /** Makes this the last response of its connection. Call it before `start`. */
  closeAfter(): void {
    this.#keep = false;
  }

  /** Sends `100 Continue` (RFC 9110 section 15.2.1); HTTP/1.0 clients get none. */
  continue(): void {
    if (this.#context.minor > 0 && !this.#started && !this.#ended) this.#writer.write(CONTINUE);
  }

  /** Writes the final head and decides how the body is framed. */
  start(head: ResponseStart): void {
    if (this.#started || this.#ended) return;
    this.#started = true;
    const { status, fields } = head;
    this.#writer.write(statusLine(status, head.reason));
    const bodyless = status < 200 || status === 204 || status === 304;
    const silent = bodyless || this.#context.method === "HEAD";
    const length = head.declaredLength >= 0 ? head.declaredLength : head.completeLength ?? -1;
    const passLength = fields !== null && status >= 200 && status !== 204 &&
      saysLength(fields, head.declaredLength);
    let dated = false;
    if (fields !== null) dated = this.#copyFields(fields, passLength);
    let lines = head.lines ?? "";
    if (!dated) lines += dateLine();
    if (silent) {
      this.#framing = "none";
      // What a GET would have got: only as the origin declared it (RFC 9110 section 8.6).
      if (!bodyless && head.declaredLength >= 0 && !passLength) {
        lines += `Content-Length: ${length}\r\n`;
      }
    } else if (length >= 0) {
      this.#framing = "length";
      this.#left = length;
      if (!passLength) lines += `Content-Length: ${length}\r\n`;
    } else if (this.#context.minor > 0) {
      this.#framing = "chunked";
      lines += "Transfer-Encoding: chunked\r\n";
    } else {
      this.#framing = "close";
      this.#keep = false;
    }
    if (!this.#keep) lines += "Connection: close\r\n";
    else if (this.#context.minor === 0) lines += "Connection: keep-alive\r\n";
    this.#text(lines + "\r\n");
  }

  /**
   * Appends body octets; they are copied. What goes beyond a declared length breaks the response off:
   * the client must not take it for the next one.
   */
  body(bytes: Uint8Array): void {
    if (this.#ended || bytes.length === 0) return;
    this.bodyBytes += bytes.length;
    this.#lastOctet = bytes[bytes.length - 1]!;
    switch (this.#framing) {
      case "none":
        return;
      case "length":
        if (bytes.length > this.#left) {
          this.abort();
          return;
        }
        this.#left -= bytes.length;
        this.#writer.write(bytes);
        return;
      case "chunked":
        this.#writer.write(chunkPrefix(bytes.length));
        this.#writer.write(bytes);
        this.#writer.write(CRLF);
        return;
      case "close":
        this.#writer.write(bytes);
    }
  }

  /** Ends a complete message. One that is shorter than declared is broken off instead. */
  end(): void {
    if (this.#ended) return;
    if (!this.#started || (this.#framing === "length" && this.#left > 0)) {
      this.abort();
      return;
    }
    if (this.#framing === "chunked") this.#writer.write(LAST_CHUNK);
    this.#finish(this.#keep ? "keep" : "close");
  }

  /** Breaks the message off, so that the client can see that it is incomplete (RFC 9112 section 8). */
  abort(): void {
    if (!this.#ended) this.#finish("broken");
  }

  /** The connection is no HTTP connection any more. */
  taken(): void {
    if (!this.#ended) this.#finish("taken");
  }

  /** The client has left: nothing more is written. */
  gone(): void {
    if (this.#ended) return;
    const { onGone } = this;
    this.#finish("broken");
    onGone?.();
  }

  /** A whole response with a text body of our own. */
  answer(status: number, contentType: string, text: string, lines = ""): void {
    const body = encoder.encode(text);
    this.start({
      status,
      fields: null,
      lines: `Content-Type: ${contentType}\r\n${lines}`,
      declaredLength: body.length,
    });
    this.body(body);
    this.end();
  }

  /** Writes text of one octet per code point straight into the output. */
  #text(text: string): void {
    const at = this.#writer.reserve(text.length);
    latin1Into(text, this.#writer.buffer, at);
    this.#writer.commit(text.length);
  }

  #finish(end: ResponseEnd): void {
    this.#ended = true;
    this.#endedWhole = end !== "broken";
    this.onTaken = null;
    this.onGone = null;
    this.#onEnd(end);
  }

  /** Copies what may cross, in runs; returns whether there was a Date. */
  #copyFields(fields: Fields, passLength: boolean): boolean {
    let dated = false;
    let from = -1;
    let to = -1;
    let lengthSeen = false;
    for (let i = 0; i < fields.count; i++) {
      const id = fields.id(i);
      let pass = !isHopByHop(id) && !fields.isNominated(i);
      if (id === FieldId.ContentLength) {
        pass = passLength && !lengthSeen;
        lengthSeen = true;
      } else if (id === FieldId.Date) dated = true;
      if (!pass) continue;
      const start = fields.lineStart(i);
      if (start !== to) {
        if (from >= 0) this.#writer.write(fields.bytes, from, to);
        from = start;
      }
      to = fields.lineEnd(i);
    }
    if (from >= 0) this.#writer.write(fields.bytes, from, to);
    return dated;
  }
}

/** Whether the first Content-Length line can go on as it is. */
function saysLength(fields: Fields, length: number): boolean {
  const index = fields.indexOf(FieldId.ContentLength);
  return index >= 0 && length >= 0 && fields.value(index) === String(length);
}

const CONTINUE = encoder.encode("HTTP/1.1 100 Continue\r\n\r\n");
const statusLines = new Map<number, Uint8Array>();

function statusLine(status: number, reason: Uint8Array | undefined): Uint8Array {
  if (reason !== undefined && reason.length > 0 && isReason(reason)) {
    const line = new Uint8Array(13 + reason.length + 2);
    line.set(encoder.encode(`HTTP/1.1 ${status} `));
    line.set(reason, 13);
    line.set(CRLF, 13 + reason.length);
    return line;
  }
  let line = statusLines.get(status);
  if (line === undefined) {
    line = encoder.encode(`HTTP/1.1 ${status} ${reasonPhrase(status)}\r\n`);
    statusLines.set(status, line);
  }
  return line;
}

/** HTAB, SP, VCHAR and obs-text (RFC 9112 section 4): anything else could start a line of its own. */
function isReason(octets: Uint8Array): boolean {
  for (const octet of octets) {
    if ((octet < 0x20 && octet !== 0x09) || octet === 0x7f) return false;
  }
  return true;
}

let dateSecond = -1;
let dateText = "";

/** `Date` of now (RFC 9110 section 6.6.1), made once a second. */
function dateLine(): string {
  const now = Date.now();
  const second = Math.floor(now / 1000);
  if (second !== dateSecond) {
    dateSecond = second;
    dateText = `Date: ${new Date(now).toUTCString()}\r\n`;
  }
  return dateText;
}
