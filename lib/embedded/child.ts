/**
 * The process of the embedded nats-server. On Unix a small shell script stands between: it ends the
 * server when natsway is gone, however natsway ended.
 * @module
 */
import { errorText, NatswayError } from "../errors.ts";
import { readLines } from "./lines.ts";
import { serverEnvironment } from "./places.ts";

/** Time from SIGTERM to SIGKILL, in seconds. */
const KILL_AFTER_S = 3;
/** Time from then until the whole is killed from outside, in ms. */
const GIVE_UP_MS = 2000;
/** Longest wait for the end of the output of a process that is gone: another may hold the pipe. */
const LAST_WORDS_MS = 1000;

/**
 * Arguments: a folder to remove at the end, the program, its arguments. Its standard
 * input is a pipe that only natsway holds, so its end is the news that natsway stopped or died:
 * nothing is polled; a line before the end says how many seconds the server may take. The server
 * itself gets no part of that pipe. The first line of output is the
 * server's process id; the status is the server's. The sleep starts before the trap is set: a shell
 * that is forked with a trap would lose the signal until it has become the sleep.
 */
const WATCHDOG = `
folder=$1; shift
exec 3<&0 </dev/null
"$@" 3<&- >&2 &
server=$!
echo "$server"
(
  read -r seconds <&3 || seconds=${KILL_AFTER_S}
  sleep "$seconds" &
  nap=$!
  trap 'kill "$nap"; wait "$nap"; exit' TERM
  kill -TERM "$server"
  wait "$nap"
  kill -KILL "$server"
) >/dev/null 2>&1 &
watcher=$!
exec 3<&- 2>/dev/null
wait "$server"
status=$?
kill "$watcher"
wait "$watcher"
rm -rf -- "$folder"
exit "$status"
`;

export interface ChildOptions {
  binary: string;
  args: readonly string[];
  /** Folder to remove when the server has ended, also when natsway is gone by then. */
  removeDir: string;
  /** Called for each line that the server logs. */
  onLine: (line: string) => void;
  /**
   * Time that an orderly `stop` leaves the server to end by itself, in seconds: it may have a store to
   * close. @default {3}
   */
  stopAfterS?: number;
  /** `null`: run the server without watchdog. @default "/bin/sh", and `null` on Windows */
  shell?: string | null;
}

/** How a process ended. */
export interface ChildEnd {
  readonly code: number;
  readonly signal: string | null;
}

/**
 * A running nats-server. It is in a session of its own: Ctrl-C in natsway's terminal does not reach
 * it, so it serves until natsway has drained.
 */
export interface ServerChild {
  /** Process id of nats-server itself. */
  readonly pid: number;
  /** Resolves when the process is gone and its last line was handed out. */
  readonly ended: Promise<ChildEnd>;
  /**
   * SIGTERM, after `stopAfterS` SIGKILL (on Windows the process is ended at once). Resolves when the process
   * is gone. More calls wait for the same end.
   */
  stop(): Promise<void>;
}

/** @throws {NatswayError} the process cannot be started */
export async function startChild(options: ChildOptions): Promise<ServerChild> {
  const windows = Deno.build.os === "windows";
  const shell = options.shell === undefined ? (windows ? null : "/bin/sh") : options.shell;
  return shell === null ? startDirect(options) : await startWatched(options, shell);
}

function spawn(program: string, args: string[], pipes: "piped" | "null"): Deno.ChildProcess {
  try {
    return new Deno.Command(program, {
      args,
      stdin: pipes,
      stdout: pipes,
      stderr: "piped",
      clearEnv: true,
      env: serverEnvironment(),
      detached: Deno.build.os !== "windows",
    }).spawn();
  } catch (error) {
    throw new NatswayError(`${program} cannot be run: ${errorText(error)}`, { cause: error });
  }
}

function giveUpMs({ stopAfterS = KILL_AFTER_S }: ChildOptions): number {
  return stopAfterS * 1000 + GIVE_UP_MS;
}

function startDirect(options: ChildOptions): ServerChild {
  const child = spawn(options.binary, [...options.args], "null");
  const silence = new AbortController();
  const reading = readLines(child.stderr, options.onLine, silence.signal);
  const ended = (async () => {
    const status = await child.status;
    await within(LAST_WORDS_MS, reading, () => silence.abort());
    await Deno.remove(options.removeDir, { recursive: true }).catch(() => {});
    return status;
  })();
  const stop = async () => {
    signalProcess(() => child.kill("SIGTERM"));
    await within(giveUpMs(options), ended, () => signalProcess(() => child.kill("SIGKILL")));
  };
  return { pid: child.pid, ended, stop: once(stop) };
}

async function startWatched(options: ChildOptions, shell: string): Promise<ServerChild> {
  const args = [options.removeDir, options.binary, ...options.args];
  const child = spawn(shell, ["-c", WATCHDOG, "natsway-watchdog", ...args], "piped");
  const input = child.stdin.getWriter();
  const closeInput = once(() => input.close().catch(() => {}));
  const firstLine = Promise.withResolvers<string>();
  const silence = new AbortController();
  const reading = Promise.all([
    readLines(child.stdout, firstLine.resolve, silence.signal),
    readLines(child.stderr, options.onLine, silence.signal),
  ]);
  const ended = (async () => {
    const status = await child.status;
    // Had someone killed the watchdog alone, this would end the server.
    await closeInput();
    await within(LAST_WORDS_MS, reading, () => silence.abort());
    firstLine.resolve("");
    return status;
  })();
  const pid = Number(await firstLine.promise);
  const stop = async () => {
    const line = `${options.stopAfterS ?? KILL_AFTER_S}\n`;
    await input.write(new TextEncoder().encode(line)).catch(() => {});
    await closeInput();
    await within(giveUpMs(options), ended, () => {
      signalProcess(() => Deno.kill(pid, "SIGKILL"));
      signalProcess(() => child.kill("SIGKILL"));
    });
  };
  return { pid, ended, stop: once(stop) };
}

/** Waits for `done`; does `late` when it has not come after `ms`, and waits on. */
async function within(ms: number, done: Promise<unknown>, late: () => void): Promise<void> {
  const timer = setTimeout(late, ms);
  await done;
  clearTimeout(timer);
}

function signalProcess(send: () => void): void {
  try {
    send();
  } catch {
    // It has ended already.
  }
}

function once(run: () => Promise<void>): () => Promise<void> {
  let result: Promise<void> | null = null;
  return () => result ??= run();
}
