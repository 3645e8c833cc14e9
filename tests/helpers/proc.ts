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
