/**
 * The examples of `deploy/`, read from the README of each: its shell blocks are the commands that a
 * test starts, so that the document and the test cannot part.
 * @module
 */
import assert from "node:assert/strict";
import { fileURLToPath } from "node:url";
import type { Settings } from "../helpers/natsway.ts";

/** One block of a README as the shell understands it. */
export interface Command {
  /** From the comment in its first line. */
  readonly name: string;
  readonly program: "natsway" | "nats-server" | "nats";
  readonly args: readonly string[];
  /** What stands before the program. */
  readonly settings: Settings;
}

/** A copy of an example, on ports of its own. */
export interface Example extends AsyncDisposable {
  /** Holds the copy; a path in the example that begins with `./` is in here. */
  readonly folder: string;
  /** The commands of a section, in order. */
  commands(section: string): Promise<Command[]>;
}

const DEPLOY = fileURLToPath(new URL("../../deploy/", import.meta.url));
/** A number of four or five digits in an example is a port. */
const PORT = /(?<![\d.])\d{4,5}(?![\d.])/g;
/** Below the ports that the kernel hands out by itself, so that no client takes one meanwhile. */
const FIRST_PORT = 20_000;
const PORT_COUNT = 12_000;
/** Set by the shell itself. */
const SHELL_NAMES = new Set(["PATH", "PWD", "OLDPWD", "SHLVL", "_"]);
/** Stands for each program: tells its name, how many arguments, these, and the environment. */
const TELLER = `#!/bin/sh
printf '%s\\0' "\${0##*/}" "$#" "$@"
exec env -0
`;

/** The text of a file in the folder of an example. */
export function readDeploy(path: string): string {
  return Deno.readTextFileSync(`${DEPLOY}${path}`);
}

/**
 * Copies an example into a folder that is gone after the test.
 * @param given ports that stand for those of the example; each other one becomes a free one
 */
export async function openExample(
  name: string,
  given: ReadonlyMap<number, number>,
): Promise<Example> {
  const folder = await Deno.makeTempDir({ prefix: "natsway-topology-" });
  const ports = new Map(given);
  const substituted = (text: string) =>
    text.replace(PORT, (digits) => {
      const port = Number(digits);
      if (!ports.has(port)) ports.set(port, unusedPort([...ports.values()]));
      return String(ports.get(port));
    });
  for await (const { name: file } of Deno.readDir(`${DEPLOY}${name}`)) {
    const text = readDeploy(`${name}/${file}`);
    await Deno.writeTextFile(`${folder}/${file}`, substituted(text));
  }
  await Deno.mkdir(`${folder}/bin`);
  for (const program of ["natsway", "nats-server", "nats"]) {
    await Deno.writeTextFile(`${folder}/bin/${program}`, TELLER, { mode: 0o700 });
  }
  const readme = await Deno.readTextFile(`${folder}/README.md`);
  return {
    folder,
    commands: (section) => Promise.all(blocksOf(readme, section).map((one) => told(folder, one))),
    [Symbol.asyncDispose]: () => Deno.remove(folder, { recursive: true }),
  };
}

/** The shell blocks below a heading of the second level. @throws {Error} there are none */
function blocksOf(readme: string, section: string): string[] {
  const text = readme.split(/^## /m).find((part) => part.startsWith(`${section}\n`)) ?? "";
  const blocks = [...text.matchAll(/^```sh\n([^]*?)^```$/gm)].map((match) => match[1] as string);
  assert.ok(blocks.length > 0, `no commands below "${section}"`);
  return blocks;
}

/** Lets the shell read a block, with programs that only tell how they were called. */
async function told(folder: string, block: string): Promise<Command> {
  const name = /^# (\S+)\n/.exec(block)?.[1];
  assert.ok(name !== undefined, `a block without a name in its first line:\n${block}`);
  const { success, stdout, stderr } = await new Deno.Command("sh", {
    args: ["-euc", block],
    cwd: folder,
    clearEnv: true,
    env: { PATH: `${folder}/bin:${Deno.env.get("PATH")}` },
    stdin: "null",
  }).output();
  assert.ok(success, new TextDecoder().decode(stderr));
  const [program, count, ...rest] = new TextDecoder().decode(stdout).split("\0");
  assert.match(program ?? "", /^(natsway|nats-server|nats)$/);
  const located = (value: string) => value.replace(/^\.\//, `${folder}/`);
  const args = rest.slice(0, Number(count)).map(located);
  const settings = rest.slice(Number(count), -1).flatMap((line) => {
    const [key, value] = [line.slice(0, line.indexOf("=")), line.slice(line.indexOf("=") + 1)];
    // A second command in the block would have told its name here.
    assert.match(key, /^\w+$/, `not one command:\n${block}`);
    return SHELL_NAMES.has(key) ? [] : [[key, located(value)] as const];
  });
  return {
    name,
    program: program as Command["program"],
    args,
    settings: Object.fromEntries(settings),
  };
}

/** A port that nobody listens on now and that is none of `taken`. */
function unusedPort(taken: readonly number[]): number {
  for (;;) {
    const port = FIRST_PORT + Math.floor(Math.random() * PORT_COUNT);
    if (taken.includes(port)) continue;
    try {
      Deno.listen({ hostname: "127.0.0.1", port }).close();
      return port;
    } catch { /* another one, then */ }
  }
}
