/**
 * The logger that is passed to every part. `lib/` never prints; `observe/log.ts` makes the real one.
 * @module
 */

/** Fields keep one name everywhere: `request_id`, `kind`, `peer`, `code`, `status`, `sent_bytes`, … */
export type LogFields = Readonly<Record<string, string | number | boolean | null | undefined>>;

export type LogLevel = "debug" | "info" | "warning" | "error";

export interface Logger {
  debug(message: string, fields?: LogFields): void;
  info(message: string, fields?: LogFields): void;
  warn(message: string, fields?: LogFields): void;
  error(message: string, fields?: LogFields): void;
  /** Whether a line of that level would be written: ask before building costly fields. */
  enabled(level: LogLevel): boolean;
}
