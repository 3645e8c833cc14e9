/**
 * Settings while they are being read.
 * @module
 */
import type { Config, SettingKey } from "./settings.ts";

/** What has been read so far: settings with a mistake are missing. */
export type Draft = { -readonly [K in SettingKey]?: Config[K] };

/** Whether a setting was given, and not left to its default. */
export type IsGiven = (key: SettingKey) => boolean;
