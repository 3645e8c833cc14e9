/**
 * The nats-server inside the compiled executable. `compile.sh` puts it in the folder `bin` beside
 * this file, with a note about it; run from source there is none.
 * @module
 */
import { NatswayError } from "../errors.ts";
import { exists, installBinary } from "./binary.ts";
import { sha256Hex } from "./download.ts";

/** What `bin/nats-server.json` says about the program beside it. */
export interface InsideNote {
  /** Such as `2.15.2`; `unknown` for a program that could not be run on the building machine. */
  readonly version: string;
  readonly sha256: string;
  readonly bytes: number;
}

/** Folder in the executable's own file system; `null` from source. */
export function insideFolder(): string | null {
  return Deno.build.standalone ? `${import.meta.dirname}/bin` : null;
}

/**
 * Unpacks the nats-server of `folder` into the cache, unless it is there already. The cached name
 * holds version and hash, so executables of different builds do not disturb each other.
 * @returns its path; `null` when the folder has none
 * @throws {NatswayError} the note or the content is damaged
 */
export async function unpackInside(folder: string, cacheDir: string): Promise<string | null> {
  const source = `${folder}/nats-server`;
  if (!(await exists(`${source}.json`))) return null;
  const note = readNote(await Deno.readTextFile(`${source}.json`));
  const ending = Deno.build.os === "windows" ? ".exe" : "";
  const name = `nats-server-v${note.version}-${note.sha256.slice(0, 16)}${ending}`;
  const cached = await Deno.stat(`${cacheDir}/${name}`).catch(() => null);
  if (cached?.isFile && cached.size === note.bytes) return `${cacheDir}/${name}`;
  const bytes = await Deno.readFile(source);
  if (bytes.length !== note.bytes || await sha256Hex(bytes) !== note.sha256) {
    throw new NatswayError("it is damaged: its hash is not the one of the build");
  }
  return await installBinary(cacheDir, name, bytes);
}

function readNote(text: string): InsideNote {
  const note = JSON.parse(text) as Partial<InsideNote>;
  const { version = "", sha256, bytes } = note;
  if (!/^[0-9a-f]{64}$/.test(sha256 ?? "") || !Number.isSafeInteger(bytes)) {
    throw new NatswayError("the note about it is damaged");
  }
  if (!/^(\d+\.\d+\.\d+|unknown)$/.test(version)) {
    throw new NatswayError("the note about it is damaged");
  }
  return { version, sha256: sha256!, bytes: bytes! };
}
