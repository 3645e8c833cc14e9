/**
 * What nats-server logs, folded into natsway's log.
 * @module
 */
import type { Logger } from "../logger.ts";

/** Error lines of the server that are kept for the message when it ends. */
const KEPT_ERRORS = 3;
/** The server's own time and process id, if its configuration asks for them, are not repeated. */
const LINE = /\[(DBG|TRC|INF|WRN|ERR|FTL)\] (.*)$/;
const FIELDS = { component: "nats-server" } as const;

/** Takes the lines of one run of a server. */
export class ServerLog {
  /**
   * The server is in service. What it says before is told by the error of a start that fails, so
   * fatal lines are only for debugging until then.
   */
  isReady = false;
  readonly #logger: Logger;
  readonly #errors: string[] = [];
  /** First line without a level: a wrong configuration, or what a crash begins with. */
  #plainLine: string | null = null;

  constructor(logger: Logger) {
    this.#logger = logger;
  }

  /** One line, as the server wrote it. */
  take(line: string): void {
    const [, level, text = line] = LINE.exec(line) ?? [];
    if (!/[A-Za-z0-9]/.test(text)) return; // part of a picture
    const message = text.trim();
    if (level === "INF") this.#logger.info(message, FIELDS);
    else if (level === "WRN") this.#logger.warn(message, FIELDS);
    else if (level === "DBG" || level === "TRC") this.#logger.debug(message, FIELDS);
    else this.#takeError(level, message);
  }

  /** What a start failed of: the last error, else the first line that had no level; "" for nothing. */
  get reason(): string {
    return this.#errors.at(-1) ?? this.#plainLine ?? "";
  }

  /** All that was said of an error, for the end of a server that was in service. */
  get lastErrors(): string {
    return [...(this.#plainLine === null ? [] : [this.#plainLine]), ...this.#errors].join(" | ");
  }

  #takeError(level: string | undefined, message: string): void {
    if (level === undefined) this.#plainLine ??= message;
    else this.#errors.push(message);
    if (this.#errors.length > KEPT_ERRORS) this.#errors.shift();
    if (this.isReady || level === "ERR") this.#logger.error(message, FIELDS);
    else this.#logger.debug(message, FIELDS);
  }
}
