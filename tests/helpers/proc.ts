/**
 * What Linux tells about other processes. It is read by `cat`: Deno itself opens `/proc` only with
 * all permissions, and tests run with a permission set.
 * @module
 */

/** The text of a file in `/proc`, or "" when the process is gone. */
function procText(pattern: string): string {
  const { stdout } = new Deno.Command("sh", {
    args: ["-c", `cat ${pattern}`],
    stderr: "null",
  }).outputSync();
  return new TextDecoder().decode(stdout);
}

/** Whether a process with this id exists (not a zombie). */
export function processExists(pid: number): boolean {
  const state = /^State:\s+(\w)/m.exec(procText(`/proc/${pid}/status`))?.[1];
  return state !== undefined && state !== "Z" && state !== "X";
}

/** Resident memory in bytes. */
export function rssBytes(pid: number): number {
  const kib = /^VmRSS:\s+(\d+) kB$/m.exec(procText(`/proc/${pid}/status`))?.[1];
  if (kib === undefined) throw new Error(`no VmRSS for process ${pid}`);
  return Number(kib) * 1024;
}

/** Open descriptors: how many of each kind, as `socket`, `pipe`, `anon_inode:[eventpoll]` or a path. */
export function openDescriptors(pid: number): Map<string, number> {
  const { stdout } = new Deno.Command("ls", {
    args: ["-l", `/proc/${pid}/fd`],
    stderr: "null",
  }).outputSync();
  const kinds = new Map<string, number>();
  for (const line of new TextDecoder().decode(stdout).split("\n")) {
    const target = line.split(" -> ")[1];
    if (target === undefined) continue;
    const kind = target.replace(/^(socket|pipe):\[\d+\]$/, "$1");
    kinds.set(kind, (kinds.get(kind) ?? 0) + 1);
  }
  return kinds;
}

/** CPU time that a process has used since its start, user and system, in ms. */
export function cpuMs(pid: number): number {
  const fields = /^\d+ \(.*\) (.*)$/.exec(procText(`/proc/${pid}/stat`).trim())?.[1]?.split(" ");
  if (fields === undefined) throw new Error(`no stat for process ${pid}`);
  // utime and stime are fields 14 and 15; `fields` begins at 3. Linux counts in hundredths here.
  return (Number(fields[11]) + Number(fields[12])) * 10;
}

/** The words of a process's command line, as every user of the machine can see them. */
export function commandLine(pid: number): string[] {
  return procText(`/proc/${pid}/cmdline`).split("\0");
}

/** Ids of all descendants of a process. */
export function descendants(pid: number): number[] {
  const children = new Map<number, number[]>();
  for (const line of procText("/proc/[0-9]*/stat").split("\n")) {
    const match = /^(\d+) \(.*\) \S (\d+) /.exec(line);
    if (match === null) continue;
    const parent = Number(match[2]);
    children.set(parent, [...children.get(parent) ?? [], Number(match[1])]);
  }
  const found: number[] = [];
  for (let next = children.get(pid) ?? []; next.length > 0;) {
    found.push(...next);
    next = next.flatMap((parent) => children.get(parent) ?? []);
  }
  return found;
}
