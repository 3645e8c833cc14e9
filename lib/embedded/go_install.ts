/**
 * Builds the pinned nats-server with Go, where Go is at hand. Go checks the source itself, against
 * its checksum database.
 * @module
 */
import { NatswayError } from "../errors.ts";
import { moveIntoPlace } from "./binary.ts";
import { readLines } from "./lines.ts";
import { binaryName, GO_PACKAGE } from "./release.ts";

/** Go could not build it; the message has Go's own last line. */
export class GoInstallError extends NatswayError {
  override readonly name = "GoInstallError";
}

export interface GoInstallOptions {
  /** The `go` program. */
  go: string;
  /** Folder and name that the finished program gets. */
  cacheDir: string;
  name: string;
  /** Called about each second with the seconds since the start. */
  onTick?: (seconds: number) => void;
  /** Longest build, in ms. @default {300000} */
  timeoutMs?: number;
  signal?: AbortSignal;
}

const DEFAULT_TIMEOUT_MS = 5 * 60_000;
const TICK_MS = 1000;

/**
 * Runs `go install` of the pinned version into the cache. Go's own settings (GOPROXY, GOFLAGS, …)
 * hold, but for the target: it is always this machine.
 * @returns the path of the program
 * @throws {GoInstallError}
 * @throws the signal's reason, when it was aborted; Go and its compilers are gone by then
 */
export async function goInstall(options: GoInstallOptions): Promise<string> {
  options.signal?.throwIfAborted();
  await Deno.mkdir(options.cacheDir, { recursive: true, mode: 0o700 });
  const work = await Deno.makeTempDir({ dir: options.cacheDir, prefix: "go-install." });
  try {
    await runGo(options, work);
    return await moveIntoPlace(`${work}/${binaryName()}`, options.cacheDir, options.name);
  } finally {
    await Deno.remove(work, { recursive: true });
  }
}

async function runGo(options: GoInstallOptions, work: string): Promise<void> {
  const timeoutMs = options.timeoutMs ?? DEFAULT_TIMEOUT_MS;
  // In a process group of its own, so that its compilers can be ended with it.
  const child = new Deno.Command(options.go, {
    args: ["install", "-trimpath", "-ldflags=-w", GO_PACKAGE],
    cwd: work,
    env: { GOBIN: work, GOOS: "", GOARCH: "", GO111MODULE: "on", CGO_ENABLED: "0", GOWORK: "off" },
    stdin: "null",
    stdout: "null",
    stderr: "piped",
    detached: Deno.build.os !== "windows",
  }).spawn();
  const kill = () => killGroup(child);
  let late = false;
  const deadline = setTimeout(() => {
    late = true;
    kill();
  }, timeoutMs);
  const startedAt = performance.now();
  const ticker = setInterval(
    () => options.onTick?.(Math.round((performance.now() - startedAt) / 1000)),
    TICK_MS,
  );
  options.signal?.addEventListener("abort", kill);
  let lastLine = "";
  try {
    const reading = readLines(child.stderr, (line) => lastLine = line.trim() || lastLine);
    const status = await child.status;
    await reading;
    options.signal?.throwIfAborted();
    if (late) throw new GoInstallError(`go install did not end in ${timeoutMs / 1000} s`);
    if (!status.success) {
      const detail = lastLine === "" ? "" : `: ${lastLine}`;
      throw new GoInstallError(`go install ended with status ${status.code}${detail}`);
    }
  } finally {
    clearTimeout(deadline);
    clearInterval(ticker);
    options.signal?.removeEventListener("abort", kill);
  }
}

function killGroup(child: Deno.ChildProcess): void {
  try {
    if (Deno.build.os === "windows") child.kill("SIGKILL");
    else Deno.kill(-child.pid, "SIGKILL");
  } catch {
    // It has ended in this moment.
  }
}
