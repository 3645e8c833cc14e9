/**
 * Keeps two nats-servers off one JetStream store: nats-server itself opens whatever folder it is
 * given, before it looks at its port.
 * @module
 */
import { errorText, StartError } from "../errors.ts";
import { serverEnvironment } from "./places.ts";

/** A store that this process holds. */
export interface StoreLock {
  /** Lets it go; nothing happens if somebody else holds it by now. */
  release(): Promise<void>;
}

export interface StoreLockOptions {
  storeDir: string;
  /**
   * Text that only this start's server has in its command line: an absolute path that exists as long
   * as the server lives.
   */
  tag: string;
  /** Longest wait for an earlier server that is ending, in ms. @default {4000} */
  waitMs?: number;
  signal?: AbortSignal;
}

const FILE_NAME = "natsway.lock";
/** An earlier server of a killed natsway is gone after 3 s at the latest. */
const WAIT_MS = 4000;
const LOOK_PAUSE_MS = 100;
/** Between the making of the lock and the server's first breath, at most; in ms. */
const STARTING_MS = 2000;
/** All command lines; `ps` is not in every container. */
const COMMAND_LINES =
  "if [ -r /proc/self/cmdline ]; then cat /proc/[0-9]*/cmdline; else ps -axo command=; fi 2>/dev/null";

/**
 * Makes the folder of the store, if need be, and takes it. A lock whose server is gone is taken
 * over; one whose server lives is waited for.
 * @throws {StartError} the folder cannot be written to, or another server has it
 * @throws the signal's reason, when it was aborted
 */
export async function lockStore(options: StoreLockOptions): Promise<StoreLock> {
  const { storeDir, tag, waitMs = WAIT_MS, signal } = options;
  const file = `${storeDir.replace(/[\\/]+$/, "")}/${FILE_NAME}`;
  const deadline = performance.now() + waitMs;
  try {
    await Deno.mkdir(storeDir, { recursive: true, mode: 0o700 });
    while (!await create(file, tag)) {
      signal?.throwIfAborted();
      if (await takeOver(file)) continue;
      if (performance.now() >= deadline) throw inUse(storeDir);
      await new Promise((resolve) => setTimeout(resolve, LOOK_PAUSE_MS));
    }
  } catch (error) {
    signal?.throwIfAborted();
    if (error instanceof StartError) throw error;
    throw new StartError(
      `the JetStream store ${storeDir} cannot be used: ${errorText(error)}. ` +
        "EMBEDDED_NATS_JETSTREAM_STORE_DIR names the folder",
      { cause: error },
    );
  }
  return { release: () => release(file, tag) };
}

function inUse(storeDir: string): StartError {
  return new StartError(
    `the JetStream store ${storeDir} is in use by another nats-server of natsway: stop that one, or ` +
      "set EMBEDDED_NATS_JETSTREAM_STORE_DIR to another folder",
  );
}

/** Whether the file was made: it was not there before. */
async function create(file: string, tag: string): Promise<boolean> {
  try {
    await Deno.writeTextFile(file, tag, { createNew: true, mode: 0o600 });
    return true;
  } catch (error) {
    if (error instanceof Deno.errors.AlreadyExists) return false;
    throw error;
  }
}

/** Removes a lock whose server is gone. Whether there is a point in trying again at once. */
async function takeOver(file: string): Promise<boolean> {
  const tag = await textOf(file);
  if (tag === null) return true;
  if (await isHeld(file, tag)) return false;
  // Renamed first: of two that come at once only one gets the file, and sees whether it is the one
  // that was judged.
  const aside = `${file}.${crypto.randomUUID()}`;
  try {
    await Deno.rename(file, aside);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return true;
    throw error;
  }
  if (await textOf(aside) === tag) {
    await Deno.remove(aside);
    return true;
  }
  await Deno.rename(aside, file);
  return false;
}

/** `null` when there is no such file. */
async function textOf(file: string): Promise<string | null> {
  try {
    return await Deno.readTextFile(file);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return null;
    throw error;
  }
}

/** Whether a server with that tag runs, or may be about to. */
async function isHeld(file: string, tag: string): Promise<boolean> {
  if (tag !== "" && (await commandLines()).includes(tag)) return true;
  const info = await Deno.stat(file).catch(() => null);
  const ageMs = Date.now() - (info?.mtime?.getTime() ?? 0);
  if (ageMs < 0 || ageMs > STARTING_MS) return false;
  return tag === "" || (await Deno.stat(tag).catch(() => null)) !== null;
}

/** "" where there is no shell: then only the age of the lock counts. */
async function commandLines(): Promise<string> {
  if (Deno.build.os === "windows") return "";
  try {
    const { stdout } = await new Deno.Command("/bin/sh", {
      args: ["-c", COMMAND_LINES],
      stdin: "null",
      stderr: "null",
      clearEnv: true,
      env: serverEnvironment(),
    }).output();
    return new TextDecoder().decode(stdout);
  } catch {
    return "";
  }
}

async function release(file: string, tag: string): Promise<void> {
  try {
    if (await textOf(file) === tag) await Deno.remove(file);
  } catch {
    // It is stale then, and whoever comes next sees that.
  }
}
