/**
 * A small HTTP server to try natsway with: one route for each kind of answer that matters.
 * @module
 */
import { createHash } from "node:crypto";

export interface SampleUpstreamOptions {
  /** @default "127.0.0.1" */
  hostname?: string;
  /** 0: any free port. @default 0 */
  port?: number;
}

export interface SampleUpstream {
  /** Such as `http://127.0.0.1:41000`, without a slash at the end. */
  readonly url: string;
  readonly port: number;
  /** Ends running answers too; resolves when the port is free. More calls wait for the same end. */
  stop(): Promise<void>;
}

/** Size of `/big` when the request names none: 10 MiB. */
export const DEFAULT_BIG_BYTES = 10 * 1024 * 1024;

const MAX_BIG_BYTES = 16 * 1024 * 1024 * 1024;
const BIG_CHUNK_BYTES = 64 * 1024;
/** Above this size `/big` sends no hash: to compute it first would delay the answer. */
const MAX_HASHED_BYTES = 256 * 1024 * 1024;
const DEFAULT_TICKS = 5;
const MAX_TICKS = 10_000;
const TICK_MS = 200;
const MAX_SLOW_MS = 600_000;
/** Prime, so that the pattern of `/big` does not repeat in step with any buffer size. */
const PATTERN_BYTES = 65_521;

/** The routes, for people; also the answer to `/`. */
const GUIDE = `Hello from the sample upstream.

/text                some text
/json                JSON
/sse?n=5             server-sent events, one each 200 ms
/echo                your body, byte for byte, any method
/echo/request        your request line and header fields, as text
/big?bytes=10485760  a download with its SHA-256 in x-sha256
/slow?ms=1000        an answer that takes its time
/status/404          any status
`;

/**
 * Starts the server.
 * @throws {Deno.errors.AddrInUse} the port is taken
 */
export function startSampleUpstream(options: SampleUpstreamOptions = {}): Promise<SampleUpstream> {
  const { hostname = "127.0.0.1", port = 0 } = options;
  const stopping = new AbortController();
  // Throws at once when the port is taken; as a promise it must not.
  return Promise.try(() => {
    const server = Deno.serve(
      { hostname, port, onListen: () => {}, onError: internalError },
      async (request) => asItIs(await answer(request, stopping.signal)),
    );
    const address = server.addr;
    const host = address.hostname.includes(":") ? `[${address.hostname}]` : address.hostname;
    let stopped: Promise<void> | null = null;
    const stop = async () => {
      stopping.abort();
      await server.shutdown();
    };
    return {
      url: `http://${host}:${address.port}`,
      port: address.port,
      stop: () => stopped ??= stop(),
    };
  });
}

function answer(request: Request, stopping: AbortSignal): Response | Promise<Response> {
  const url = new URL(request.url);
  const status = /^\/status\/(\d{3})$/.exec(url.pathname);
  if (status !== null) return statusAnswer(Number(status[1]));
  switch (url.pathname) {
    case "/":
    case "/text":
      return text(GUIDE);
    case "/json":
      return Response.json({ message: "Hello from the sample upstream", numbers: [1, 2, 3] });
    case "/sse":
      return ticks(numberOf(url, "n", DEFAULT_TICKS, MAX_TICKS), stopping);
    case "/echo":
      return echo(request, url);
    case "/echo/request":
      return text(describe(request, url));
    case "/big":
      return big(numberOf(url, "bytes", DEFAULT_BIG_BYTES, MAX_BIG_BYTES), request.method);
    case "/slow":
      return slow(numberOf(url, "ms", 1000, MAX_SLOW_MS), stopping);
    default:
      return text(`There is no ${url.pathname} here.\n`, 404);
  }
}

/** Keeps Deno's server from compressing: what a route says about its bytes shall hold. */
function asItIs(response: Response): Response {
  response.headers.append("cache-control", "no-transform");
  return response;
}

function internalError(): Response {
  return text("The sample upstream failed.\n", 500);
}

function text(body: string, status = 200): Response {
  return new Response(body, { status, headers: { "content-type": "text/plain; charset=utf-8" } });
}

/** A whole number of the query, `fallback` if there is none; a wrong one is answered with 400. */
function numberOf(url: URL, name: string, fallback: number, largest: number): number | Response {
  const value = url.searchParams.get(name);
  if (value === null) return fallback;
  if (/^\d{1,15}$/.test(value) && Number(value) <= largest) return Number(value);
  return text(`${name} must be a whole number from 0 to ${largest}.\n`, 400);
}

/** `Response` takes 200 to 599 only, and no body for 204, 205 and 304. */
function statusAnswer(status: number): Response {
  if (status < 200 || status > 599) return text("Statuses from 200 to 599 can be had.\n", 400);
  if (status === 204 || status === 205 || status === 304) return new Response(null, { status });
  return text(`Status ${status}, as asked for.\n`, status);
}

/** The body as it comes in, not gathered; `x-request-*` tell what request it came with. */
function echo(request: Request, url: URL): Response {
  const headers = new Headers({
    "x-request-method": request.method,
    "x-request-target": url.pathname + url.search,
  });
  for (const [name, value] of request.headers) headers.append(`x-request-field-${name}`, value);
  const type = request.headers.get("content-type");
  if (type !== null) headers.set("content-type", type);
  return new Response(request.body, { headers });
}

function describe(request: Request, url: URL): string {
  const lines = [`${request.method} ${url.pathname}${url.search}`];
  for (const [name, value] of request.headers) lines.push(`${name}: ${value}`);
  return `${lines.join("\n")}\n`;
}

/** Ticks go on until all are sent, the client is gone, or the server stops. */
function ticks(count: number | Response, stopping: AbortSignal): Response {
  if (count instanceof Response) return count;
  const gone = new AbortController();
  const ended = AbortSignal.any([gone.signal, stopping]);
  const encoder = new TextEncoder();
  let tick = 0;
  const body = new ReadableStream<Uint8Array>({
    async pull(controller) {
      if (tick > 0 && tick < count) await pause(TICK_MS, ended);
      if (gone.signal.aborted) return;
      if (tick >= count || stopping.aborted) return controller.close();
      tick++;
      controller.enqueue(encoder.encode(`id: ${tick}\nevent: tick\ndata: ${tick} of ${count}\n\n`));
    },
    cancel: () => gone.abort(),
  });
  return new Response(body, {
    headers: { "content-type": "text/event-stream", "cache-control": "no-store" },
  });
}

function big(bytes: number | Response, method: string): Response {
  if (bytes instanceof Response) return bytes;
  const headers = new Headers({
    "content-type": "application/octet-stream",
    "content-length": String(bytes),
  });
  if (bytes <= MAX_HASHED_BYTES) headers.set("x-sha256", bigHash(bytes));
  if (method === "HEAD") return new Response(null, { headers });
  let at = 0;
  const body = new ReadableStream<Uint8Array>({
    pull(controller) {
      const length = Math.min(BIG_CHUNK_BYTES, bytes - at);
      if (length > 0) controller.enqueue(bigBytes(at, length));
      at += length;
      if (at === bytes) controller.close();
    },
  });
  return new Response(body, { headers });
}

/** Two rounds of the pattern of `/big`, so that any chunk up to one round is one slice. */
const PATTERN = Uint8Array.from(
  { length: 2 * PATTERN_BYTES },
  (_, i) => ((i % PATTERN_BYTES) * 2_654_435_761 >>> 16) & 0xff,
);

/** `length` bytes of what `/big` sends from offset `at` on; the same bytes at each call. */
export function bigBytes(at: number, length: number): Uint8Array<ArrayBuffer> {
  const result = new Uint8Array(length);
  for (let done = 0; done < length;) {
    const from = (at + done) % PATTERN_BYTES;
    const count = Math.min(length - done, PATTERN_BYTES);
    result.set(PATTERN.subarray(from, from + count), done);
    done += count;
  }
  return result;
}

const hashes = new Map<number, string>();

function bigHash(bytes: number): string {
  const known = hashes.get(bytes);
  if (known !== undefined) return known;
  const hash = createHash("sha256");
  for (let at = 0; at < bytes; at += BIG_CHUNK_BYTES) {
    hash.update(bigBytes(at, Math.min(BIG_CHUNK_BYTES, bytes - at)));
  }
  const result = hash.digest("hex");
  if (hashes.size < 100) hashes.set(bytes, result);
  return result;
}

async function slow(ms: number | Response, stopping: AbortSignal): Promise<Response> {
  if (ms instanceof Response) return ms;
  const startedAt = performance.now();
  await pause(ms, stopping);
  return text(`This took ${Math.round(performance.now() - startedAt)} ms.\n`);
}

/** Resolves after `ms`, or at once when `ended` fires. */
function pause(ms: number, ended: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      clearTimeout(timer);
      ended.removeEventListener("abort", done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    if (ended.aborted) done();
    else ended.addEventListener("abort", done);
  });
}
