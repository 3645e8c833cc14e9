/**
 * The command line with services that only note that they were started.
 * @module
 */
import { runCli, type Services } from "../../lib/cli.ts";
import type { Config } from "../../lib/config/settings.ts";

/** What a run of the command line left. */
export interface Outcome {
  code: number;
  stdout: string;
  stderr: string;
  /** What was started, in order. */
  started: { what: "service" | "demo" | "stdio"; config: Config; options?: unknown }[];
}

export interface World {
  env?: Record<string, string>;
  files?: Record<string, string>;
  /** What a started service does instead of serving. */
  serve?: (config: Config) => Promise<number>;
}

/** Runs one command line. */
export async function cli(argv: readonly string[], world: World = {}): Promise<Outcome> {
  const outcome: Outcome = { code: -1, stdout: "", stderr: "", started: [] };
  const serve = world.serve ?? (() => Promise.resolve(0));
  const services: Services = {
    runService(config) {
      outcome.started.push({ what: "service", config });
      return serve(config);
    },
    runStdio(target, config) {
      outcome.started.push({ what: "stdio", config, options: target });
      return serve(config);
    },
    runDemo(options, _io, config) {
      outcome.started.push({ what: "demo", config, options });
      return serve(config);
    },
  };
  outcome.code = await runCli(argv, {
    env: world.env ?? {},
    stdout: (text) => void (outcome.stdout += text),
    stderr: (text) => void (outcome.stderr += text),
    isTerminal: false,
    readFile: (path) => {
      const text = world.files?.[path];
      if (text === undefined) throw new Error(`no such file: ${path}`);
      return text;
    },
  }, services);
  return outcome;
}

/** The lines of a text that are not empty. */
export function linesOf(text: string): string[] {
  return text.split("\n").filter(Boolean);
}
