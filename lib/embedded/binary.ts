/**
 * A nats-server program on disk: asking for its version, and putting one into the cache.
 * @module
 */
import { errorText, NatswayError } from "../errors.ts";
import { serverEnvironment } from "./places.ts";
import { isAtLeast, OLDEST_VERSION, parseVersion } from "./release.ts";

/** The file is no nats-server that natsway can use; the message says why, without the path. */
export class UnusableBinaryError extends NatswayError {
  override readonly name = "UnusableBinaryError";
}

/** Longest run of `nats-server --version`, in ms. */
const VERSION_TIMEOUT_MS = 10_000;
/** Another process may hold a new file open for writing for a moment (between fork and exec). */
const BUSY_TRIES = 20;
const BUSY_PAUSE_MS = 50;

/**
 * Runs `path --version` and refuses what is older than 2.9.
 * @returns the version as `2.15.2`
 * @throws {UnusableBinaryError} it cannot be run, is no nats-server, or is too old
 * @throws the signal's reason, when it was aborted
 */
export async function checkBinary(path: string, signal?: AbortSignal): Promise<string> {
  const text = await printedVersion(path, signal);
  const version = parseVersion(text);
  if (version === null) throw new UnusableBinaryError("it does not print a nats-server version");
  if (!isAtLeast(version, OLDEST_VERSION)) {
    const oldest = OLDEST_VERSION.slice(0, 2).join(".");
    throw new UnusableBinaryError(`version ${version.join(".")} is older than ${oldest}`);
  }
  return version.join(".");
}

async function printedVersion(path: string, signal?: AbortSignal): Promise<string> {
  signal?.throwIfAborted();
  const timeout = new AbortController();
  const timer = setTimeout(() => timeout.abort(), VERSION_TIMEOUT_MS);
  const signals = signal ? [timeout.signal, signal] : [timeout.signal];
  const command = new Deno.Command(path, {
    args: ["--version"],
    stdin: "null",
    stdout: "piped",
    stderr: "null",
    clearEnv: true,
    env: serverEnvironment(),
    signal: AbortSignal.any(signals),
  });
  try {
    const output = await whenNotBusy(() => command.output());
    signal?.throwIfAborted();
    if (timeout.signal.aborted) {
      throw new UnusableBinaryError(`--version did not end in ${VERSION_TIMEOUT_MS / 1000} s`);
    }
    if (!output.success) {
      throw new UnusableBinaryError(`--version ended with status ${output.code}`);
    }
    return new TextDecoder().decode(output.stdout.subarray(0, 4096));
  } catch (error) {
    signal?.throwIfAborted();
    if (error instanceof UnusableBinaryError) throw error;
    throw new UnusableBinaryError(`it cannot be run: ${runFailure(error)}`, { cause: error });
  } finally {
    clearTimeout(timer);
  }
}

/** Short reasons for the usual cases; Deno's own texts repeat the path. */
function runFailure(error: unknown): string {
  if (error instanceof Deno.errors.NotFound) return "no such file";
  if (error instanceof Deno.errors.PermissionDenied) return "it is not executable";
  return errorText(error);
}

async function whenNotBusy<T>(run: () => Promise<T>): Promise<T> {
  for (let attempt = 1;; attempt++) {
    try {
      return await run();
    } catch (error) {
      if (attempt === BUSY_TRIES || !/text file busy/i.test(errorText(error))) throw error;
      await new Promise((resolve) => setTimeout(resolve, BUSY_PAUSE_MS));
    }
  }
}

/**
 * Puts a program into `folder` as `name`, mode 0755. It is written beside and renamed, so another
 * process sees all of it or nothing, and several may do the same at once.
 * @returns its path
 */
export async function installBinary(
  folder: string,
  name: string,
  bytes: Uint8Array,
): Promise<string> {
  await Deno.mkdir(folder, { recursive: true, mode: 0o700 });
  const temporary = await Deno.makeTempFile({ dir: folder, prefix: `${name}.` });
  try {
    await Deno.writeFile(temporary, bytes);
    return await moveIntoPlace(temporary, folder, name);
  } catch (error) {
    await Deno.remove(temporary).catch(() => {});
    throw error;
  }
}

/** Renames a finished file to `name` in `folder`, mode 0755; both are on one file system. */
export async function moveIntoPlace(from: string, folder: string, name: string): Promise<string> {
  const path = `${folder}${Deno.build.os === "windows" ? "\\" : "/"}${name}`;
  if (Deno.build.os !== "windows") await Deno.chmod(from, 0o755);
  try {
    await Deno.rename(from, path);
  } catch (error) {
    // Windows does not replace a program that runs. Whoever put it there had the same bytes.
    if (Deno.build.os !== "windows" || !(await exists(path))) throw error;
    await Deno.remove(from);
  }
  return path;
}

/** Tells whether `path` is a regular file (links are followed). */
export async function exists(path: string): Promise<boolean> {
  return (await Deno.stat(path).catch(() => null))?.isFile ?? false;
}
