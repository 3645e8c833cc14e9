/**
 * The table of all settings. It feeds environment, flags, validation, help, `natsway settings` and
 * docs/configuration.md; `Config` is inferred from it. Names and defaults: configuration.md. The rows
 * stand in `table_*.ts`, by subject.
 * @module
 */
import type { Setting } from "./setting.ts";
import { EMBEDDED_SETTINGS } from "./table_embedded.ts";
import { HTTP_SETTINGS, INGRESS_SETTINGS, TARGET_SETTINGS } from "./table_http.ts";
import { LIMIT_SETTINGS } from "./table_limits.ts";
import { JETSTREAM_SETTINGS, NATS_SETTINGS } from "./table_nats.ts";
import { OBSERVATION_SETTINGS, SERVICE_SETTINGS } from "./table_service.ts";

export { Derived, flagOf, flagsOf, GROUPS, type Role, type Setting } from "./setting.ts";

/** All settings of this version by the key that `Config` has for them. */
export const SETTINGS = {
  ...SERVICE_SETTINGS,
  ...NATS_SETTINGS,
  ...JETSTREAM_SETTINGS,
  ...LIMIT_SETTINGS,
  ...HTTP_SETTINGS,
  ...INGRESS_SETTINGS,
  ...TARGET_SETTINGS,
  ...EMBEDDED_SETTINGS,
  ...OBSERVATION_SETTINGS,
};

type Table = typeof SETTINGS;
/** Key of a setting in `Config`. */
export type SettingKey = keyof Table;
/** All settings with their values: read once, checked as a whole, frozen. */
export type Config = {
  readonly [K in SettingKey]: Table[K] extends Setting<infer T> ? T : never;
};

/** The keys of the table, in its order. */
export const SETTING_KEYS = Object.keys(SETTINGS) as SettingKey[];

/** The row of a key, for code that treats all rows alike. */
export function settingOf(key: SettingKey): Setting<unknown> {
  return SETTINGS[key] as Setting<unknown>;
}
