/**
 * The nats-server release that natsway is made for: its version, and the names that the project
 * gives to its published files.
 * @module
 */

/** Release that is downloaded, built or put inside the executable. */
export const NATS_SERVER_VERSION = "2.15.2";

/** Folder of that release: one archive for each platform, and the list of their hashes. */
export const OFFICIAL_RELEASE_URL =
  `https://github.com/nats-io/nats-server/releases/download/v${NATS_SERVER_VERSION}/`;

/** Name of the list of SHA-256 hashes beside the archives. */
export const HASH_LIST = "SHA256SUMS";

/** Go package of the same release. */
export const GO_PACKAGE = `github.com/nats-io/nats-server/v2@v${NATS_SERVER_VERSION}`;

/** A nats-server version as numbers, in order of weight. */
export type Version = readonly [major: number, minor: number, patch: number];

/** Oldest nats-server that natsway works with. */
export const OLDEST_VERSION: Version = [2, 9, 0];

/** An operating system and processor, in Deno's words. */
export interface Platform {
  readonly os: string;
  readonly arch: string;
}

/** Processors that a release is published for on each system, in Go's words. */
const PUBLISHED: Readonly<Record<string, readonly string[]>> = {
  linux: ["amd64", "arm64"],
  darwin: ["amd64", "arm64"],
  windows: ["amd64", "arm64"],
  freebsd: ["amd64"],
};

const GO_ARCH: Readonly<Record<string, string>> = { x86_64: "amd64", aarch64: "arm64" };

/** What the archive for a platform is called; `null` where none is published. */
export function archiveName(platform: Platform = Deno.build): string | null {
  const arch = GO_ARCH[platform.arch];
  if (arch === undefined || !PUBLISHED[platform.os]?.includes(arch)) return null;
  const ending = platform.os === "windows" ? "zip" : "tar.gz";
  return `nats-server-v${NATS_SERVER_VERSION}-${platform.os}-${arch}.${ending}`;
}

/** File name of the program itself. */
export function binaryName(os: string = Deno.build.os): string {
  return os === "windows" ? "nats-server.exe" : "nats-server";
}

/** Reads the version out of what `nats-server --version` prints; `null` if it is something else. */
export function parseVersion(text: string): Version | null {
  const found = /^nats-server: v?(\d{1,4})\.(\d{1,4})\.(\d{1,4})(?!\d)/m.exec(text);
  if (found === null) return null;
  return [Number(found[1]), Number(found[2]), Number(found[3])];
}

/** Tells whether `version` is at least `oldest`. */
export function isAtLeast(version: Version, oldest: Version): boolean {
  for (let i = 0; i < 3; i++) {
    const difference = version[i as 0 | 1 | 2] - oldest[i as 0 | 1 | 2];
    if (difference !== 0) return difference > 0;
  }
  return true;
}

/**
 * Finds the hash of one file in a list as `sha256sum` writes it: 64 hex digits, a space, a space or
 * `*`, the name.
 * @returns lower-case hex; `null` when the list has no line, or several different ones, for `name`
 */
export function hashInList(list: string, name: string): string | null {
  let hash: string | null = null;
  for (const line of list.split(/\r?\n/)) {
    const found = /^([0-9a-fA-F]{64}) [ *](.+)$/.exec(line);
    if (found === null || found[2] !== name) continue;
    const next = found[1]!.toLowerCase();
    if (hash !== null && hash !== next) return null;
    hash = next;
  }
  return hash;
}

/** A URL for messages: without user, query and fragment, which may hold a secret. */
export function printableUrl(url: URL): string {
  return `${url.protocol}//${url.host}${url.pathname}`;
}
