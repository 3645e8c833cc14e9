import { deepStrictEqual, match, ok, strictEqual } from "node:assert/strict";
import { configurationMarkdown } from "../../lib/config/document.ts";
import type { ForwardRule } from "../../lib/config/forward_rules.ts";
import { loadConfig } from "../../lib/config/load.ts";
import {
  type Config,
  flagOf,
  flagsOf,
  GROUPS,
  SETTING_KEYS,
  settingOf,
} from "../../lib/config/settings.ts";
import type { TargetRule } from "../../lib/config/target_rules.ts";

/** Fails to compile when the inferred type of a setting is not this one. */
type Same<A, B> = (<T>() => T extends A ? 1 : 2) extends (<T>() => T extends B ? 1 : 2) ? true
  : false;
const TYPES: [
  Same<Config["serviceRole"], "requester" | "receiver">,
  Same<Config["port"], number>,
  Same<Config["natsPassword"], string | null>,
  Same<Config["natsMode"], "auto" | "core" | "jetstream">,
  Same<Config["via"], boolean>,
  Same<Config["forwards"], readonly ForwardRule[]>,
  Same<Config["targetAllow"], readonly TargetRule[]>,
  Same<Config["logLevel"], "debug" | "info" | "warning" | "error">,
] = [true, true, true, true, true, true, true, true];

Deno.test("types are inferred from the table", () => strictEqual(TYPES.length, 8));

Deno.test("each name is used once, and each group has settings", () => {
  const rows = SETTING_KEYS.map(settingOf);
  strictEqual(new Set(rows.map((row) => row.env)).size, rows.length);
  for (const group of GROUPS) ok(rows.some((row) => row.group === group), group);
  for (const row of rows) match(row.env, /^[A-Z][A-Z0-9_]*$/);
  for (const row of rows) match(row.help, /[^.]$/);
  strictEqual(flagOf("NATS_URL"), "nats-url");
  const flags = rows.flatMap(flagsOf);
  strictEqual(new Set(flags).size, flags.length);
});

Deno.test("settings of one group stand together", () => {
  const groups = SETTING_KEYS.map((key) => settingOf(key).group);
  deepStrictEqual(groups.filter((group, i) => group !== groups[i - 1]), [...GROUPS]);
});

Deno.test("a shown default is accepted as a value", () => {
  const { config } = loadConfig({
    flags: {},
    env: {},
    isTerminal: false,
    readFile: () => "",
  });
  for (const key of SETTING_KEYS) {
    const { kind } = settingOf(key);
    const value = config[key];
    if (value === null) continue;
    const shown = kind.show(value);
    // An empty list is what an unset setting gives.
    if (Array.isArray(shown) && shown.length === 0) continue;
    deepStrictEqual(kind.parse(Array.isArray(shown) ? shown.join(",") : String(shown)), value, key);
  }
});

Deno.test("docs/configuration.md is what the table says (deno run -A tools/generate_docs.ts)", async () => {
  const file = new URL("../../docs/configuration.md", import.meta.url);
  strictEqual(await Deno.readTextFile(file), configurationMarkdown());
});
