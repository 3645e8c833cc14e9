/**
 * What one row of the settings table is.
 * @module
 */
import type { Kind } from "./kinds.ts";

/** The two sides of a bridge. */
export type Role = "requester" | "receiver";

/** A default that depends on other settings or on the machine; `load.ts` works it out. */
export class Derived {
  /** @param text the rule, for help and documentation */
  constructor(readonly text: string) {}
}

/** Headings under which settings stand in help and documentation, in this order. */
export const GROUPS = [
  "Role and listening",
  "Upstream",
  "NATS connection",
  "NATS subjects",
  "JetStream",
  "Timeouts",
  "Limits",
  "HTTP",
  "Proxy ingress",
  "Targets",
  "Embedded nats-server",
  "Observation",
] as const;

/** Everything about one setting. */
export interface Setting<T> {
  readonly env: string;
  readonly kind: Kind<NonNullable<T>>;
  readonly default: T | Derived;
  readonly group: (typeof GROUPS)[number];
  readonly role: Role | "both";
  /** What it does, in one or two sentences without a final stop. */
  readonly help: string;
  /** The value is never shown. */
  readonly secret: boolean;
  /** `<env>_FILE` names a file that holds the value. */
  readonly fileTwin: boolean;
  /** A second flag beside the plain form of the variable, without dashes; help puts it first. */
  readonly alsoFlag: string | null;
}

/** What a row says beyond name, kind and default. */
export interface About {
  group: (typeof GROUPS)[number];
  role?: Role;
  help: string;
  alsoFlag?: string;
}

const USUAL = { secret: false, fileTwin: false, role: "both", alsoFlag: null } as const;

/** A setting that always has a value. */
export function setting<T extends NonNullable<unknown>>(
  env: string,
  kind: Kind<T>,
  fallback: NoInfer<T> | Derived,
  about: About,
): Setting<T> {
  return { env, kind, default: fallback, ...USUAL, ...about };
}

/** A setting that may be unset; the value is null then. */
export function optional<T extends NonNullable<unknown>>(
  env: string,
  kind: Kind<T>,
  about: About & { secret?: boolean; fileTwin?: boolean },
): Setting<T | null> {
  return { env, kind, default: null, ...USUAL, ...about };
}

/** The flag of a variable, without the dashes: `NATS_URL` gives `nats-url`. */
export function flagOf(env: string): string {
  return env.toLowerCase().replaceAll("_", "-");
}

/** All flags of a row that take its value, without dashes; the one to write comes first. */
export function flagsOf({ env, alsoFlag }: Setting<unknown>): string[] {
  return alsoFlag === null ? [flagOf(env)] : [alsoFlag, flagOf(env)];
}
