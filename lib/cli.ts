/**
 * The command line: commands, flags, help, and which exit code an outcome has.
 * @module
 */
import { CommanderError } from "commander";
import { effectiveSettings, effectiveSettingsText } from "./config/describe.ts";
import { ENV_FILE_FLAG, joinFlagValues, leftover, operandMistakes } from "./config/flags.ts";
import {
  loadConfig,
  type Loaded,
  type LoadInput,
  secretValues,
  SettingsError,
} from "./config/load.ts";
import { type CommandName, commandNames, createProgram, givenFlags } from "./config/program.ts";
import type { Config, Role } from "./config/settings.ts";
import { readStdioTarget, stdioConfig, type StdioTarget } from "./config/stdio.ts";
import { ConfigError, errorText, ExitCode, FlowError, StartError } from "./errors.ts";
import type { Logger } from "./logger.ts";
import { createLogger } from "./observe/log.ts";
import { createMasker } from "./observe/mask.ts";

/** What the command line needs of the process around it. */
export interface CliIo {
  readonly env: Readonly<Record<string, string | undefined>>;
  stdout(text: string): void;
  stderr(text: string): void;
  /** Whether standard error is a terminal. */
  readonly isTerminal: boolean;
  readFile(path: string): string;
}

/** What the commands start; each resolves with the exit code. */
export interface Services {
  runService(config: Config, logger: Logger): Promise<number>;
  runStdio(target: StdioTarget, config: Config, logger: Logger): Promise<number>;
  runDemo(
    options: { readonly json: boolean; readonly selfTest: boolean },
    io: Pick<CliIo, "stdout" | "stderr" | "isTerminal">,
    config: Config,
    logger: Logger,
  ): Promise<number>;
}

/** The real ones, loaded when needed: `--help` and `settings` load no NATS client. */
const SERVICES: Services = {
  async runService(config, logger) {
    return await (await import("./run.ts")).runService(config, logger);
  },
  async runStdio(target, config, logger) {
    const { runStdio } = await import("./stdio.ts");
    const { openStdioSession } = await import("./service/stdio_session.ts");
    return await runStdio({ target, config, logger, connect: openStdioSession });
  },
  async runDemo(options, io, config, logger) {
    return await (await import("./demo/demo.ts")).runDemo(options, io, config, logger);
  },
};

/**
 * Runs one command and resolves with the exit code (configuration.md section 8). Never rejects, and
 * prints neither a stack trace nor a secret.
 * @param argv the arguments after the program's name
 */
export async function runCli(
  argv: readonly string[],
  io: CliIo,
  services: Services = SERVICES,
): Promise<number> {
  return await new Cli(io, services).run(argv);
}

class Cli {
  readonly #io: CliIo;
  readonly #services: Services;
  #mask = (text: string): string => text;

  constructor(io: CliIo, services: Services) {
    this.#io = io;
    this.#services = services;
  }

  async run(args: readonly string[]): Promise<number> {
    let code: number = ExitCode.Ok;
    const { argv, mistakes } = joinFlagValues(args);
    const program = createProgram(this.#io, async (name, own, rest) => {
      const { operands: words, unknownFlags } = leftover(rest);
      const flags = { ...unknownFlags, ...givenFlags(program) };
      const found: string[] = [];
      const target = name === "stdio" ? readStdioTarget(words[0], found) : null;
      const operands = name === "stdio" ? words.slice(1) : words;
      found.push(...operandMistakes(name, operands, commandNames(program)), ...mistakes);
      const load = (role?: Role | "both") => this.#load(flags, found, role);
      code = await this.#perform(name, own, target, load);
    });
    try {
      await program.parseAsync(argv, { from: "user" });
      return code;
    } catch (error) {
      return this.#report(error);
    }
  }

  async #perform(
    name: CommandName,
    own: Readonly<Record<string, unknown>>,
    target: StdioTarget | null,
    load: (role?: Role | "both") => Loaded,
  ): Promise<number> {
    const json = own["json"] === true;
    switch (name) {
      case "settings":
        return this.#printSettings(load(), json);
      case "stdio": {
        const loaded = load("requester");
        const { config, logger } = this.#start({ ...loaded, config: stdioConfig(loaded) });
        // Without a target the settings have not been loaded.
        return await this.#services.runStdio(target!, config, logger);
      }
      case "demo": {
        const { config, logger } = this.#start(load("both"));
        const options = { json, selfTest: own["selfTest"] === true };
        return await this.#services.runDemo(options, this.#io, config, logger);
      }
      default: {
        const { config, logger } = this.#start(load(name ?? undefined));
        return await this.#services.runService(config, logger);
      }
    }
  }

  #load(flags: LoadInput["flags"], found: readonly string[], command?: Role | "both"): Loaded {
    const { env, isTerminal } = this.#io;
    const mistakes = [...found];
    const readFile = (path: string) => this.#io.readFile(path);
    const { [ENV_FILE_FLAG]: path, ...settings } = flags;
    const envFile = typeof path === "string" ? this.#readEnvFile(path, mistakes) : null;
    return loadConfig({
      flags: settings,
      env,
      isTerminal,
      readFile,
      mistakes,
      ...(envFile === null ? {} : { envFile }),
      ...(command === undefined ? {} : { command }),
    });
  }

  #readEnvFile(path: string, mistakes: string[]): { path: string; text: string } | null {
    if (path === "") return null;
    try {
      return { path, text: this.#io.readFile(path) };
    } catch (error) {
      const reason = errorText(error).split("\n", 1)[0];
      mistakes.push(`--${ENV_FILE_FLAG} ${JSON.stringify(path)}: cannot be read (${reason})`);
      return null;
    }
  }

  #start({ config, warnings }: Loaded): { config: Config; logger: Logger } {
    const secrets = secretValues(config);
    this.#mask = createMasker(secrets);
    const logger = createLogger({
      level: config.logLevel,
      format: config.logFormat,
      secrets,
      write: (line) => this.#io.stderr(`${line}\n`),
    });
    for (const warning of warnings) logger.warn(warning);
    return { config, logger };
  }

  #printSettings(loaded: Loaded, json: boolean): number {
    for (const warning of loaded.warnings) this.#io.stderr(`warning: ${warning}\n`);
    const text = json
      ? `${
        JSON.stringify({ settings: effectiveSettings(loaded), warnings: loaded.warnings }, null, 2)
      }\n`
      : effectiveSettingsText(loaded);
    this.#io.stdout(text);
    return ExitCode.Ok;
  }

  #report(error: unknown): number {
    if (error instanceof CommanderError) {
      // Help and version end this way too. Commander has printed what there is to say.
      return error.exitCode === 0 ? ExitCode.Ok : ExitCode.Usage;
    }
    if (error instanceof ConfigError) {
      for (const line of error.lines) this.#io.stderr(`${line}\n`);
      const warnings = error instanceof SettingsError ? error.warnings : [];
      for (const warning of warnings) this.#io.stderr(`warning: ${warning}\n`);
      return ExitCode.Usage;
    }
    const message = this.#mask(errorText(error)).replace(/\s*\n\s*/g, "; ");
    const code = error instanceof FlowError ? ` (${error.code})` : "";
    this.#io.stderr(`natsway: ${message}${code}\n`);
    return error instanceof StartError ? ExitCode.CannotStart : ExitCode.Failure;
  }
}
