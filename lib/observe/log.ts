/**
 * The real logger: one line per record, as text for people or JSON for machines, over LogTape.
 *
 * LogTape's configuration belongs to the whole process, but several loggers must live in one (the
 * demo runs both roles, tests run many). So it is configured once with one sink, and where a line
 * goes travels with each logger as a context property.
 * @module
 */
import { configureSync, getLogger, type Logger as Tape, type LogRecord } from "@logtape/logtape";
import type { LogFields, Logger, LogLevel } from "../logger.ts";
import { createMasker, escapeControls, type Masker } from "./mask.ts";

export type LogFormat = "text" | "json";

export interface LoggerOptions {
  /** Lowest level that is written. */
  readonly level: LogLevel;
  readonly format: LogFormat;
  /**
   * Takes one line, without its line feed, before the logging call returns.
   * @default {a synchronous write to standard error}
   */
  readonly write?: (line: string) => void;
  /** Texts that must not be written; each is masked wherever it stands in a message or value. */
  readonly secrets?: readonly string[];
}

const RANK: Readonly<Record<LogLevel, number>> = { debug: 0, info: 1, warning: 2, error: 3 };
const CATEGORY = "natsway";
/** Context property that carries the output; no field can have this name. */
const OUTPUT = "\0output";
/** Characters of one value that are written; a client must not be able to fill the log. */
const MAX_VALUE_CHARS = 2048;

/**
 * Makes a logger. Lines below `level` cost one comparison: nothing is built, formatted or passed on.
 * A failing write loses the line and nothing else.
 */
export function createLogger(options: LoggerOptions): Logger {
  configureOnce();
  const output = new Output(options);
  return new TapeLogger(getLogger(CATEGORY).with({ [OUTPUT]: output }), RANK[options.level]);
}

/**
 * A logger whose lines also carry `fields`; a field of the line itself goes before one of these.
 * Nesting works. A logger of another make is wrapped.
 */
export function withFields(logger: Logger, fields: LogFields): Logger {
  return logger instanceof TapeLogger ? logger.with(fields) : new FieldsLogger(logger, fields);
}

let configured = false;

function configureOnce(): void {
  if (configured) return;
  configureSync({
    reset: true,
    sinks: { lines: writeRecord },
    loggers: [
      { category: CATEGORY, sinks: ["lines"], lowestLevel: "debug", parentSinks: "override" },
      // LogTape's own remarks would go to the console; our sink does not fail, so there are none.
      { category: ["logtape", "meta"], sinks: [], parentSinks: "override" },
    ],
  });
  configured = true;
}

function writeRecord(record: LogRecord): void {
  const output = record.properties[OUTPUT];
  if (output instanceof Output) output.write(record);
}

class TapeLogger implements Logger {
  readonly #tape: Tape;
  readonly #rank: number;

  constructor(tape: Tape, rank: number) {
    this.#tape = tape;
    this.#rank = rank;
  }

  debug(message: string, fields?: LogFields): void {
    if (this.#rank <= RANK.debug) this.#tape.debug(message, fields ?? {});
  }

  info(message: string, fields?: LogFields): void {
    if (this.#rank <= RANK.info) this.#tape.info(message, fields ?? {});
  }

  warn(message: string, fields?: LogFields): void {
    if (this.#rank <= RANK.warning) this.#tape.warning(message, fields ?? {});
  }

  error(message: string, fields?: LogFields): void {
    this.#tape.error(message, fields ?? {});
  }

  enabled(level: LogLevel): boolean {
    return this.#rank <= RANK[level];
  }

  with(fields: LogFields): Logger {
    return new TapeLogger(this.#tape.with({ ...fields }), this.#rank);
  }
}

class FieldsLogger implements Logger {
  readonly #inner: Logger;
  readonly #fields: LogFields;

  constructor(inner: Logger, fields: LogFields) {
    this.#inner = inner;
    this.#fields = fields;
  }

  debug(message: string, fields?: LogFields): void {
    if (this.enabled("debug")) this.#inner.debug(message, { ...this.#fields, ...fields });
  }

  info(message: string, fields?: LogFields): void {
    if (this.enabled("info")) this.#inner.info(message, { ...this.#fields, ...fields });
  }

  warn(message: string, fields?: LogFields): void {
    if (this.enabled("warning")) this.#inner.warn(message, { ...this.#fields, ...fields });
  }

  error(message: string, fields?: LogFields): void {
    this.#inner.error(message, { ...this.#fields, ...fields });
  }

  enabled(level: LogLevel): boolean {
    return this.#inner.enabled(level);
  }
}

/** Formats records and writes them. */
class Output {
  readonly #mask: Masker;
  readonly #format: (record: LogRecord) => string;
  readonly #write: (line: string) => void;

  constructor(options: LoggerOptions) {
    this.#mask = createMasker(options.secrets ?? []);
    this.#format = options.format === "json"
      ? (record) => this.#jsonLine(record)
      : (record) => this.#textLine(record);
    this.#write = options.write ?? writeToStderr;
  }

  write(record: LogRecord): void {
    try {
      this.#write(this.#format(record));
    } catch {
      // A log that cannot be written (closed pipe, full disk) must not end what is being logged.
    }
  }

  #jsonLine(record: LogRecord): string {
    const line: Record<string, unknown> = {
      time: new Date(record.timestamp).toISOString(),
      level: record.level,
      message: this.#clean(messageOf(record)),
    };
    for (const [key, value] of fieldsOf(record)) {
      // `time`, `level` and `message` belong to the line.
      line[key in line ? `${key}_` : key] = typeof value === "string" ? this.#clean(value) : value;
    }
    return escapeControls(JSON.stringify(line));
  }

  #textLine(record: LogRecord): string {
    let line = `${clockTime(record.timestamp)} ${record.level.padEnd(7)} ${
      escapeControls(this.#clean(messageOf(record)))
    }`;
    for (const [key, value] of fieldsOf(record)) {
      line += ` ${key}=${typeof value === "string" ? quoteIfNeeded(this.#clean(value)) : value}`;
    }
    return line;
  }

  #clean(text: string): string {
    const masked = this.#mask(text);
    return masked.length > MAX_VALUE_CHARS ? `${masked.slice(0, MAX_VALUE_CHARS)}…` : masked;
  }
}

function messageOf(record: LogRecord): string {
  return typeof record.rawMessage === "string" ? record.rawMessage : record.rawMessage.join("");
}

function fieldsOf(record: LogRecord): [string, unknown][] {
  return Object.entries(record.properties).filter(([key, value]) =>
    key !== OUTPUT && value !== undefined
  );
}

/** `HH:MM:SS` in the time zone of the machine. */
function clockTime(timestamp: number): string {
  const date = new Date(timestamp);
  return [date.getHours(), date.getMinutes(), date.getSeconds()]
    .map((part) => String(part).padStart(2, "0")).join(":");
}

/** Plain words stand as they are; anything else in quotes, with escapes. */
function quoteIfNeeded(text: string): string {
  return /^[!#-<>-[\]-~]+$/.test(text) ? text : escapeControls(JSON.stringify(text));
}

const encoder = new TextEncoder();

function writeToStderr(line: string): void {
  let rest = encoder.encode(`${line}\n`);
  while (rest.length > 0) rest = rest.subarray(Deno.stderr.writeSync(rest));
}
