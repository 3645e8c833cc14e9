/**
 * Folders, random content and digests for tests with real programs.
 * @module
 */
import { createHash } from "node:crypto";

/** With NATSWAY_TEST_FULL=1 the sizes of the contract, not the shortened ones. */
export const FULL = Deno.env.get("NATSWAY_TEST_FULL") === "1";
export const MIB = 1024 * 1024;
/** What a big transfer carries. */
export const BIG_BYTES = (FULL ? 256 : 24) * MIB;

/** A folder that goes with the test. */
export class TempFolder implements AsyncDisposable {
  readonly path = Deno.makeTempDirSync({ prefix: "natsway-clients-" });

  /** The path of `name` in it. */
  at(name: string): string {
    return `${this.path}/${name}`;
  }

  /** Writes a file that only its owner may read, as ssh demands of a key, and returns its path. */
  async write(name: string, content: string | Uint8Array): Promise<string> {
    const bytes = typeof content === "string" ? new TextEncoder().encode(content) : content;
    await Deno.writeFile(this.at(name), bytes, { mode: 0o600 });
    return this.at(name);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Deno.remove(this.path, { recursive: true });
  }
}

/** Octets that no other call returns, so that nothing old can pass for them. */
export function randomBytes(length: number): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(length);
  const limit = 65536; // of one getRandomValues
  for (let at = 0; at < length; at += limit) {
    crypto.getRandomValues(bytes.subarray(at, Math.min(at + limit, length)));
  }
  return bytes;
}

/** SHA-256 in hex. */
export function sha256(content: Uint8Array | string): string {
  return createHash("sha256").update(content).digest("hex");
}

/** Path below `folder` and digest of every file, sorted by path; folders end with `/`. */
export async function treeDigests(folder: string, below = ""): Promise<string[]> {
  const lines: string[] = [];
  for await (const entry of Deno.readDir(`${folder}/${below}`)) {
    const path = `${below}${entry.name}`;
    if (entry.isDirectory) {
      lines.push(`${path}/`, ...await treeDigests(folder, `${path}/`));
    } else {
      lines.push(`${path} ${sha256(await Deno.readFile(`${folder}/${path}`))}`);
    }
  }
  return lines.sort();
}

/** Whether the test has the rights of root. */
export function isRoot(): boolean {
  return Deno.uid() === 0;
}
