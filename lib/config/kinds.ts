/**
 * Kinds of values that a setting can have: how its text is read, what is accepted, how it is shown.
 * @module
 */
import { NatswayError } from "../errors.ts";

/** A value as `natsway settings` shows it. Never holds a secret. */
export type Shown = string | number | boolean | null | readonly string[];

/** How one kind of value is read from text and shown again. */
export interface Kind<T> {
  /** Stands for the value in the help, as in `--port <number>`. */
  readonly placeholder: string;
  /** Completes "accepted: …" in messages and documentation. */
  readonly accepted: string;
  /** Unit of the text, where it has one. */
  readonly unit?: "s" | "bytes";
  /** What 0 means, where it has a meaning of its own. */
  readonly zero?: string;
  /** What a flag without a value means; only switches may stand alone. */
  readonly alone?: string;
  /** The flag may be given several times; the values are joined with a comma. */
  readonly repeatable?: boolean;
  /** The text may hold a user part (`user:password@`), which no message may show. */
  readonly mayHoldUserPart?: boolean;
  /**
   * Reads a value from text that is not empty.
   * @throws {RefusedError} the text is not accepted.
   */
  parse(text: string): T;
  show(value: T): Shown;
}

/** A text is not accepted. The message says why only where `Kind.accepted` does not tell enough. */
export class RefusedError extends NatswayError {
  override readonly name = "RefusedError";
}

/** Longest wait that a timer can hold, in seconds (2^31 - 1 ms). */
const MAX_SECONDS = 2_147_483;

/** A whole number from `min` to `max`. */
export function wholeNumber(
  options: { min: number; max: number; unit?: "bytes"; zero?: string },
): Kind<number> {
  const { min, max, unit, zero } = options;
  const range = max === Number.MAX_SAFE_INTEGER ? `of at least ${min}` : `from ${min} to ${max}`;
  return {
    placeholder: unit ?? "number",
    accepted: `a whole number ${range}${zero === undefined ? "" : ` (0: ${zero})`}`,
    ...(unit === undefined ? {} : { unit }),
    ...(zero === undefined ? {} : { zero }),
    parse(text) {
      const value = /^\d{1,16}$/.test(text) ? Number(text) : NaN;
      if (!(value >= min && value <= max)) throw new RefusedError("");
      return value;
    },
    show: (value) => value,
  };
}

/** A time in seconds, decimals allowed; the value is in ms. */
export function seconds(options: { zero?: string } = {}): Kind<number> {
  const { zero } = options;
  return {
    placeholder: "seconds",
    accepted: zero === undefined
      ? `seconds above 0, up to ${MAX_SECONDS}; decimals are allowed`
      : `seconds from 0 to ${MAX_SECONDS}; decimals are allowed (0: ${zero})`,
    unit: "s",
    ...(zero === undefined ? {} : { zero }),
    parse(text) {
      const value = /^(\d{1,7}(\.\d*)?|\.\d+)$/.test(text) ? Number(text) : NaN;
      if (!(value <= MAX_SECONDS) || (value === 0 && zero === undefined)) {
        throw new RefusedError("");
      }
      return value === 0 ? 0 : Math.max(1, Math.round(value * 1000));
    },
    show: (value) => value / 1000,
  };
}

/** One of some words; `later` names words that the contract has and this version has not. */
export function choice<const W extends string>(
  words: readonly W[],
  options: { anyCase?: boolean; later?: Readonly<Record<string, string>> } = {},
): Kind<W> {
  return {
    placeholder: words.join("|"),
    accepted: words.join(", "),
    parse(text) {
      const given = options.anyCase ? text.toLowerCase() : text;
      const word = words.find((word) => word === given);
      if (word !== undefined) return word;
      throw new RefusedError(options.later?.[given] ?? "");
    },
    show: (value) => value,
  };
}

/** Exactly two words; on the command line the flag alone means the first. */
export function onOff(on: string, off: string): Kind<boolean> {
  return {
    placeholder: `${on}|${off}`,
    accepted: `${on}, ${off}`,
    alone: on,
    parse(text) {
      if (text !== on && text !== off) throw new RefusedError("");
      return text === on;
    },
    show: (value) => (value ? on : off),
  };
}

/** On, but for the one text `false` (configuration.md section 4). */
export const onUnlessFalse: Kind<boolean> = {
  placeholder: "true|false",
  accepted: "only the exact text false turns it off",
  alone: "true",
  parse: (text) => text !== "false",
  show: (value) => value,
};

/** Off, but for the one text `true` (configuration.md section 4). */
export const onlyTrue: Kind<boolean> = {
  placeholder: "true|false",
  accepted: "only the exact text true turns it on",
  alone: "true",
  parse: (text) => text === "true",
  show: (value) => value,
};

const TRUTHY: ReadonlySet<string> = new Set(["1", "true", "TRUE", "yes", "YES", "on", "ON"]);

/** The words of the container's start script; everything else is false (section 5). */
export const truthyWord: Kind<boolean> = {
  placeholder: "true|false",
  accepted: `on with ${[...TRUTHY].join(", ")}; any other text is off`,
  alone: "true",
  parse: (text) => TRUTHY.has(text),
  show: (value) => value,
};

/** A text that must match `pattern`; any text when there is none. */
export function matching(placeholder: string, accepted: string, pattern?: RegExp): Kind<string> {
  return {
    placeholder,
    accepted,
    parse(text) {
      if (pattern !== undefined && !pattern.test(text)) throw new RefusedError("");
      return text;
    },
    show: (value) => value,
  };
}

/** Path of a file that must be readable; the text of the file is read where it is used. */
export const filePath: Kind<string> = matching("file", "the path of a file", /^[^\0]+$/);

/** Dot-separated tokens without wildcards. */
export const subjectRoot: Kind<string> = matching(
  "subject",
  "dot-separated tokens without white space and wildcards",
  // deno-lint-ignore no-control-regex -- control characters are what must be refused
  /^[^\s\x00-\x1f\x7f.*>]+(\.[^\s\x00-\x1f\x7f.*>]+)*$/,
);

/** A subject to subscribe to: `*` stands for one token, `>` at the end for one or more. */
export const subjectFilter: Kind<string> = matching(
  "subject",
  "dot-separated tokens; * as a whole token and > as the last one are wildcards",
  // deno-lint-ignore no-control-regex -- control characters are what must be refused
  /^(([^\s\x00-\x1f\x7f.*>]+|\*)\.)*([^\s\x00-\x1f\x7f.*>]+|\*|>)$/,
);

/** A name that NATS takes as one token of a subject or as the name of a consumer. */
export const natsName: Kind<string> = matching(
  "name",
  "a name without white space and without . * > / \\",
  // deno-lint-ignore no-control-regex -- control characters are what must be refused
  /^[^\s\x00-\x1f\x7f.*>/\\]+$/,
);

/** The id of this process; it is a token of subjects (wire-protocol.md section 1). */
export const serviceIdKind: Kind<string> = matching(
  "id",
  "1 to 64 characters of A-Z a-z 0-9 _ -, and not _pool",
  /^(?!_pool$)[A-Za-z0-9_-]{1,64}$/,
);

/** One item of a list for a message: escaped, and no longer than a line can bear. */
export function quoteItem(text: string): string {
  return JSON.stringify(text.length > 60 ? `${text.slice(0, 60)}…` : text);
}
