/**
 * A small HTTP/1.1 message reader for tests. It is not the program's codec on purpose: what a test
 * reads must not be read with the code under test.
 * @module
 */
import { createHash } from "node:crypto";
import { concat, latin1 } from "./bytes.ts";
import type { End, TestSocket } from "./socket.ts";

/** A head as it came; names and values keep their octets (one code unit each). */
export interface Head {
  /** All octets up to and with the empty line. */
  readonly raw: string;
  readonly startLine: string;
  readonly fields: readonly (readonly [name: string, value: string])[];
}

/** A response as a client sees it. */
export interface TestResponse extends Head {
  readonly version: string;
  readonly status: number;
  readonly reason: string;
  /** Interim (1xx) heads that came before. */
  readonly interim: readonly Head[];
  readonly framing: "none" | "length" | "chunked" | "close";
  /** Empty when read with `collect: false`. */
  readonly body: Uint8Array;
  readonly bodyBytes: number;
  readonly bodySha256: string;
  /** Sizes of the chunks, when chunked. */
  readonly chunkSizes: readonly number[];
  readonly trailers: readonly (readonly [name: string, value: string])[];
  /** Whether the message came whole, by its own framing. With `close` framing: FIN, not RST. */
  readonly complete: boolean;
  /** How the server's side stood when reading stopped. */
  readonly end: End;
}

/** How to read a response. */
export interface ReadResponseOptions {
  /** Method of the request: a HEAD response has no body. @default {"GET"} */
  method?: string;
  /** Limit for each wait for octets. @default {10000} */
  ms?: number;
  /** Keep the body's octets; otherwise count and digest only. @default {true} */
  collect?: boolean;
  /** Called with each piece of body. */
  onBody?: (piece: Uint8Array) => void | Promise<void>;
}

/** Splits a head; throws when a line is not `name: value` or a line end is not CRLF. */
export function parseHead(raw: string): Head {
  if (!raw.endsWith("\r\n\r\n")) throw new Error(`no head: ${JSON.stringify(raw.slice(0, 200))}`);
  const [startLine = "", ...lines] = raw.slice(0, -4).split("\r\n");
  return { raw, startLine, fields: lines.map(parseField) };
}

function parseField(line: string): readonly [string, string] {
  const match = /^([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([^\r\n]*?)[ \t]*$/s.exec(line);
  if (match === null) throw new Error(`no field line: ${JSON.stringify(line)}`);
  return [match[1] as string, match[2] as string];
}

/** All values of a field, in order. */
export function all(head: Pick<Head, "fields">, name: string): string[] {
  const wanted = name.toLowerCase();
  return head.fields.filter(([n]) => n.toLowerCase() === wanted).map(([, value]) => value);
}

/** The one value of a field, or null; throws when there are several. */
export function one(head: Pick<Head, "fields">, name: string): string | null {
  const values = all(head, name);
  if (values.length > 1) throw new Error(`several ${name}: ${JSON.stringify(values)}`);
  return values[0] ?? null;
}

/** The body as text (UTF-8). */
export function text(message: { readonly body: Uint8Array }): string {
  return new TextDecoder().decode(message.body);
}

/** The body as JSON. */
export function json(message: { readonly body: Uint8Array }): Record<string, unknown> {
  const value: unknown = JSON.parse(text(message));
  if (typeof value !== "object" || value === null) throw new Error(`no object: ${text(message)}`);
  return value as Record<string, unknown>;
}

/** The framing of a body, as its head tells it. */
type Framing = { kind: "none" | "chunked" | "close" } | { kind: "length"; bytes: number };

function lengthOf(head: Head): number | null {
  const values = all(head, "content-length");
  if (values.length === 0) return null;
  if (values.length > 1 || !/^\d+$/.test(values[0] as string)) {
    throw new Error(`bad Content-Length: ${JSON.stringify(values)}`);
  }
  return Number(values[0]);
}

function isChunked(head: Head): boolean {
  const values = all(head, "transfer-encoding");
  if (values.length === 0) return false;
  if (values.length > 1 || values[0]?.toLowerCase() !== "chunked") {
    throw new Error(`bad Transfer-Encoding: ${JSON.stringify(values)}`);
  }
  return true;
}

function framingOf(head: Head, otherwise: "none" | "close"): Framing {
  const length = lengthOf(head);
  if (isChunked(head)) {
    if (length !== null) throw new Error("both Content-Length and Transfer-Encoding");
    return { kind: "chunked" };
  }
  if (length !== null) return { kind: "length", bytes: length };
  return { kind: otherwise };
}

/** What {@linkcode readBody} found. */
interface Body {
  readonly complete: boolean;
  readonly chunkSizes: number[];
  readonly trailers: (readonly [string, string])[];
}

async function readBody(
  socket: TestSocket,
  framing: Framing,
  ms: number,
  take: (piece: Uint8Array) => void | Promise<void>,
): Promise<Body> {
  const chunkSizes: number[] = [];
  const trailers: (readonly [string, string])[] = [];
  const done = (complete: boolean): Body => ({ complete, chunkSizes, trailers });
  const pass = async (count: number): Promise<boolean> => {
    let missing = count;
    while (missing > 0) {
      const piece = await socket.read(ms);
      if (piece === null) return false;
      await take(piece.subarray(0, missing));
      if (piece.length > missing) socket.unshift(piece.subarray(missing));
      missing -= Math.min(missing, piece.length);
    }
    return true;
  };
  switch (framing.kind) {
    case "none":
      return done(true);
    case "length":
      return done(await pass(framing.bytes));
    case "close": {
      for (let piece = await socket.read(ms); piece !== null; piece = await socket.read(ms)) {
        await take(piece);
      }
      return done(socket.end === "fin");
    }
    case "chunked":
      while (true) {
        const line = await lineOrEnd(socket, ms);
        if (line === null) return done(false);
        const size = /^([0-9A-Fa-f]+)(?:;.*)?$/.exec(line)?.[1];
        if (size === undefined) throw new Error(`no chunk size: ${JSON.stringify(line)}`);
        const bytes = parseInt(size, 16);
        if (bytes === 0) break;
        chunkSizes.push(bytes);
        if (!await pass(bytes)) return done(false);
        const end = await lineOrEnd(socket, ms);
        if (end === null) return done(false);
        if (end !== "") throw new Error(`no CRLF behind a chunk: ${JSON.stringify(end)}`);
      }
      while (true) {
        const line = await lineOrEnd(socket, ms);
        if (line === null) return done(false);
        if (line === "") return done(true);
        trailers.push(parseField(line));
      }
  }
}

/** A line without its CRLF, or null when the peer ended before it was whole. */
async function lineOrEnd(socket: TestSocket, ms: number): Promise<string | null> {
  try {
    return latin1(await socket.readUntil("\r\n", ms)).slice(0, -2);
  } catch (error) {
    if (socket.end !== "open") return null;
    throw error;
  }
}

/** Reads the next response, interim heads included; octets behind it stay unread. */
export async function readResponse(
  socket: TestSocket,
  options: ReadResponseOptions = {},
): Promise<TestResponse> {
  const ms = options.ms ?? 10_000;
  const interim: Head[] = [];
  let head = parseHead(latin1(await socket.readUntil("\r\n\r\n", ms)));
  while (/^HTTP\/1\.[01] 1\d\d /.test(head.startLine) && !/ 101 /.test(head.startLine)) {
    interim.push(head);
    head = parseHead(latin1(await socket.readUntil("\r\n\r\n", ms)));
  }
  const line = /^(HTTP\/1\.[01]) (\d{3}) (.*)$/.exec(head.startLine);
  if (line === null) throw new Error(`no status line: ${JSON.stringify(head.startLine)}`);
  const status = Number(line[2]);
  const bodiless = options.method === "HEAD" || status === 204 || status === 304 || status === 101;
  const framing: Framing = bodiless ? { kind: "none" } : framingOf(head, "close");
  const hash = createHash("sha256");
  const pieces: Uint8Array[] = [];
  let bodyBytes = 0;
  const body = await readBody(socket, framing, ms, async (piece) => {
    hash.update(piece);
    bodyBytes += piece.length;
    if (options.collect !== false) pieces.push(piece);
    await options.onBody?.(piece);
  });
  return {
    ...head,
    version: line[1] as string,
    status,
    reason: line[3] as string,
    interim,
    framing: framing.kind,
    body: concat(pieces),
    bodyBytes,
    bodySha256: hash.digest("hex"),
    chunkSizes: body.chunkSizes,
    trailers: body.trailers,
    complete: body.complete,
    end: socket.end,
  };
}

/** A request as an upstream sees it. */
export class TestRequest implements Head {
  readonly raw: string;
  readonly startLine: string;
  readonly fields: Head["fields"];
  readonly method: string;
  readonly target: string;
  readonly version: string;
  readonly framing: Framing["kind"];
  /** Set once the body was read. */
  body: Uint8Array | null = null;
  bodyComplete: boolean | null = null;
  bodySha256 = "";
  trailers: Head["fields"] = [];
  readonly #socket: TestSocket;
  readonly #framing: Framing;
  #reading: Promise<Uint8Array> | null = null;

  constructor(head: Head, socket: TestSocket) {
    this.raw = head.raw;
    this.startLine = head.startLine;
    this.fields = head.fields;
    const line = /^(\S+) (\S+) (HTTP\/1\.[01])$/.exec(head.startLine);
    if (line === null) throw new Error(`no request line: ${JSON.stringify(head.startLine)}`);
    this.method = line[1] as string;
    this.target = line[2] as string;
    this.version = line[3] as string;
    this.#socket = socket;
    this.#framing = framingOf(head, "none");
    this.framing = this.#framing.kind;
  }

  /** Target without its query. */
  get path(): string {
    return this.target.split("?")[0] as string;
  }

  /** Reads the body (once); later calls return the same. */
  readBody(ms = 30_000): Promise<Uint8Array> {
    this.#reading ??= (async () => {
      const pieces: Uint8Array[] = [];
      const hash = createHash("sha256");
      const found = await readBody(this.#socket, this.#framing, ms, (piece) => {
        hash.update(piece);
        pieces.push(piece);
      });
      this.body = concat(pieces);
      this.bodyComplete = found.complete;
      this.bodySha256 = hash.digest("hex");
      this.trailers = found.trailers;
      return this.body;
    })();
    return this.#reading;
  }
}
