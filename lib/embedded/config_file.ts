/**
 * Files and folders that a start of nats-server leaves.
 * @module
 */
import { dirname } from "node:path";
import { errorText, StartError } from "../errors.ts";

/**
 * A fresh folder for this start alone (mode 0700): two processes never share one.
 * @param stateDir where it is made; undefined for the temporary folder
 * @throws {StartError}
 */
export async function makeFolder(stateDir: string | undefined): Promise<string> {
  const prefix = "natsway-nats-";
  try {
    if (stateDir === undefined) return await Deno.makeTempDir({ prefix });
    await Deno.mkdir(stateDir, { recursive: true, mode: 0o700 });
    return await Deno.makeTempDir({ dir: stateDir, prefix });
  } catch (error) {
    throw new StartError(
      `no folder for the embedded nats-server's configuration: ${errorText(error)}`,
    );
  }
}

/**
 * Writes the configuration so that there is a whole one at any time, and nobody else can read it.
 * @throws {StartError}
 */
export async function writeConfig(path: string, text: string): Promise<void> {
  const fresh = `${path}.${crypto.randomUUID()}`;
  try {
    await Deno.mkdir(dirname(path), { recursive: true, mode: 0o700 });
    await Deno.writeTextFile(fresh, text, { mode: 0o600, createNew: true });
    await Deno.rename(fresh, path).catch(() => overwrite(path, text));
  } catch (error) {
    throw new StartError(
      `the embedded nats-server's configuration cannot be written to ${path}: ${errorText(error)}`,
      { cause: error },
    );
  } finally {
    await Deno.remove(fresh).catch(() => {});
  }
}

/** A file that a container has mounted cannot be replaced, but written. */
async function overwrite(path: string, text: string): Promise<void> {
  await Deno.chmod(path, 0o600);
  await Deno.writeTextFile(path, text);
}
