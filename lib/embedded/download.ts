/**
 * Downloads a release archive and checks it against the list of hashes published beside it.
 * @module
 */
import { errorText, NatswayError } from "../errors.ts";
import { HASH_LIST, hashInList, printableUrl } from "./release.ts";

/** The archive could not be had, or is not what the list says. */
export class DownloadError extends NatswayError {
  override readonly name = "DownloadError";
}

export interface DownloadOptions {
  /** Folder that holds both the archive and the list of hashes. */
  baseUrl: string;
  /** File name of the archive. */
  archive: string;
  /** Called with the bytes so far and the bytes in all (0: not known) as they arrive. */
  onBytes?: (bytes: number, ofBytes: number) => void;
  /** Longest wait for the next bytes, in ms. @default {20000} */
  stallMs?: number;
  /** Largest archive, in bytes. @default {134217728} */
  maxBytes?: number;
  signal?: AbortSignal;
}

const DEFAULT_STALL_MS = 20_000;
const DEFAULT_MAX_BYTES = 128 * 1024 * 1024;
const MAX_LIST_BYTES = 64 * 1024;
const MAX_REDIRECTS = 5;

/**
 * The bytes of the archive. The list is read first: without it nothing is downloaded.
 * @throws {DownloadError} with the URL and what is wrong with it
 * @throws the signal's reason, when it was aborted
 */
export async function downloadArchive(options: DownloadOptions): Promise<Uint8Array<ArrayBuffer>> {
  const base = folderUrl(options.baseUrl);
  const stallMs = options.stallMs ?? DEFAULT_STALL_MS;
  const listUrl = new URL(HASH_LIST, base);
  const list = new TextDecoder().decode(
    await get(listUrl, { stallMs, maxBytes: MAX_LIST_BYTES, signal: options.signal }),
  );
  const expected = hashInList(list, options.archive);
  if (expected === null) {
    throw new DownloadError(`${printableUrl(listUrl)} has no hash for ${options.archive}`);
  }
  const url = new URL(options.archive, base);
  const bytes = await get(url, {
    stallMs,
    maxBytes: options.maxBytes ?? DEFAULT_MAX_BYTES,
    onBytes: options.onBytes,
    signal: options.signal,
  });
  const actual = await sha256Hex(bytes);
  if (actual !== expected) {
    throw new DownloadError(
      `${printableUrl(url)} has SHA-256 ${actual}, but ${HASH_LIST} says ${expected}`,
    );
  }
  return bytes;
}

/** Lower-case hex of the SHA-256 of `bytes`. */
export async function sha256Hex(bytes: Uint8Array<ArrayBuffer>): Promise<string> {
  return new Uint8Array(await crypto.subtle.digest("SHA-256", bytes)).toHex();
}

function folderUrl(text: string): URL {
  const url = URL.parse(text);
  if (url === null || !/^https?:$/.test(url.protocol)) {
    throw new DownloadError("the download URL is not an http or https URL");
  }
  if (!url.pathname.endsWith("/")) url.pathname += "/";
  return url;
}

interface GetOptions {
  stallMs: number;
  maxBytes: number;
  onBytes?: DownloadOptions["onBytes"] | undefined;
  signal?: AbortSignal | undefined;
}

/** Reads a whole body; every wait in it is bounded by `stallMs`. */
async function get(url: URL, options: GetOptions): Promise<Uint8Array<ArrayBuffer>> {
  const stalled = new AbortController();
  const waitS = options.stallMs / 1000;
  const onStall = () => stalled.abort(new Error(`nothing arrived for ${waitS} s`));
  let timer = setTimeout(onStall, options.stallMs);
  const progress = () => {
    clearTimeout(timer);
    timer = setTimeout(onStall, options.stallMs);
  };
  const signals = options.signal ? [stalled.signal, options.signal] : [stalled.signal];
  const signal = AbortSignal.any(signals);
  try {
    const response = await follow(url, signal, progress);
    return await readBody(response, options, progress);
  } catch (error) {
    options.signal?.throwIfAborted();
    const reason = stalled.signal.aborted ? stalled.signal.reason : error;
    throw new DownloadError(`${printableUrl(url)}: ${failureText(reason)}`, { cause: reason });
  } finally {
    clearTimeout(timer);
  }
}

/** Why a fetch failed, without the URL that Deno puts into it: its query may hold a secret. */
function failureText(error: unknown): string {
  const isWrapped = error instanceof TypeError && error.cause instanceof Error;
  return errorText(isWrapped ? error.cause : error).replace(/ for url \(\S*\)/g, "");
}

/** Follows redirects by hand: a step from https to http would leave the rest to anyone on the way. */
async function follow(url: URL, signal: AbortSignal, progress: () => void): Promise<Response> {
  let at = url;
  for (let step = 0; step <= MAX_REDIRECTS; step++) {
    const response = await fetch(at, { redirect: "manual", signal });
    progress();
    if (response.status === 200) return response;
    await response.body?.cancel();
    const location = response.headers.get("location");
    if (![301, 302, 303, 307, 308].includes(response.status) || location === null) {
      throw new Error(`the answer is status ${response.status}`);
    }
    const next = URL.parse(location, at);
    if (next === null || !/^https?:$/.test(next.protocol)) {
      throw new Error("it redirects to something that is no http or https URL");
    }
    if (at.protocol === "https:" && next.protocol !== "https:") {
      throw new Error(`it redirects from https to ${printableUrl(next)}, which is not protected`);
    }
    at = next;
  }
  throw new Error(`more than ${MAX_REDIRECTS} redirects`);
}

async function readBody(
  response: Response,
  options: GetOptions,
  progress: () => void,
): Promise<Uint8Array<ArrayBuffer>> {
  const ofBytes = Number(response.headers.get("content-length") ?? 0);
  const chunks: Uint8Array[] = [];
  let length = 0;
  for await (const chunk of response.body ?? []) {
    progress();
    length += chunk.byteLength;
    if (length > options.maxBytes) throw new Error(`it is over ${options.maxBytes} bytes`);
    chunks.push(chunk);
    options.onBytes?.(length, ofBytes);
  }
  const result = new Uint8Array(length);
  let at = 0;
  for (const chunk of chunks) {
    result.set(chunk, at);
    at += chunk.byteLength;
  }
  return result;
}
