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
  /** Longest wait for an earlier server that is ending, in ms. @default {3500} */
  waitMs?: number;
  signal?: AbortSignal;
}

/** Holds the tag of the server that has the store; empty when there is none. */
const FILE_NAME = "natsway.lock";
const MAX_TAG_BYTES = 8192;
/** An earlier server of a killed natsway is gone after 3 s at the latest. */
const WAIT_MS = 3500;
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
    while (!await take(file, tag)) {
      signal?.throwIfAborted();
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

/** Runs `use` while no other process does so with the same file; the system ends a dead one's turn. */
async function alone<T>(file: string, use: (open: Deno.FsFile) => Promise<T>): Promise<T> {
  using open = await Deno.open(file, { read: true, write: true, create: true, mode: 0o600 });
  await open.lock(true);
  return await use(open);
}

/** Writes the tag into the file unless it has that of a server that lives. */
async function take(file: string, tag: string): Promise<boolean> {
  return await alone(file, async (open) => {
    const info = await open.stat();
    if (await isHeld(await textOf(open), info.mtime)) return false;
    await open.truncate();
    await open.seek(0, Deno.SeekMode.Start);
    await open.write(new TextEncoder().encode(tag));
    return true;
  });
}

async function textOf(open: Deno.FsFile): Promise<string> {
  const bytes = new Uint8Array(MAX_TAG_BYTES);
  return new TextDecoder().decode(bytes.subarray(0, await open.read(bytes) ?? 0));
}

/** Whether a server with that tag runs, or may be about to. */
async function isHeld(tag: string, since: Date | null): Promise<boolean> {
  if (tag === "") return false;
  if ((await commandLines()).includes(tag)) return true;
  const ageMs = Date.now() - (since?.getTime() ?? 0);
  if (ageMs < 0 || ageMs > STARTING_MS) return false;
  return (await Deno.stat(tag).catch(() => null)) !== null;
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
    await alone(file, async (open) => {
      if (await textOf(open) === tag) await open.truncate();
    });
  } catch {
    // It is stale then, and whoever comes next sees that.
  }
}
