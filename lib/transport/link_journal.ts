/**
 * What a link logs: one line for each change, none for each attempt.
 * @module
 */

import { PermissionViolationError } from "@nats-io/nats-core/internal";
import { errorText } from "../errors.ts";
import type { Logger } from "../logger.ts";

/** The same complaint about publishing is not written again within this time. */
const REPEAT_MS = 30_000;

/** Subjects of the service protocol and of its answers. */
const PRESENCE = /^(?:\$SRV|_INBOX)\./;

/** Remembers what was said last, so that an outage of a night is two lines. */
export class LinkJournal {
  readonly #logger: Logger;
  /** Last reason by server; forgotten at each connect. */
  readonly #reasons = new Map<string, string>();
  /** When a text that can come at any rate was written last. */
  readonly #repeated = new Map<string, number>();
  #note: string | null = null;
  #lastError: string | null = null;

  constructor(logger: Logger) {
    this.#logger = logger;
  }

  /** The latest failure of the link or of one of its planes, or null. */
  get lastError(): string | null {
    return this.#lastError;
  }

  connected(server: string, version: string): void {
    this.#reasons.clear();
    this.#note = null;
    this.#logger.info("connected to NATS", { server, version });
  }

  /** An attempt failed; written when the reason for that server is a new one. */
  cannotConnect(server: string, reason: string): void {
    this.#lastError = reason;
    if (this.#reasons.get(server) === reason) return;
    this.#reasons.set(server, reason);
    this.#logger.warn("cannot connect to NATS, trying on", { server, error: reason });
  }

  /** Why the connection is about to end, to be written by {@link LinkJournal.lost}. */
  note(reason: string): void {
    this.#note = reason;
    this.#lastError = reason;
  }

  lost(server: string, error: Error | undefined): void {
    const reason = error?.message ?? this.#note ?? "the server closed the connection";
    this.#note = null;
    this.#lastError = reason;
    this.#logger.warn("lost the connection to NATS", { server, error: reason });
  }

  lameDuck(server: string): void {
    this.#logger.info("the NATS server is about to shut down", { server });
  }

  /** A `-ERR` of the server. Those of subscriptions are written by {@link LinkJournal.denied}. */
  serverError(server: string, error: Error): void {
    // Presence is welcome, not needed: it says itself when it is off.
    if (error instanceof PermissionViolationError && PRESENCE.test(error.subject)) return;
    const text = errorText(error);
    this.#lastError = text;
    if (!(error instanceof PermissionViolationError)) {
      this.note(text);
      return;
    }
    if (error.operation !== "publish") return;
    // The last token is an id: without it the complaint is one for each plane.
    const plane = error.subject.slice(0, error.subject.lastIndexOf("."));
    if (this.#often(`publish ${plane}`)) return;
    this.#logger.error("the NATS server does not let this user publish", {
      server,
      subject: error.subject,
    });
  }

  /** The server refused the subscription of a plane. */
  denied(plane: string, subject: string, error: Error): void {
    this.#lastError = errorText(error);
    this.#logger.error("the NATS server does not let this user subscribe", {
      plane,
      subject,
      error: errorText(error),
    });
  }

  allowed(plane: string, subject: string): void {
    this.#logger.info("the NATS server lets this user subscribe now", { plane, subject });
  }

  handlerFailed(error: unknown): void {
    const text = errorText(error);
    if (this.#often(`handler ${text}`)) return;
    this.#logger.error("a message handler failed", {
      error: text,
      stack: error instanceof Error ? error.stack : undefined,
    });
  }

  #often(what: string): boolean {
    const now = performance.now();
    const last = this.#repeated.get(what);
    if (last !== undefined && now - last < REPEAT_MS) return true;
    if (this.#repeated.size > 100) this.#repeated.clear();
    this.#repeated.set(what, now);
    return false;
  }
}
