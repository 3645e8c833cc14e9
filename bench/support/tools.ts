/**
 * Finds the programs that a bench runs beside natsway, and says what the machine is.
 * @module
 */
import { fileURLToPath } from "node:url";
import { findNatsServer, type FoundServer } from "../../lib/embedded/find.ts";
import type { Logger } from "../../lib/logger.ts";

/** A program that can be run, or why there is none. */
export type Tool =
  | { readonly path: string; readonly version: string }
  | { readonly path: null; readonly missing: string };

const SILENT: Logger = { debug() {}, info() {}, warn() {}, error() {}, enabled: () => false };
const decoder = new TextDecoder();

/** Folders to look in: PATH, then what `unpack` of the peers' folder beside the repository adds. */
export class Toolbox {
  readonly #folders: string[];

  private constructor(folders: string[]) {
    this.#folders = folders;
  }

  static async open(): Promise<Toolbox> {
    const folders = (Deno.env.get("PATH") ?? "").split(":").filter((folder) => folder !== "");
    const unpack = fileURLToPath(new URL("../../../shared/peers/unpack", import.meta.url));
    if (await isFile(unpack)) {
      const { success, stdout, stderr } = await new Deno.Command("bash", {
        args: ["-c", `eval "$("$1")" && printf %s "$PATH"`, "bash", unpack],
      }).output();
      if (!success) throw new Error(`${unpack} failed: ${decoder.decode(stderr)}`);
      folders.push(...decoder.decode(stdout).split(":"));
    }
    // Debian puts nginx where only root looks.
    folders.push("/usr/sbin");
    return new Toolbox(folders);
  }

  /** @param versionArgs what makes it print its version: the first number in it is taken */
  async find(name: string, hint: string, versionArgs: readonly string[]): Promise<Tool> {
    for (const folder of this.#folders) {
      const path = `${folder}/${name}`;
      if (!await isFile(path)) continue;
      const { stdout, stderr } = await new Deno.Command(path, { args: [...versionArgs] }).output();
      const text = decoder.decode(stdout) + decoder.decode(stderr);
      return { path, version: /v?(\d+(?:\.\d+)+\S*)/.exec(text)?.[1] ?? firstLine(text) };
    }
    return { path: null, missing: `${name} is not on the PATH (${hint})` };
  }

  /**
   * The nats-server that natsway itself would run.
   * @throws {StartError} there is none
   */
  natsServer(signal: AbortSignal): Promise<FoundServer> {
    const path = this.#folders.join(":");
    return findNatsServer({ path, isTerminal: false, logger: SILENT, signal });
  }
}

/** What is said of the machine in each report. */
export async function machine(): Promise<Record<string, string>> {
  const cpuinfo = await Deno.readTextFile("/proc/cpuinfo");
  return {
    cpu: /^model name\s*:\s*(.+)$/m.exec(cpuinfo)?.[1] ?? Deno.build.arch,
    cores: String(navigator.hardwareConcurrency),
    kernel: `${Deno.build.os} ${Deno.osRelease()}`,
    load_before: Deno.loadavg().map((value) => value.toFixed(2)).join(" "),
    deno: Deno.version.deno,
  };
}

async function isFile(path: string): Promise<boolean> {
  try {
    return (await Deno.stat(path)).isFile;
  } catch {
    return false;
  }
}

function firstLine(text: string): string {
  return text.trim().split("\n")[0]!.trim() || "unknown";
}
