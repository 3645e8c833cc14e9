/**
 * Where files of the embedded nats-server live, and what its processes get of the environment.
 * @module
 */
import { errorText, NatswayError, StartError } from "../errors.ts";

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

/**
 * Folder for what must outlive a start: `$XDG_STATE_HOME/natsway`, else `~/.local/state/natsway`; on
 * Windows `%LOCALAPPDATA%\\natsway\\state`. It need not exist.
 * @throws {NatswayError} the environment names no home folder
 */
export function defaultStateDir(env: EnvReader = processEnv, os: string = Deno.build.os): string {
  if (os === "windows") {
    const local = env("LOCALAPPDATA");
    if (local === undefined) throw new NatswayError("LOCALAPPDATA is not set: no state folder");
    return `${local}\\natsway\\state`;
  }
  const state = env("XDG_STATE_HOME");
  if (state?.startsWith("/")) return `${state}/natsway`;
  const home = env("HOME");
  if (home === undefined) {
    throw new NatswayError("neither XDG_STATE_HOME nor HOME is set: no state folder");
  }
  return `${home}/.local/state/natsway`;
}

/** Where the image keeps its data. */
const DATA = "/data";

/**
 * Folder for the generated configuration and the store: `/data` where that can be written to, else the
 * state folder, which is made if need be.
 * @throws {StartError} there is neither
 */
export async function dataFolder(
  env: EnvReader = processEnv,
  data: string = DATA,
): Promise<string> {
  if (await canWrite(data)) return data;
  try {
    const folder = defaultStateDir(env);
    await Deno.mkdir(folder, { recursive: true, mode: 0o700 });
    return folder;
  } catch (error) {
    throw new StartError(
      `no folder for the embedded nats-server's configuration and store: ${
        errorText(error)
      }. Set ` +
        "EMBEDDED_NATS_GENERATED_CONFIG_PATH and EMBEDDED_NATS_JETSTREAM_STORE_DIR",
      { cause: error },
    );
  }
}

async function canWrite(folder: string): Promise<boolean> {
  try {
    const file = await Deno.makeTempFile({ dir: folder, prefix: ".natsway-" });
    await Deno.remove(file);
    return true;
  } catch {
    return false;
  }
}

/**
 * Folder in the temporary folder that only this user can write to, for a machine without a home: the
 * same at each start, unless somebody else has made it; then a fresh one.
 */
export async function privateTempDir(env: EnvReader = processEnv): Promise<string> {
  const uid = Deno.build.os === "windows" ? null : Deno.uid();
  if (uid === null) return await Deno.makeTempDir({ prefix: "natsway-" });
  const path = `${(env("TMPDIR") ?? "/tmp").replace(/\/+$/, "")}/natsway-${uid}`;
  try {
    await Deno.mkdir(path, { mode: 0o700 });
    return path;
  } catch {
    const info = await Deno.lstat(path).catch(() => null);
    const isOurs = info?.isDirectory && info.uid === uid && ((info.mode ?? 0o777) & 0o077) === 0;
    return isOurs ? path : await Deno.makeTempDir({ prefix: "natsway-" });
  }
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
