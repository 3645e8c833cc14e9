/**
 * What can go wrong, as classes with a code that never changes: logs, metrics, peers and client
 * bodies rely on the code, people read the message.
 * @module
 */

/** HTTP status and SOCKS5 reply (RFC 1928 §6) that a failure code is answered with. */
export interface FailureAnswer {
  /** Status of the answer when nothing of a response has been sent yet. */
  readonly http: number;
  /** SOCKS5 REP octet. */
  readonly socks: number;
  /** Seconds for `Retry-After`, where trying again soon makes sense. */
  readonly retryAfterS?: number;
}

/** Every way in which a flow can fail, with its answer (extensions.md section 7). */
export const FAILURES = {
  no_receiver: { http: 503, socks: 0x01 },
  nats_down: { http: 503, socks: 0x01 },
  overloaded: { http: 503, socks: 0x01, retryAfterS: 1 },
  target_denied: { http: 403, socks: 0x02 },
  target_not_found: { http: 502, socks: 0x04 },
  target_unreachable: { http: 502, socks: 0x03 },
  target_refused: { http: 502, socks: 0x05 },
  target_timeout: { http: 504, socks: 0x04 },
  target_broken: { http: 502, socks: 0x01 },
  head_too_large: { http: 502, socks: 0x01 },
  tls_failed: { http: 502, socks: 0x01 },
  peer_lost: { http: 502, socks: 0x01 },
  gap: { http: 502, socks: 0x01 },
  response_timeout: { http: 504, socks: 0x01 },
  peer_lacks: { http: 502, socks: 0x01 },
  loop: { http: 508, socks: 0x02 },
  reset: { http: 502, socks: 0x01 },
  idle_timeout: { http: 504, socks: 0x01 },
  flow_credit_timeout: { http: 504, socks: 0x01 },
  bad_request: { http: 400, socks: 0x01 },
  no_upstream: { http: 503, socks: 0x01 },
  canceled: { http: 503, socks: 0x01 },
  stopping: { http: 503, socks: 0x01, retryAfterS: 1 },
  internal: { http: 502, socks: 0x01 },
} as const satisfies Record<string, FailureAnswer>;

/** A stable name of a failure; the same in log, metric, peer event and client body. */
export type FailureCode = keyof typeof FAILURES;

/** Tells whether `text`, as a peer sent it, is a code that this version knows. */
export function isFailureCode(text: unknown): text is FailureCode {
  return typeof text === "string" && Object.hasOwn(FAILURES, text);
}

/** Base of all errors that natsway raises on purpose. */
export class NatswayError extends Error {
  override readonly name: string = "NatswayError";
}

/** A flow cannot be served or cannot go on; `code` decides what the client sees. */
export class FlowError extends NatswayError {
  override readonly name = "FlowError";
  /**
   * @param code stable name of the failure
   * @param message for people: what failed, against which target, what to do; never a secret
   */
  constructor(readonly code: FailureCode, message: string, options?: ErrorOptions) {
    super(message, options);
  }
}

/** Exit codes of the program (configuration.md section 8). */
export const ExitCode = {
  /** Orderly stop. */
  Ok: 0,
  /** Failure while serving. */
  Failure: 1,
  /** Wrong settings or usage. */
  Usage: 2,
  /** Cannot start: port taken, store unusable, embedded server dead. */
  CannotStart: 3,
} as const;

/** Settings or usage are wrong; `lines` has one line per mistake. Ends the process with exit 2. */
export class ConfigError extends NatswayError {
  override readonly name = "ConfigError";
  constructor(readonly lines: readonly string[]) {
    super(lines.join("\n"));
  }
}

/** The process cannot come into service; the message is one line for the operator. Exit 3. */
export class StartError extends NatswayError {
  override readonly name = "StartError";
}

/** A message is over the server's `max_payload`; nothing was sent. */
export class MessageTooLargeError extends NatswayError {
  override readonly name = "MessageTooLargeError";
  constructor(readonly bytes: number, readonly limit: number) {
    super(`a message of ${bytes} bytes is over the NATS server's max_payload of ${limit}`);
  }
}

/** The text of anything that was thrown. */
export function errorText(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
