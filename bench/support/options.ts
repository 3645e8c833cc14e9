/**
 * The options that all benches have.
 * @module
 */

export interface BenchOptions {
  readonly rounds: number;
  /** Length of one measurement. */
  readonly seconds: number;
  /** Names of candidates and of loads to keep; empty keeps all. */
  readonly only: readonly string[];
  readonly json: boolean;
  /** The compiled executable to measure, or null: `deno run` of the source. */
  readonly binary: string | null;
}

/** The arguments cannot be used; the message says what may stand there. */
export class UsageError extends Error {
  override readonly name = "UsageError";
}

/**
 * Reads the arguments of a bench.
 * @param names every name that `--only` may hold
 * @throws {UsageError} an unknown option, or a value that it cannot have
 */
export function readOptions(args: readonly string[], names: readonly string[]): BenchOptions {
  let rounds = 3;
  let seconds = 5;
  let only: string[] = [];
  let json = false;
  let binary: string | null = null;
  const rest = args.flatMap((arg) => /^--[a-z]+=/.test(arg) ? splitOnce(arg) : [arg]);
  for (let i = 0; i < rest.length; i++) {
    const option = rest[i]!;
    if (option === "--json") {
      json = true;
      continue;
    }
    if (!["--rounds", "--seconds", "--only", "--binary"].includes(option)) {
      throw new UsageError(
        `unknown option ${option}; known are --rounds N, --seconds S, --only a,b, --json and ` +
          "--binary PATH",
      );
    }
    const value = rest[++i];
    if (value === undefined || value === "") throw new UsageError(`${option} needs a value`);
    if (option === "--rounds") rounds = wholeNumber(option, value);
    else if (option === "--seconds") seconds = wholeNumber(option, value);
    else if (option === "--binary") binary = value;
    else only = value.split(",").filter((name) => name !== "");
  }
  for (const name of only) {
    if (!names.includes(name)) {
      throw new UsageError(`--only knows no ${name}; it knows ${names.join(", ")}`);
    }
  }
  return { rounds, seconds, only, json, binary };
}

/** Those of `all` that `only` names; all of them when it names none. */
export function chosen<T extends { readonly name: string }>(
  all: readonly T[],
  only: readonly string[],
): T[] {
  const named = all.filter(({ name }) => only.includes(name));
  return named.length > 0 ? named : [...all];
}

function splitOnce(arg: string): string[] {
  const at = arg.indexOf("=");
  return [arg.slice(0, at), arg.slice(at + 1)];
}

function wholeNumber(option: string, value: string): number {
  if (!/^[1-9]\d{0,4}$/.test(value)) {
    throw new UsageError(`${option} needs a whole number from 1 on, not ${value}`);
  }
  return Number(value);
}
