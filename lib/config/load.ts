/**
 * Reads all settings once and checks them as a whole.
 * @module
 */
import { ConfigError, errorText } from "../errors.ts";
import { natsAddress, withoutUserPart } from "./addresses.ts";
import { mistakesTogether } from "./checks.ts";
import type { Draft } from "./draft.ts";
import { parseEnvFile } from "./env_file.ts";
import { RefusedError } from "./kinds.ts";
import { IGNORED, nearestTyped, nearMiss, NOT_SERVED, NOT_SERVED_FLAGS } from "./names.ts";
import {
  type Config,
  Derived,
  flagOf,
  flagsOf,
  type Role,
  type Setting,
  SETTING_KEYS,
  type SettingKey,
  settingOf,
} from "./settings.ts";

/** Where a value came from; a command that names the role counts as a flag. */
export type Source = "flag" | "environment" | "env-file" | "default" | "derived";

export interface LoadInput {
  /** By flag name without dashes, known or not; several values of one flag in order. */
  readonly flags: Readonly<Record<string, string | readonly string[]>>;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly envFile?: { readonly path: string; readonly text: string };
  /** Whether standard error, where the log goes, is a terminal. */
  readonly isTerminal: boolean;
  /** Reads a file as UTF-8; what it throws becomes a mistake. */
  readonly readFile: (path: string) => string;
  /** The role that the command names; `both` for commands that run both sides. */
  readonly command?: Role | "both";
  /** Mistakes that were found before, to be reported with the others. */
  readonly mistakes?: readonly string[];
}

export interface Loaded {
  readonly config: Config;
  readonly sources: Readonly<Record<SettingKey, Source>>;
  /** One line each; they hold no secret. */
  readonly warnings: readonly string[];
}

/** Settings are wrong; the warnings that came up with the mistakes go along. */
export class SettingsError extends ConfigError {
  constructor(lines: readonly string[], readonly warnings: readonly string[]) {
    super(lines);
  }
}

/**
 * Takes each setting from its flag, the environment, the env file or its default, in this order.
 * Empty text is as good as unset.
 * @throws {SettingsError} at least one mistake: all of them, one line each.
 */
export function loadConfig(input: LoadInput): Loaded {
  return new Loader(input).load();
}

/** A text for a setting with where it stands. */
interface Given {
  readonly source: Exclude<Source, "default" | "derived">;
  /** As messages name it: `PORT` or `--port (PORT)`. */
  readonly name: string;
  readonly text: string;
}

class Loader {
  readonly #input: LoadInput;
  readonly #mistakes: string[];
  readonly #warnings: string[] = [];
  readonly #fileValues: ReadonlyMap<string, string>;
  readonly #draft: Draft = {};
  readonly #sources = {} as Record<SettingKey, Source>;

  constructor(input: LoadInput) {
    this.#input = input;
    this.#mistakes = [...(input.mistakes ?? [])];
    const file = input.envFile && parseEnvFile(input.envFile.path, input.envFile.text);
    this.#fileValues = file?.values ?? new Map();
    this.#mistakes.push(...(file?.mistakes ?? []));
  }

  load(): Loaded {
    this.#checkFlags();
    for (const key of SETTING_KEYS) this.#read(key, settingOf(key));
    this.#resolveRole();
    this.#derive();
    const isGiven = (key: SettingKey) => this.#isGiven(key);
    this.#mistakes.push(
      ...mistakesTogether(this.#draft, isGiven, this.#input.command === "both"),
    );
    this.#checkFiles();
    this.#warnAboutNames();
    this.#warnAboutUse();
    if (this.#mistakes.length > 0) throw new SettingsError(this.#mistakes, this.#warnings);
    return {
      config: Object.freeze(this.#draft as Config),
      sources: Object.freeze(this.#sources),
      warnings: this.#warnings,
    };
  }

  #checkFlags(): void {
    const known = new Set(
      SETTING_KEYS.flatMap((key) => {
        const row = settingOf(key);
        return row.fileTwin ? [...flagsOf(row), flagOf(`${row.env}_FILE`)] : flagsOf(row);
      }),
    );
    const later = new Map([
      ...NOT_SERVED.map((env) => [flagOf(env), env] as const),
      ...Object.entries(NOT_SERVED_FLAGS),
    ]);
    for (const flag of Object.keys(this.#input.flags)) {
      if (known.has(flag)) continue;
      const env = later.get(flag);
      const near = nearestTyped(flag, [...known, "env-file", "help", "version"]);
      if (env !== undefined) {
        this.#mistakes.push(`--${flag}: ${env} is not served by this version`);
      } else {
        const hint = near === null ? "natsway --help lists all flags" : `the nearest is --${near}`;
        // One dash only: there are no short flags but those of help and version.
        const shown = flag.startsWith("-") ? flag : `--${flag}`;
        this.#mistakes.push(`${shown}: unknown flag; ${hint}`);
      }
    }
  }

  /** The first place that has a text for `env`; what several of its flags say adds up. */
  #find(env: string, flags: readonly string[] = [flagOf(env)]): Given | null {
    const flagText = flags.flatMap((flag) => this.#input.flags[flag] ?? []).filter(Boolean).join(
      ",",
    );
    if (flagText) return { source: "flag", name: `--${flags[0]} (${env})`, text: flagText };
    const envText = this.#input.env[env];
    if (envText) return { source: "environment", name: env, text: envText };
    const fileText = this.#fileValues.get(env);
    return fileText ? { source: "env-file", name: env, text: fileText } : null;
  }

  #read(key: SettingKey, setting: Setting<unknown>): void {
    const given = setting.fileTwin
      ? this.#findSecret(setting)
      : this.#find(setting.env, flagsOf(setting));
    if (given === null) {
      this.#sources[key] = "default";
      if (!(setting.default instanceof Derived)) this.#put(key, setting.default);
      return;
    }
    this.#sources[key] = given.source;
    try {
      this.#put(key, setting.kind.parse(given.text));
    } catch (error) {
      if (!(error instanceof RefusedError)) throw error;
      const reason = error.message === "" ? "" : `${error.message}; `;
      const shown = setting.secret ? "(value not shown)" : quote(
        setting.kind.mayHoldUserPart ? withoutUserPart(given.text) : given.text,
      );
      this.#mistakes.push(`${given.name} ${shown}: ${reason}accepted: ${setting.kind.accepted}`);
    }
  }

  /** A secret, given as such or by the name of a file that holds it. */
  #findSecret({ env }: Setting<unknown>): Given | null {
    const direct = this.#find(env);
    const file = this.#find(`${env}_FILE`);
    if (file === null) return direct;
    if (direct !== null) {
      this.#mistakes.push(`${direct.name} and ${file.name} are both set: accepted: one of them`);
      return null;
    }
    const text = this.#readFile(file)?.replace(/\r?\n$/, "");
    if (text === "") this.#mistakes.push(`${file.name} ${quote(file.text)}: the file is empty`);
    return text ? { ...file, text } : null;
  }

  #readFile({ name, text: path }: { name: string; text: string }): string | null {
    try {
      return this.#input.readFile(path);
    } catch (error) {
      const reason = errorText(error).split("\n", 1)[0];
      this.#mistakes.push(`${name} ${quote(path)}: cannot be read (${reason})`);
      return null;
    }
  }

  /** The one place where a value meets its key without the compiler's help: both are of one row. */
  #put(key: SettingKey, value: unknown): void {
    (this.#draft as Record<SettingKey, unknown>)[key] = value;
  }

  #isGiven(key: SettingKey): boolean {
    return this.#sources[key] !== "default" && this.#sources[key] !== "derived";
  }

  #resolveRole(): void {
    const { command } = this.#input;
    const stated = this.#draft.serviceRole;
    if (command === "requester" || command === "receiver") {
      if (stated !== undefined && stated !== command) {
        const text = `SERVICE_ROLE ${quote(stated)} contradicts the command ${command}`;
        if (this.#sources.serviceRole === "flag") this.#mistakes.push(text);
        else this.#warnings.push(`${text}; the command decides`);
      }
      this.#draft.serviceRole = command;
      this.#sources.serviceRole = "flag";
    } else if (!this.#isGiven("serviceRole")) {
      this.#draft.serviceRole = this.#isGiven("upstreamUrl") ? "receiver" : "requester";
      this.#sources.serviceRole = "derived";
    }
  }

  /** Fills in the defaults that depend on something. */
  #derive(): void {
    const draft = this.#draft;
    const missing = (key: SettingKey) => !this.#isGiven(key);
    if (missing("serviceId")) draft.serviceId = randomServiceId();
    if (missing("logFormat")) draft.logFormat = this.#input.isTerminal ? "text" : "json";
    if (missing("natsQueueGroup")) {
      draft.natsQueueGroup = draft.natsConsumerName ?? "";
      this.#sources.natsQueueGroup = "derived";
    }
    if (missing("listenSubject")) {
      draft.listenSubject = `${draft.requestRoot}.requests.>`;
      this.#sources.listenSubject = "derived";
    }
    this.#deriveEmbedded(missing);
  }

  #deriveEmbedded(missing: (key: SettingKey) => boolean): void {
    const draft = this.#draft;
    for (const key of ["GeneratedConfigPath", "JetstreamStoreDir"] as const) {
      if (missing(`embeddedNats${key}`)) draft[`embeddedNats${key}`] = null;
    }
    if (missing("embeddedNatsJetstreamEnabled")) {
      draft.embeddedNatsJetstreamEnabled = draft.serviceRole === "receiver";
      this.#sources.embeddedNatsJetstreamEnabled = "derived";
    }
    const enabled = draft.embeddedNatsEnabled === true;
    if (missing("natsJsApiPrefix")) {
      const domain = enabled ? draft.embeddedNatsJsDomain : null;
      draft.natsJsApiPrefix = domain ? `$JS.${domain}.API` : "$JS.API";
      this.#sources.natsJsApiPrefix = "derived";
    }
    const listen = draft.embeddedNatsListen;
    if (missing("natsUrls") && enabled && listen !== undefined) {
      const address = natsAddress(reachable(listen.hostname), listen.port);
      draft.natsUrls = Object.freeze([Object.freeze({ ...address, embedded: true as const })]);
      this.#sources.natsUrls = "derived";
    }
  }

  /** Files that the transport or nats-server will read: a missing one is better told now. */
  #checkFiles(): void {
    const { command } = this.#input;
    const embedded = this.#draft.embeddedNatsEnabled === true && command !== "both";
    const keys: ("natsTlsCa" | "natsTlsCert" | "natsTlsKey" | "embeddedNatsConfig")[] = [
      "natsTlsCa",
      "natsTlsCert",
      "natsTlsKey",
      ...(embedded ? ["embeddedNatsConfig" as const] : []),
    ];
    for (const key of keys) {
      const text = this.#draft[key];
      if (text) this.#readFile({ name: settingOf(key).env, text });
    }
  }

  #warnAboutNames(): void {
    const { env } = this.#input;
    const names = new Set([
      ...Object.keys(env).filter((name) => env[name]),
      ...[...this.#fileValues].filter(([, value]) => value).map(([name]) => name),
    ]);
    for (const name of NOT_SERVED) {
      if (names.has(name)) this.#warnings.push(`${name} is not served by this version`);
    }
    for (const name of names) {
      const near = IGNORED.has(name) ? null : nearMiss(name);
      // Both set is no slip of the pen: the other one is meant for something else.
      if (near !== null && !names.has(near)) {
        this.#warnings.push(`${name} is not a setting; the nearest is ${near}`);
      }
    }
  }

  #warnAboutUse(): void {
    const { natsUrls = [], responseTimeoutMs, serviceRole } = this.#draft;
    const { command } = this.#input;
    for (const key of SETTING_KEYS) {
      const { env, role, secret } = settingOf(key);
      if (!this.#isGiven(key)) continue;
      const elsewhere = role !== "both" && role !== serviceRole && serviceRole !== undefined;
      if (elsewhere && command !== "both") {
        this.#warnings.push(`${env} has no effect on a ${serviceRole}; it is for a ${role}`);
      }
      const inUrl = key === "natsUrls" && natsUrls.some((url) => url.user ?? url.token);
      if (this.#sources[key] === "flag" && (inUrl || this.#isOnCommandLine(env, secret))) {
        this.#warnings.push(
          `--${flagOf(env)} shows a secret in the process list; the environment does not`,
        );
      }
    }
    if (serviceRole === "receiver" && command !== "both" && !this.#isGiven("upstreamUrl")) {
      this.#warnings.push("UPSTREAM_URL is not set: this receiver has nowhere to send requests to");
    }
    if (responseTimeoutMs === 0) {
      this.#warnings.push("NATS_RESPONSE_TIMEOUT 0 makes every request time out at once");
    }
  }

  #isOnCommandLine(env: string, secret: boolean): boolean {
    return secret && this.#input.flags[flagOf(env)] !== undefined;
  }
}

/** A value for a message: escaped, and no longer than a line can bear. */
function quote(text: string): string {
  return JSON.stringify(text.length > 100 ? `${text.slice(0, 100)}…` : text);
}

/** `srv-` and 8 random hex digits. */
function randomServiceId(): string {
  return `srv-${crypto.getRandomValues(new Uint8Array(4)).toHex()}`;
}

/** Where a listener on `hostname` can be reached on this machine. */
function reachable(hostname: string): string {
  return hostname === "0.0.0.0" ? "127.0.0.1" : hostname === "::" ? "::1" : hostname;
}

/**
 * What must never be written anywhere: passwords, tokens, seeds and the lines of a credentials file.
 * User names are not in it; no message carries one, and masking a short one would spoil the log.
 */
export function secretValues(config: Config): string[] {
  const { natsUrls, natsPassword, natsToken, natsNkeySeed, natsCreds, observabilityToken } = config;
  const { embeddedNatsLeafPassword, leafRemotePassword, leafRemoteNkey } = config;
  const leaf = [embeddedNatsLeafPassword, leafRemotePassword, leafRemoteNkey];
  const plain = [natsPassword, natsToken, natsNkeySeed, observabilityToken, ...leaf];
  // As the URL of the leaf's remote has it.
  if (leafRemotePassword !== null) plain.push(encodeURIComponent(leafRemotePassword));
  const inUrls = natsUrls.flatMap((url) => [url.password, url.token]);
  const lines = (natsCreds ?? "").split(/\s+/).filter((word) => /^[\w.=-]{20,}$/.test(word));
  return [...plain, ...inUrls, ...lines].filter((text): text is string => !!text);
}
