/**
 * The table in words: for `--help`, `natsway settings` and docs/configuration.md.
 * @module
 */
import type { Shown } from "./kinds.ts";
import type { Loaded, Source } from "./load.ts";
import { Derived, flagsOf, type Role, type Setting, SETTING_KEYS, settingOf } from "./settings.ts";

/** What each exit code means (configuration.md section 8). */
export const EXIT_CODES: readonly (readonly [number, string])[] = [
  [0, "orderly stop"],
  [1, "failure while serving"],
  [2, "wrong settings or usage"],
  [3, "cannot start: port taken, store unusable, embedded nats-server dead"],
];

/** All rows, or those that matter to one role. */
export function rows(role: Role | "both" = "both"): readonly Setting<unknown>[] {
  return SETTING_KEYS.map(settingOf).filter((row) =>
    role === "both" || row.role === "both" || row.role === role
  );
}

/** The default as a person would write it; `unset` when there is none. */
export function defaultText(row: Setting<unknown>): string {
  if (row.default instanceof Derived) return row.default.text;
  if (row.default === null || row.default === undefined) return "unset";
  const text = withUnit(row, row.kind.show(row.default));
  return row.default === 0 && row.kind.zero !== undefined ? `0: ${row.kind.zero}` : text;
}

function withUnit(row: Setting<unknown>, shown: Shown): string {
  const text = Array.isArray(shown) ? shown.join(",") : String(shown);
  if (text === "") return "unset";
  return row.kind.unit === "s" ? `${text} s` : text;
}

/** The setting in help: what it does, whose it is when not everybody's, and its default. */
export function helpText(row: Setting<unknown>): string {
  const role = row.role === "both" ? "" : ` (${row.role})`;
  return `${row.help}${role} [${defaultText(row)}]`;
}

/** One setting as `natsway settings` reports it. */
export interface EffectiveSetting {
  readonly setting: string;
  readonly flag: string;
  /** `set` or null for a secret; URLs have no user part. Times are in seconds, sizes in bytes. */
  readonly value: Shown;
  /** Whether a URL had a user part; only where there may be one. */
  readonly credentials?: "set" | "unset";
  readonly source: Source;
  readonly group: string;
}

/** All settings with their values and where each came from. Holds no secret. */
export function effectiveSettings({ config, sources }: Loaded): readonly EffectiveSetting[] {
  return SETTING_KEYS.map((key) => {
    const row = settingOf(key);
    const value = config[key];
    return {
      setting: row.env,
      flag: `--${flagsOf(row)[0]}`,
      value: value === null ? null : row.secret ? "set" : row.kind.show(value),
      ...(key !== "natsUrls" ? {} : {
        credentials: config.natsUrls.some((url) => url.user ?? url.token) ? "set" : "unset",
      }),
      source: sources[key],
      group: row.group,
    };
  });
}

/** `effectiveSettings` as lines for a terminal. */
export function effectiveSettingsText(loaded: Loaded): string {
  const settings = effectiveSettings(loaded);
  const byEnv = new Map(rows().map((row) => [row.env, row]));
  const texts = settings.map((entry) => {
    const row = byEnv.get(entry.setting);
    const text = entry.value === null || !row ? "unset" : withUnit(row, entry.value);
    return entry.credentials === "set" ? `${text} (credentials set)` : text;
  });
  const nameWidth = Math.max(...settings.map((entry) => entry.setting.length));
  const textWidth = Math.min(30, Math.max(...texts.map((text) => text.length)));
  const lines: string[] = [];
  let group = "";
  for (const [index, entry] of settings.entries()) {
    if (entry.group !== group) lines.push(...(group === "" ? [] : [""]), entry.group);
    group = entry.group;
    const text = (texts[index] ?? "").padEnd(textWidth);
    lines.push(`  ${entry.setting.padEnd(nameWidth)}  ${text}  ${entry.source}`);
  }
  return `${lines.join("\n")}\n`;
}
