/**
 * Finds a nats-server to run: the setting, inside the executable, PATH, the cache, a download of
 * the pinned release, a build of it with Go; in this order.
 * @module
 */
import { errorText, StartError } from "../errors.ts";
import type { Logger } from "../logger.ts";
import { checkBinary, exists, installBinary } from "./binary.ts";
import { downloadArchive } from "./download.ts";
import { goInstall } from "./go_install.ts";
import { insideFolder, unpackInside } from "./inside.ts";
import { defaultCacheDir, filesOnPath, privateTempDir, processEnv } from "./places.ts";
import {
  archiveName,
  binaryName,
  NATS_SERVER_VERSION,
  OFFICIAL_RELEASE_URL,
  printableUrl,
} from "./release.ts";
import { unpackProgram } from "./unpack.ts";

export interface FindOptions {
  /** `EMBEDDED_NATS_BINARY`: this one and no other. */
  binary?: string | null;
  /** `EMBEDDED_NATS_DOWNLOAD_URL`: folder with the release's archives and hash list. */
  downloadUrl?: string | null;
  /** @default natsway's folder in the user's cache */
  cacheDir?: string;
  /** Folder of the nats-server inside the executable; `null` for none. @default {insideFolder()} */
  insideDir?: string | null;
  /** Where the one inside goes when the cache cannot be used. @default {privateTempDir()} */
  tempDir?: () => Promise<string>;
  /** @default the process's PATH */
  path?: string;
  /** The `go` program; `null` for none. @default the one on `path` */
  goBinary?: string | null;
  /**
   * Takes text to be written to the terminal as it is: each one writes the same line anew, the last
   * one clears it. Only called on a terminal.
   */
  onProgress?: (text: string) => void;
  isTerminal: boolean;
  logger: Logger;
  signal?: AbortSignal;
  /** Longest silence of a download, in ms. @default {20000} */
  stallMs?: number;
}

/** A nats-server that can be run. */
export interface FoundServer {
  readonly path: string;
  /** Such as `2.15.2`. */
  readonly version: string;
  readonly source: "setting" | "executable" | "path" | "cache" | "download" | "go";
}

const PROGRESS_PAUSE_MS = 100;
const MEGABYTE = 1e6;
const CLEAR_REST_OF_LINE = "\x1b[K";

/**
 * Finds a nats-server of version 2.9 or newer. A program that was downloaded or built stays in the
 * cache for the next time.
 * @throws {StartError} none is to be had: what was tried, each with the reason, and what to do
 * @throws the signal's reason, when it was aborted
 */
export async function findNatsServer(options: FindOptions): Promise<FoundServer> {
  if (options.binary) return await fromSetting(options.binary, options);
  const search = new Search(options);
  const found = await search.run();
  if (found !== null) return found;
  throw new StartError(
    `no nats-server is to be had; tried: ${
      search.tried.join("; ")
    }. Put nats-server 2.9 or newer ` +
      "on the PATH, or set EMBEDDED_NATS_BINARY to one, or EMBEDDED_NATS_DOWNLOAD_URL to a folder " +
      `that holds the release files of version ${NATS_SERVER_VERSION}`,
  );
}

/** A setting that is wrong is an error: running some other server instead would be a surprise. */
async function fromSetting(binary: string, options: FindOptions): Promise<FoundServer> {
  const { signal, path = processEnv("PATH") ?? "" } = options;
  try {
    const file = /[\\/]/.test(binary) ? binary : (await filesOnPath(path, binary))[0];
    if (file === undefined) throw new Error("there is no such program on the PATH");
    return { path: file, version: await checkBinary(file, signal), source: "setting" };
  } catch (error) {
    signal?.throwIfAborted();
    throw new StartError(`EMBEDDED_NATS_BINARY ${binary}: ${errorText(error)}`, { cause: error });
  }
}

class Search {
  /** One entry per place that gave nothing: the place and why. */
  readonly tried: string[] = [];
  readonly #options: FindOptions;
  readonly #path: string;
  #cacheDir = "";

  constructor(options: FindOptions) {
    this.#options = options;
    this.#path = options.path ?? processEnv("PATH") ?? "";
  }

  async run(): Promise<FoundServer | null> {
    let noCache: string | null = null;
    try {
      this.#cacheDir = this.#options.cacheDir ?? defaultCacheDir();
    } catch (error) {
      noCache = errorText(error);
    }
    if (noCache !== null) {
      const found = await this.#fromExecutable() ?? await this.#fromPath();
      if (found === null) this.tried.push(`cache, download and go install (${noCache})`);
      return found;
    }
    return await this.#fromExecutable() ?? await this.#fromPath() ?? await this.#fromCache() ??
      await this.#fromDownload() ?? await this.#fromGo();
  }

  async #fromExecutable(): Promise<FoundServer | null> {
    const { insideDir: folder = insideFolder(), tempDir = privateTempDir } = this.#options;
    if (folder === null) return null;
    const unpackTo = (place: string, dir: () => Promise<string>) =>
      this.#attempt(place, "executable", async () => {
        const path = await unpackInside(folder, await dir());
        if (path === null) throw new Error("this build has none");
        return path;
      });
    const cacheDir = this.#cacheDir;
    const cached = cacheDir === ""
      ? null
      : await unpackTo("inside the executable", () => Promise.resolve(cacheDir));
    // A container may have no home, or one that it cannot write to.
    return cached ?? await unpackTo("inside the executable, by the temporary folder", tempDir);
  }

  async #fromPath(): Promise<FoundServer | null> {
    const files = await filesOnPath(this.#path, binaryName());
    if (files.length === 0) this.tried.push(`PATH (no ${binaryName()} there)`);
    for (const file of files) {
      const found = await this.#attempt(file, "path", () => Promise.resolve(file));
      if (found !== null) return found;
    }
    return null;
  }

  async #fromCache(): Promise<FoundServer | null> {
    const file = `${this.#cacheDir}/${this.#cachedName}`;
    if (await exists(file)) return await this.#attempt(file, "cache", () => Promise.resolve(file));
    this.tried.push(`cache (no ${file})`);
    return null;
  }

  async #fromDownload(): Promise<FoundServer | null> {
    const { downloadUrl, isTerminal, logger, signal, stallMs } = this.#options;
    const archive = archiveName();
    if (archive === null) {
      const { os, arch } = Deno.build;
      this.tried.push(`download (no release of nats-server is published for ${os} ${arch})`);
      return null;
    }
    const baseUrl = downloadUrl || OFFICIAL_RELEASE_URL;
    const parsed = URL.parse(baseUrl);
    const from = parsed === null ? "the download URL" : printableUrl(parsed);
    return await this.#attempt("download", "download", async () => {
      if (!isTerminal) logger.info("downloading nats-server", { archive, from });
      const bytes = await downloadArchive({
        baseUrl,
        archive,
        onBytes: this.#byteProgress(`downloading nats-server ${NATS_SERVER_VERSION}`),
        ...(stallMs === undefined ? {} : { stallMs }),
        ...(signal === undefined ? {} : { signal }),
      });
      const program = await unpackProgram(bytes, archive, binaryName());
      const path = await installBinary(this.#cacheDir, this.#cachedName, program);
      if (!isTerminal) logger.info("nats-server is downloaded", { path, bytes: bytes.length });
      return path;
    });
  }

  async #fromGo(): Promise<FoundServer | null> {
    const { goBinary, isTerminal, logger, signal } = this.#options;
    const name = Deno.build.os === "windows" ? "go.exe" : "go";
    const go = goBinary === undefined ? (await filesOnPath(this.#path, name))[0] : goBinary;
    if (!go) {
      this.tried.push("go install (no go at hand)");
      return null;
    }
    return await this.#attempt("go install", "go", async () => {
      const text = `building nats-server ${NATS_SERVER_VERSION} with go install`;
      if (!isTerminal) logger.info(text, { go });
      this.#progress(text);
      const path = await goInstall({
        go,
        cacheDir: this.#cacheDir,
        name: this.#cachedName,
        onTick: (seconds) => this.#progress(`${text}: ${seconds} s`),
        ...(signal === undefined ? {} : { signal }),
      });
      if (!isTerminal) logger.info("nats-server is built", { path });
      return path;
    });
  }

  /** Gets a program from one place and checks it; a failure becomes an entry of `tried`. */
  async #attempt(
    place: string,
    source: FoundServer["source"],
    get: () => Promise<string>,
  ): Promise<FoundServer | null> {
    const { logger, signal } = this.#options;
    try {
      signal?.throwIfAborted();
      const path = await get();
      return { path, version: await checkBinary(path, signal), source };
    } catch (error) {
      signal?.throwIfAborted();
      this.tried.push(`${place} (${errorText(error)})`);
      logger.debug("no nats-server from here", { place, reason: errorText(error) });
      return null;
    } finally {
      this.#progress("");
    }
  }

  get #cachedName(): string {
    const { os, arch } = Deno.build;
    return `nats-server-v${NATS_SERVER_VERSION}-${os}-${arch}${os === "windows" ? ".exe" : ""}`;
  }

  #shown = "";

  #progress(text: string): void {
    if (!this.#options.isTerminal || text === this.#shown) return;
    this.#shown = text;
    this.#options.onProgress?.(`\r${text}${CLEAR_REST_OF_LINE}`);
  }

  #byteProgress(title: string): (bytes: number, ofBytes: number) => void {
    let lastAt = -Infinity;
    return (bytes, ofBytes) => {
      const now = performance.now();
      if (now - lastAt < PROGRESS_PAUSE_MS && bytes !== ofBytes) return;
      lastAt = now;
      const done = (bytes / MEGABYTE).toFixed(1);
      if (ofBytes === 0) return this.#progress(`${title}: ${done} MB`);
      const percent = Math.floor(bytes / ofBytes * 100);
      this.#progress(`${title}: ${percent} % of ${(ofBytes / MEGABYTE).toFixed(1)} MB`);
    };
  }
}
