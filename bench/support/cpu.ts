/**
 * CPU time of processes, read from /proc (Linux).
 * @module
 */

/** USER_HZ, the unit of /proc/PID/stat: 100 on every Linux architecture that Deno runs on. */
const TICKS_PER_SECOND = 100;
const USER_TIME = 11;
const SYSTEM_TIME = 12;
const CHILDREN_USER_TIME = 13;
const CHILDREN_SYSTEM_TIME = 14;
const PARENT = 1;

/** CPU seconds that a process and its living descendants have used, user and system. */
export function cpuSeconds(pid: number): number {
  let ticks = 0;
  for (const stat of family(pid)) ticks += stat[USER_TIME]! + stat[SYSTEM_TIME]!;
  return ticks / TICKS_PER_SECOND;
}

/** CPU seconds of all children of this process that have ended and been waited for. */
export function endedChildrenCpuSeconds(): number {
  const stat = readStat(Deno.pid) ?? [];
  return ((stat[CHILDREN_USER_TIME] ?? 0) + (stat[CHILDREN_SYSTEM_TIME] ?? 0)) / TICKS_PER_SECOND;
}

function family(pid: number): number[][] {
  const all = new Map<number, number[]>();
  for (const { name } of Deno.readDirSync("/proc")) {
    if (!/^\d+$/.test(name)) continue;
    const stat = readStat(Number(name));
    if (stat !== null) all.set(Number(name), stat);
  }
  const found: number[][] = [];
  const parents = [pid];
  for (let parent = parents.pop(); parent !== undefined; parent = parents.pop()) {
    const stat = all.get(parent);
    if (stat !== undefined) found.push(stat);
    for (const [child, childStat] of all) if (childStat[PARENT] === parent) parents.push(child);
  }
  return found;
}

/** The fields of /proc/PID/stat behind the command's name, from the state on; null when it is gone. */
function readStat(pid: number): number[] | null {
  try {
    const text = Deno.readTextFileSync(`/proc/${pid}/stat`);
    return text.slice(text.lastIndexOf(")") + 2).split(" ").map(Number);
  } catch {
    return null;
  }
}
