/**
 * `natsway stdio HOST:PORT`: one session over standard input and output, for ssh's ProxyCommand.
 * @module
 */
import type { Config } from "./config/settings.ts";
import { ExitCode, type FailureCode, FlowError } from "./errors.ts";
import type { FlowEnd } from "./flow/registry.ts";
import type { Logger } from "./logger.ts";
import { PROCESS_STREAMS, type StdioStreams, StdioTunnelSocket } from "./net/stdio_socket.ts";
import { type OpenSession, showAuthority } from "./requester/session_types.ts";
import { TunnelClient } from "./requester/tunnel_client.ts";

/** A requester without ports, which opens one session. */
export interface StdioSession {
  readonly open: OpenSession;
  /** Resolves when it is in service for the first time, however long that takes. */
  readonly ready: Promise<void>;
  /** How the session that was opened ended; null before. */
  end(): FlowEnd | null;
  /** Breaks the session off, if there is one, and leaves NATS. */
  close(): Promise<void>;
}

export interface StdioOptions {
  readonly target: { readonly host: string; readonly port: number };
  readonly config: Config;
  readonly logger: Logger;
  /** Begins to connect to NATS. */
  readonly connect: (config: Config, logger: Logger) => StdioSession;
  /** @default {standard input and output of this process} */
  readonly streams?: StdioStreams;
  /** Resolves when the process is asked to end. @default {SIGINT, SIGTERM or SIGHUP} */
  readonly asked?: Promise<void>;
}

/** Longest wait for the last messages to NATS. */
const CLOSE_MS = 2_000;

/**
 * Carries bytes until both directions have ended, or a signal comes. The process must exit afterwards: a
 * read of standard input may still be under way.
 * @returns the exit code
 * @throws {FlowError} there is no session, or it was broken off
 * @throws {StartError} credentials or certificates cannot be used
 */
export async function runStdio(options: StdioOptions): Promise<number> {
  const { config, logger, connect } = options;
  const asked = options.asked ?? untilAsked();
  const session = connect(config, withoutFlows(logger));
  try {
    await Promise.race([carry(session, options), asked]);
    return ExitCode.Ok;
  } finally {
    await unlessLate(session.close(), CLOSE_MS);
  }
}

async function carry(session: StdioSession, options: StdioOptions): Promise<void> {
  const { target, config: { responseTimeoutMs }, streams = PROCESS_STREAMS } = options;
  if (!await unlessLate(session.ready, responseTimeoutMs)) {
    throw new FlowError("nats_down", `no connection to NATS within ${responseTimeoutMs / 1000} s`);
  }
  const socket = new StdioTunnelSocket(streams);
  const failed = Promise.withResolvers<never>();
  new TunnelClient({
    socket,
    open: session.open,
    target: { ...target, ingressKind: "stdio" },
    onFailed: (code, message) => failed.reject(new FlowError(code, message)),
  });
  if (await Promise.race([socket.ended, failed.promise]) === "closed") return;
  const shown = showAuthority(target.host, target.port);
  throw new FlowError(brokenOff(session.end()), `the tunnel to ${shown} was broken off`);
}

/** Why a tunnel was broken off; a side that ended well did not do it. */
function brokenOff(end: FlowEnd | null): FailureCode {
  return end === null || end === "ok" ? "reset" : end;
}

/**
 * What becomes of the one flow decides how the process ends, which is told once: the lines that name the
 * flow are for debugging.
 */
function withoutFlows(logger: Logger): Logger {
  return {
    debug: (message, fields) => logger.debug(message, fields),
    info: (message, fields) => logger.info(message, fields),
    warn(message, fields) {
      if (fields?.["request_id"] === undefined) logger.warn(message, fields);
      else logger.debug(message, fields);
    },
    error: (message, fields) => logger.error(message, fields),
    enabled: (level) => logger.enabled(level),
  };
}

/** False when `work` is not done after `ms`. */
async function unlessLate(work: Promise<void>, ms: number): Promise<boolean> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<boolean>((resolve) => timer = setTimeout(() => resolve(false), ms));
  try {
    return await Promise.race([work.then(() => true), late]);
  } finally {
    clearTimeout(timer);
  }
}

/** ssh ends its ProxyCommand by SIGHUP. The listeners stay: the process ends with them. */
function untilAsked(): Promise<void> {
  const signals: Deno.Signal[] = Deno.build.os === "windows"
    ? ["SIGINT"]
    : ["SIGINT", "SIGTERM", "SIGHUP"];
  return new Promise((resolve) => {
    for (const signal of signals) Deno.addSignalListener(signal, () => resolve());
  });
}
