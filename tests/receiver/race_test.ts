import assert from "node:assert/strict";
import { race, type RaceOptions } from "../../lib/receiver/race.ts";
import { EventLog, within } from "../helpers/wait.ts";

/** Longer than any test: the next attempt starts only when one fails. */
const NEVER_MS = 60_000;

interface Attempt {
  readonly name: string;
  readonly signal: AbortSignal;
  readonly win: (prize: string) => void;
  readonly lose: (error: unknown) => void;
}

/** A race whose attempts the test decides. */
class Rig {
  readonly attempts = new EventLog<Attempt>();
  readonly discarded = new EventLog<string>();
  readonly abort = new AbortController();

  run(names: string[], options: Partial<RaceOptions<string, string>> = {}) {
    const result = race(names, {
      attempt: (name, signal) => {
        const { promise, resolve, reject } = Promise.withResolvers<string>();
        this.attempts.add({ name, signal, win: resolve, lose: reject });
        return promise;
      },
      discard: (prize) => this.discarded.add(prize),
      delayMs: NEVER_MS,
      signal: this.abort.signal,
      ...options,
    });
    return within(result, 5_000, "the end of the race");
  }

  attempt(name: string): Promise<Attempt> {
    return this.attempts.find((it) => it.name === name, { ms: 5_000, what: `attempt ${name}` });
  }

  get started(): string[] {
    return this.attempts.events.map((it) => it.name);
  }
}

Deno.test("the first attempt that succeeds wins, and the others never start", async () => {
  const rig = new Rig();
  const result = rig.run(["a", "b"]);
  (await rig.attempt("a")).win("A");
  assert.deepEqual(await result, { won: "A" });
  assert.deepEqual(rig.started, ["a"]);
});

Deno.test("an attempt that fails gives the field to the next at once", async () => {
  const rig = new Rig();
  const result = rig.run(["a", "b", "c"]);
  (await rig.attempt("a")).lose("no a");
  (await rig.attempt("b")).lose("no b");
  (await rig.attempt("c")).win("C");
  assert.deepEqual(await result, { won: "C" });
});

Deno.test("after the delay the next joins in, and either may win", async () => {
  for (const winner of ["a", "b"]) {
    const rig = new Rig();
    const result = rig.run(["a", "b"], { delayMs: 1 });
    const [a, b] = [await rig.attempt("a"), await rig.attempt("b")];
    assert.equal(a.signal.aborted || b.signal.aborted, false);
    (winner === "a" ? a : b).win(winner);
    assert.deepEqual(await result, { won: winner });
    assert.equal(a.signal.aborted && b.signal.aborted, true);
  }
});

Deno.test("what comes after the race was decided is discarded", async () => {
  const rig = new Rig();
  const result = rig.run(["a", "b"], { delayMs: 1 });
  const [a, b] = [await rig.attempt("a"), await rig.attempt("b")];
  b.win("B");
  a.win("A");
  assert.deepEqual(await result, { won: "B" });
  await rig.discarded.find((prize) => prize === "A", { ms: 5_000, what: "the late prize" });
});

Deno.test("when all fail, all failures are told in their order", async () => {
  const rig = new Rig();
  const result = rig.run(["a", "b"], { delayMs: 1 });
  const [a, b] = [await rig.attempt("a"), await rig.attempt("b")];
  b.lose("no b");
  a.lose("no a");
  assert.deepEqual(await result, { failures: ["no b", "no a"] });
});

Deno.test("a signal ends the race with the failures so far, and ends its attempts", async () => {
  const rig = new Rig();
  const result = rig.run(["a", "b", "c"]);
  (await rig.attempt("a")).lose("no a");
  const b = await rig.attempt("b");
  rig.abort.abort();
  assert.deepEqual(await result, { failures: ["no a"] });
  assert.equal(b.signal.aborted, true);
  b.win("B");
  await rig.discarded.find((prize) => prize === "B", { ms: 5_000, what: "the late prize" });
  assert.deepEqual(rig.started, ["a", "b"]);
});

Deno.test("a race that was ended before it began, or has nobody, starts nothing", async () => {
  const rig = new Rig();
  assert.deepEqual(await rig.run([]), { failures: [] });
  rig.abort.abort();
  assert.deepEqual(await rig.run(["a"]), { failures: [] });
  assert.deepEqual(rig.started, []);
});

Deno.test("an attempt that throws at once counts as a failure", async () => {
  const rig = new Rig();
  const atOnce = new Error("at once");
  const attempt = () => {
    throw atOnce;
  };
  assert.deepEqual(await rig.run(["a", "b"], { attempt }), { failures: [atOnce, atOnce] });
});
