/**
 * Where files of the embedded nats-server live, and what its processes get of the environment.
 * @module
 */
import { NatswayError } from "../errors.ts";

/** Reads one environment variable; empty counts as unset. */
export type EnvReader = (name: string) => string | undefined;

/** The real environment. */
export function processEnv(name: string): string | undefined {
  return Deno.env.get(name) || undefined;
}

/**
 * Folder for programs that may be fetched again at any time: `$XDG_CACHE_HOME/natsway`, else
 * `~/.cache/natsway`; on Windows `%LOCALAPPDATA%\natsway`. It need not exist.
 * @throws {NatswayError} the environment names no home folder
 */
export function defaultCacheDir(env: EnvReader = processEnv, os: string = Deno.build.os): string {
  if (os === "windows") {
    const local = env("LOCALAPPDATA");
    if (local === undefined) throw new NatswayError("LOCALAPPDATA is not set: no cache folder");
    return `${local}\\natsway`;
  }
  const cache = env("XDG_CACHE_HOME");
  if (cache?.startsWith("/")) return `${cache}/natsway`;
  const home = env("HOME");
  if (home === undefined) {
    throw new NatswayError("neither XDG_CACHE_HOME nor HOME is set: no cache folder");
  }
  return `${home}/.cache/natsway`;
}

/** Files with one of `names` in the folders of a PATH, in its order; relative folders are left out. */
export async function filesOnPath(path: string, name: string): Promise<string[]> {
  const [separator, slash] = Deno.build.os === "windows" ? [";", "\\"] : [":", "/"];
  const found: string[] = [];
  for (const folder of path.split(separator)) {
    if (!/^(\/|[A-Za-z]:[\\/])/.test(folder)) continue;
    const file = `${folder.replace(/[\\/]+$/, "")}${slash}${name}`;
    const info = await Deno.stat(file).catch(() => null);
    if (info?.isFile && !found.includes(file)) found.push(file);
  }
  return found;
}

/** What nats-server may take from natsway's environment: settings of the Go runtime, no secrets. */
const HANDED_ON = ["GOGC", "GOMAXPROCS", "GOMEMLIMIT", "TZ", "TMPDIR", "SystemRoot", "TEMP"];

/** Environment of a nats-server process, and of the shell that watches it. */
export function serverEnvironment(env: EnvReader = processEnv): Record<string, string> {
  const result: Record<string, string> = { PATH: "/usr/bin:/bin" };
  for (const name of HANDED_ON) {
    const value = env(name);
    if (value !== undefined) result[name] = value;
  }
  return result;
}
