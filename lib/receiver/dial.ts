/**
 * Opens TCP connections to targets; every failure is a typed error.
 * @module
 */
import { errorText, FlowError } from "../errors.ts";

/** Where to connect. */
export interface Target {
  readonly hostname: string;
  readonly port: number;
}

/** `host:port`, with brackets around an IPv6 address. */
export function showTarget(target: Target): string {
  return target.hostname.includes(":")
    ? `[${target.hostname}]:${target.port}`
    : `${target.hostname}:${target.port}`;
}

/**
 * Connects within `timeoutMs`; IPv6 and IPv4 are raced (RFC 8305) where a name has both.
 * @throws {FlowError} `target_refused`, `target_not_found`, `target_unreachable`, `target_timeout`,
 *   or `canceled` when `signal` ended it
 */
export async function dial(
  target: Target,
  timeoutMs: number,
  signal: AbortSignal,
): Promise<Deno.TcpConn> {
  const clock = new AbortController();
  const timer = setTimeout(() => clock.abort(), timeoutMs);
  const cancel = () => clock.abort();
  signal.addEventListener("abort", cancel);
  try {
    if (signal.aborted) clock.abort();
    const socket = await Deno.connect({ ...target, signal: clock.signal });
    socket.setNoDelay(true);
    return socket;
  } catch (error) {
    if (signal.aborted) throw new FlowError("canceled", "The dial was cancelled", { cause: error });
    if (clock.signal.aborted) {
      throw new FlowError(
        "target_timeout",
        `No connection to ${showTarget(target)} within ${timeoutMs / 1000} s (CONNECT_TIMEOUT)`,
        { cause: error },
      );
    }
    throw dialError(error, target);
  } finally {
    clearTimeout(timer);
    signal.removeEventListener("abort", cancel);
  }
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
