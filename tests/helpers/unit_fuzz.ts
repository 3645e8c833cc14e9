/**
 * Seeded fuzzing. `NATSWAY_FUZZ` sets the number of cases; with it each run takes another seed, unless
 * `NATSWAY_FUZZ_SEED` gives one.
 * @module
 */
import assert from "node:assert/strict";
import v8 from "node:v8";
import vm from "node:vm";

const encoder = new TextEncoder();
const givenCount = Deno.env.get("NATSWAY_FUZZ");
const CASES = Number(givenCount ?? 4000);
const SEED = Number(
  Deno.env.get("NATSWAY_FUZZ_SEED") ?? (givenCount === undefined ? 1 : Date.now() % 2 ** 32),
);
/** Far over what any case needs, even on a busy machine: only a loop that does not end gets there. */
const MAX_CASE_MS = 2000;
/** What the cases may leave behind, all together; inputs have a few hundred octets each. */
const MAX_GROWTH_BYTES = 16 * 1024 * 1024;
const CASES_PER_TASK = 1000;

v8.setFlagsFromString("--expose-gc");
const collectGarbage = vm.runInNewContext("gc") as () => void;

/** Small generator of 32-bit numbers (mulberry32), so that a seed tells a whole run. */
export class Random {
  #state: number;
  constructor(seed: number) {
    this.#state = seed | 0;
  }
  /** Whole number in [0, bound). */
  below(bound: number): number {
    this.#state = (this.#state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(this.#state ^ (this.#state >>> 15), 1 | this.#state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) % bound;
  }
  pick<T>(from: readonly T[]): T {
    return from[this.below(from.length)]!;
  }
  bytes(count: number): Uint8Array {
    return Uint8Array.from({ length: count }, () => this.below(256));
  }
}

/**
 * Runs `check`, which is synchronous, for each case; what it throws is told with the seed. Every case has
 * a bound in time, and all together have one in memory.
 * @param salt keeps the fuzzers of one run apart
 * @param check returns its input, for the message when it took too long
 */
export async function fuzz(salt: number, check: (random: Random) => unknown): Promise<void> {
  const warmUpCases = CASES >> 2;
  let heapBytes = 0;
  for (let index = 0; index < CASES; index++) {
    if (index === warmUpCases) heapBytes = await liveHeapBytes();
    let tookMs = timed(salt, index, check).tookMs;
    if (tookMs >= MAX_CASE_MS) {
      // The machine may have stood still; it does not do so for the same case twice.
      const again = timed(salt, index, check);
      tookMs = again.tookMs;
      assert.ok(
        tookMs < MAX_CASE_MS,
        `case ${index} of NATSWAY_FUZZ_SEED=${SEED}: ${tookMs} ms for ${again.input}`,
      );
    }
    if (index % CASES_PER_TASK === 0) await nextTask();
  }
  const grownBytes = await liveHeapBytes() - heapBytes;
  assert.ok(
    grownBytes < MAX_GROWTH_BYTES,
    `the heap has grown by ${grownBytes} bytes with NATSWAY_FUZZ=${CASES} NATSWAY_FUZZ_SEED=${SEED}`,
  );
}

/** What is left of the heap when the garbage is gone. */
async function liveHeapBytes(): Promise<number> {
  await nextTask();
  collectGarbage();
  return Deno.memoryUsage().heapUsed;
}

/** What Deno's own bindings hold, such as those of llhttp, they let go of between two tasks. */
function nextTask(): Promise<void> {
  return new Promise((done) => setTimeout(done, 0));
}

function timed(
  salt: number,
  index: number,
  check: (random: Random) => unknown,
): { tookMs: number; input: unknown } {
  const started = performance.now();
  try {
    const input = check(randomOf(salt, index));
    return { tookMs: performance.now() - started, input };
  } catch (error) {
    throw failure(index, error);
  }
}

/**
 * As {@linkcode fuzz} for what takes a connection each: one case for every `every` of the others. Its time
 * is not bounded here, as the connection's is.
 */
export async function fuzzSlowly(
  salt: number,
  every: number,
  check: (random: Random) => Promise<void>,
): Promise<void> {
  for (let index = 0; index < CASES; index += every) {
    try {
      await check(randomOf(salt, index));
    } catch (error) {
      throw failure(index, error);
    }
  }
}

function randomOf(salt: number, index: number): Random {
  return new Random(SEED + salt + index * 7919);
}

function failure(index: number, cause: unknown): Error {
  return new Error(`case ${index}: NATSWAY_FUZZ=${CASES} NATSWAY_FUZZ_SEED=${SEED}`, { cause });
}

/** What mutations put in. */
const JSON_PIECES: readonly string[] = [
  "null",
  "true",
  "7",
  "-1",
  "1e999",
  '""',
  '"q"',
  "[]",
  "{}",
  "[[[[]]]]",
  '{"toString":1,"valueOf":2}',
  '{"__proto__":{"a":1}}',
  '{"then":1}',
  '"\\ud800"',
  '"\\u0000"',
  '"a.>"',
  '"base64"',
  ",",
  ":",
  '"',
  "\\",
  '"type":"cancel",',
  '"cancel":{},',
  '"type":"response_error","error":{"toString":0},',
  '"headers":{"a":[{"toString":0},1,null]},',
  '"head":[["a","b"],["c"]],',
  '"payload":[],',
  '"body":[[1,{"a":"b"}]],',
  '"body_encoding":"base64","body_base64":"####",',
  '"natsway":{"v":1,"instance":"x"},',
];

/** Changes a JSON message in a few places, so that most are still JSON. */
export function mutateJson(message: Uint8Array, random: Random): Uint8Array {
  let text = new TextDecoder().decode(message);
  for (let left = random.below(5); left > 0; left--) {
    const at = random.below(text.length + 1);
    const to = Math.min(text.length, at + random.below(12));
    switch (random.below(5)) {
      case 0: // leave out
        text = text.slice(0, at) + text.slice(to);
        break;
      case 1: // put in
        text = text.slice(0, at) + random.pick(JSON_PIECES) + text.slice(at);
        break;
      case 2: { // another value for one member
        const members = [...text.matchAll(/"[a-z_]+":("[^"]*"|\d+|null|true|false)/g)];
        if (members.length === 0) break;
        const member = random.pick(members);
        const start = member.index + member[0].length - member[1]!.length;
        const end = member.index + member[0].length;
        text = text.slice(0, start) + random.pick(JSON_PIECES) + text.slice(end);
        break;
      }
      case 3: // a first member more
        text = text.replace("{", `{${random.pick(JSON_PIECES)}`);
        break;
      case 4: // say again
        text = text.slice(0, to) + text.slice(at, to) + text.slice(to);
        break;
    }
  }
  return encoder.encode(text);
}

/** Changes, drops and adds a few octets. */
export function mutateOctets(bytes: Uint8Array, random: Random): Uint8Array {
  const out = Array.from(bytes);
  for (let left = random.below(4); left > 0; left--) {
    const at = random.below(out.length + 1);
    switch (random.below(4)) {
      case 0:
        out.splice(at, random.below(8));
        break;
      case 1:
        out.splice(at, 0, ...random.bytes(random.below(4)));
        break;
      case 2:
        if (at < out.length) out[at] = random.pick([0, 1, 0x7f, 0x80, 0xff, random.below(256)]);
        break;
      case 3:
        out.length = at;
        break;
    }
  }
  return Uint8Array.from(out);
}
