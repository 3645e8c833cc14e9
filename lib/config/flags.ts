/**
 * From arguments to flags: what commander cannot tell, since it stops at the first mistake.
 * @module
 */
import { nearestTyped } from "./names.ts";
import { flagOf, type Setting, SETTING_KEYS, settingOf } from "./settings.ts";

/** Name of the one flag that is no setting but takes a value. */
export const ENV_FILE_FLAG = "env-file";

/** A flag that takes a value: of a setting, of a file with a secret, or `env-file` (row is null). */
export interface ValueFlag {
  readonly flag: string;
  /** Another name of it, without dashes. */
  readonly also: string | null;
  readonly row: Setting<unknown> | null;
}

/** All flags that take a value, in the order of the table. */
export const VALUE_FLAGS: readonly ValueFlag[] = [
  { flag: ENV_FILE_FLAG, also: null, row: null },
  ...SETTING_KEYS.map(settingOf).flatMap((row) => {
    const own = { flag: flagOf(row.env), also: row.alsoFlag, row };
    const twin = { flag: flagOf(`${row.env}_FILE`), also: null, row: null };
    return row.fileTwin ? [own, twin] : [own];
  }),
];

const BY_FLAG: ReadonlyMap<string, ValueFlag> = new Map(
  VALUE_FLAGS.flatMap((it) =>
    [it.flag, it.also].flatMap((name) => name === null ? [] : [[`--${name}`, it] as const])
  ),
);
const SWITCH_WORDS: ReadonlySet<string> = new Set([
  "true",
  "false",
  "on",
  "off",
  "yes",
  "no",
  "1",
  "0",
]);

/**
 * Writes each `--flag value` as `--flag=value`, and a switch that stands alone with the value that
 * it means, so that no word can be taken for something else. A flag whose value is missing becomes
 * a mistake.
 */
export function joinFlagValues(
  argv: readonly string[],
): { readonly argv: string[]; readonly mistakes: string[] } {
  const joined: string[] = [];
  const mistakes: string[] = [];
  for (let i = 0; i < argv.length; i++) {
    const arg = argv[i] ?? "";
    if (arg === "--") {
      const after = argv[i + 1];
      if (after !== undefined) mistakes.push(`${quote(after)}: no arguments are accepted after --`);
      return { argv: joined, mistakes };
    }
    const known = BY_FLAG.get(arg);
    const next = argv[i + 1];
    const alone = known?.row?.kind.alone;
    if (known === undefined) {
      joined.push(arg);
    } else if (alone !== undefined && !SWITCH_WORDS.has(next?.toLowerCase() ?? "")) {
      joined.push(`${arg}=${alone}`);
    } else if (next === undefined || next === "--" || BY_FLAG.has(next.replace(/=.*$/s, ""))) {
      const accepted = known.row?.kind.accepted ?? "the path of a file";
      mistakes.push(`${arg} has no value: accepted: ${accepted}`);
    } else {
      joined.push(`${arg}=${next}`);
      i++;
    }
  }
  return { argv: joined, mistakes };
}

/** What commander did not know. */
export interface Leftover {
  /** Words that belong to nothing. */
  readonly operands: readonly string[];
  /** Unknown flags without their two dashes; values are dropped, since one may be a secret. */
  readonly unknownFlags: Readonly<Record<string, string>>;
}

/** Sorts the arguments that are left; words after an unknown flag are taken for its value. */
export function leftover(args: readonly string[]): Leftover {
  const operands: string[] = [];
  const unknownFlags: Record<string, string> = {};
  let afterFlag = false;
  for (const arg of args) {
    if (/^-./s.test(arg)) {
      unknownFlags[arg.replace(/^--/, "").replace(/=.*$/s, "")] = "";
      afterFlag = true;
    } else if (!afterFlag) {
      operands.push(arg);
    }
  }
  return { operands, unknownFlags };
}

/** One line for the words that belong to nothing; the first may be meant as a command. */
export function operandMistakes(
  command: string | null,
  operands: readonly string[],
  commands: readonly string[],
): string[] {
  const first = operands[0];
  if (first === undefined) return [];
  if (command !== null) return [`${quote(first)}: unexpected argument of natsway ${command}`];
  const near = nearestTyped(first, commands);
  const hint = near === null ? "" : `; the nearest is ${near}`;
  return [`${quote(first)}: unknown command${hint}; accepted: ${commands.join(", ")}`];
}

function quote(text: string): string {
  return JSON.stringify(text.length > 40 ? `${text.slice(0, 40)}…` : text);
}
