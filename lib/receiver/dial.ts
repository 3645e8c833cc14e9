/**
 * Opens TCP connections to targets: looks a name up once, asks the target policy, races the addresses.
 * Every failure is a typed error.
 * @module
 */
import { errorText, FlowError } from "../errors.ts";
import { formatIp, parseIp } from "./ip_address.ts";
import { race } from "./race.ts";
import { canonicalTargetHost, lookupAddresses, type Resolve } from "./resolve.ts";
import type { TargetPolicy } from "./target_policy.ts";

/** Where to connect. */
export interface Target {
  readonly hostname: string;
  readonly port: number;
}

export interface DialOptions {
  /** Sees the name, then each address; null for a target that the operator named. */
  readonly policy: TargetPolicy | null;
  /** CONNECT_TIMEOUT: looking up and connecting together. */
  readonly connectTimeoutMs: number;
  readonly signal: AbortSignal;
  /** @default {lookupAddresses} */
  readonly resolve?: Resolve;
  /** Opens a connection to an address. @default Deno.connect */
  readonly connect?: (address: Target, signal: AbortSignal) => Promise<Deno.TcpConn>;
}

/** How long one address is tried before the next joins in (RFC 8305 §8). */
const ATTEMPT_DELAY_MS = 250;

/** `host:port`, with brackets around an IPv6 address. */
export function showTarget(target: Target): string {
  return target.hostname.includes(":")
    ? `[${target.hostname}]:${target.port}`
    : `${target.hostname}:${target.port}`;
}

/**
 * Connects within `timeoutMs` to a target that the operator named: no policy is asked.
 * @throws {FlowError} as `dialTarget`, but never `target_denied`
 */
export function dial(
  target: Target,
  timeoutMs: number,
  signal: AbortSignal,
): Promise<Deno.TcpConn> {
  return dialTarget(target, { policy: null, connectTimeoutMs: timeoutMs, signal });
}

/**
 * Connects to a target. A name is looked up once, and the connection goes to an address that the policy
 * saw; several addresses are raced, IPv6 first (RFC 8305). When all fail, the most telling failure is
 * reported: refused, then unreachable, then timed out, then no route from here.
 * @throws {FlowError} `target_denied`, `target_not_found`, `target_refused`, `target_unreachable`,
 *   `target_timeout`, or `canceled` when `signal` ended it
 */
export async function dialTarget(target: Target, options: DialOptions): Promise<Deno.TcpConn> {
  const { connectTimeoutMs, signal, connect = connectTcp } = options;
  const clock = new AbortController();
  const timer = setTimeout(() => clock.abort(), connectTimeoutMs);
  const cancel = () => clock.abort();
  signal.addEventListener("abort", cancel);
  try {
    if (signal.aborted) throw canceled();
    const addresses = await permittedAddresses(target, options, clock.signal);
    if (addresses.length === 1) {
      try {
        return await connect({ hostname: addresses[0]!, port: target.port }, clock.signal);
      } catch (error) {
        if (signal.aborted) throw canceled();
        throw clock.signal.aborted
          ? timedOut(target, connectTimeoutMs)
          : mostTelling([error], target);
      }
    }
    const { won, failures } = await race(interleaved(addresses), {
      attempt: (hostname, ended) => connect({ hostname, port: target.port }, ended),
      discard: (socket) => socket.close(),
      delayMs: ATTEMPT_DELAY_MS,
      signal: clock.signal,
    });
    if (won !== undefined) return won;
    if (signal.aborted) throw canceled();
    const late = clock.signal.aborted ? [timedOut(target, connectTimeoutMs)] : [];
    throw mostTelling([...failures, ...late], target);
  } finally {
    clearTimeout(timer);
    signal.removeEventListener("abort", cancel);
  }
}

async function connectTcp(address: Target, signal: AbortSignal): Promise<Deno.TcpConn> {
  const socket = await Deno.connect({ ...address, signal });
  socket.setNoDelay(true);
  return socket;
}

/** The addresses of the target that the policy lets pass; at least one. */
async function permittedAddresses(
  target: Target,
  { policy, connectTimeoutMs, signal, resolve = lookupAddresses }: DialOptions,
  clock: AbortSignal,
): Promise<readonly string[]> {
  const { port } = target;
  const host = canonicalTargetHost(target.hostname);
  if (host === null) {
    const text = `${JSON.stringify(target.hostname.slice(0, 100))} is no name and no address`;
    throw new FlowError("target_not_found", text);
  }
  policy?.checkName(host, port);
  const found = parseIp(host) !== null
    ? [host]
    : await unlessAborted(lookUp(host, target, resolve), clock, () =>
      signal.aborted ? canceled() : timedOut(target, connectTimeoutMs));
  const permitted = new Set<string>();
  let denial: unknown = null;
  for (const address of found) {
    try {
      policy?.checkAddress(host, address, port);
      // The form that was judged is the form that is dialled.
      const ip = parseIp(address);
      permitted.add(ip === null ? address : formatIp(ip));
    } catch (error) {
      denial ??= error;
    }
  }
  if (permitted.size === 0) throw denial;
  return [...permitted];
}

async function lookUp(host: string, target: Target, resolve: Resolve): Promise<readonly string[]> {
  let cause: unknown;
  try {
    const addresses = await resolve(host);
    if (addresses.length > 0) return addresses;
  } catch (error) {
    cause = error;
  }
  throw new FlowError("target_not_found", `The name of ${showTarget(target)} does not resolve`, {
    cause,
  });
}

/** IPv6 and IPv4 in turn, IPv6 first; each family keeps the order of the system (RFC 8305 §4). */
function interleaved(addresses: readonly string[]): string[] {
  const isIpv6 = (address: string) => address.includes(":");
  const six = addresses.filter(isIpv6);
  const four = addresses.filter((address) => !isIpv6(address));
  const mixed: string[] = [];
  for (let i = 0; i < Math.max(six.length, four.length); i++) {
    mixed.push(...six.slice(i, i + 1), ...four.slice(i, i + 1));
  }
  return mixed;
}

/** A lookup cannot be ended, but nobody has to wait for it. */
function unlessAborted<T>(work: Promise<T>, signal: AbortSignal, error: () => Error): Promise<T> {
  return new Promise((resolve, reject) => {
    const onAbort = () => reject(error());
    signal.addEventListener("abort", onAbort, { once: true });
    work.then(resolve, reject).finally(() => signal.removeEventListener("abort", onAbort));
  });
}

function canceled(): FlowError {
  return new FlowError("canceled", "The dial was cancelled");
}

function timedOut(target: Target, timeoutMs: number): FlowError {
  const text = `No connection to ${showTarget(target)} within ${timeoutMs / 1000} s`;
  return new FlowError("target_timeout", `${text} (CONNECT_TIMEOUT)`);
}

/** Of several failures, the one that says most about the target. */
function mostTelling(failures: readonly unknown[], target: Target): FlowError {
  const [best] = failures.toSorted((a, b) => telling(b) - telling(a));
  return best instanceof FlowError ? best : dialError(best, target);
}

/** A refusal comes from the target, a missing route to one address often from this machine. */
function telling(error: unknown): number {
  if (error instanceof Deno.errors.ConnectionRefused) return 4;
  if (codeOf(error) === "EHOSTUNREACH") return 3;
  if (error instanceof FlowError || error instanceof Deno.errors.TimedOut) return 2;
  return codeOf(error) === "ENETUNREACH" ? 0 : 1;
}

function codeOf(error: unknown): string {
  return error instanceof Error && "code" in error ? String(error.code) : "";
}

/** The failure that an error of `Deno.connect` stands for. */
export function dialError(error: unknown, target: Target): FlowError {
  const where = showTarget(target);
  const text = errorText(error);
  const cause = { cause: error };
  if (error instanceof Deno.errors.ConnectionRefused) {
    return new FlowError("target_refused", `Connection to ${where} refused`, cause);
  }
  if (error instanceof Deno.errors.TimedOut) {
    return new FlowError("target_timeout", `Connection to ${where} timed out`, cause);
  }
  // Names that do not resolve come without a class of their own.
  if (/lookup|resolve|name or service|nodename|no such host/i.test(text)) {
    return new FlowError("target_not_found", `The name of ${where} does not resolve`, cause);
  }
  if (/unreachable|no route/i.test(text)) {
    return new FlowError("target_unreachable", `No route to ${where}`, cause);
  }
  return new FlowError("target_unreachable", `Cannot connect to ${where}: ${text}`, cause);
}
