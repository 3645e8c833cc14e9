import assert from "node:assert/strict";
import { hex } from "../../lib/protocol/hex.ts";
import { Dispatch } from "../../lib/receiver/dispatch.ts";
import { type Execution, Executions } from "../../lib/receiver/executions.ts";
import { octets } from "../helpers/bytes.ts";

function dispatch(slots: number) {
  const events: string[] = [];
  const releases: (() => void)[] = [];
  const ran: number[] = [];
  const one = new Dispatch({
    slots,
    onSaturated: () => events.push("saturated"),
    onRelieved: () => events.push("relieved"),
  });
  let next = 0;
  const submit = () => {
    const number = next++;
    return one.submit({
      run: (release) => {
        ran.push(number);
        releases.push(release);
      },
    });
  };
  return { one, events, releases, ran, submit };
}

Deno.test("Work runs at once while there are slots, then waits in turn, twice as many", () => {
  const { one, ran, releases, submit } = dispatch(2);
  for (let i = 0; i < 6; i++) assert.equal(submit(), true);
  assert.equal(submit(), false);
  assert.deepEqual([one.busy, one.waiting], [2, 4]);
  releases[1]!();
  releases[1]!();
  assert.deepEqual([one.busy, one.waiting], [2, 3], "a slot is given back once");
  for (let i = 0; i < 6; i++) releases[i]!();
  assert.deepEqual(ran, [0, 1, 2, 3, 4, 5]);
  assert.deepEqual([one.busy, one.waiting], [0, 0]);
});

Deno.test("Three quarters of the queue saturate, below one half relieves, each said once", () => {
  const { one, events, releases, submit } = dispatch(4);
  for (let i = 0; i < 9; i++) submit();
  assert.deepEqual([one.waiting, one.saturated], [5, false]);
  submit();
  assert.deepEqual([one.waiting, one.saturated], [6, true]);
  submit();
  submit();
  assert.deepEqual(events, ["saturated"]);
  for (let i = 0; i < 4; i++) releases[i]!();
  assert.deepEqual([one.waiting, one.saturated], [4, true]);
  releases[4]!();
  assert.deepEqual([one.waiting, one.saturated], [3, false]);
  assert.deepEqual(events, ["saturated", "relieved"]);
});

Deno.test("Work that gives its slot back while it starts does not let others overtake", () => {
  const ran: string[] = [];
  const one = new Dispatch({ slots: 1, onSaturated: () => {}, onRelieved: () => {} });
  let release = () => {};
  one.submit({ run: (done) => void (release = done) });
  one.submit({
    run: (done) => {
      ran.push("a");
      done();
    },
  });
  one.submit({ run: () => void ran.push("b") });
  release();
  assert.deepEqual(ran, ["a", "b"]);
  assert.equal(one.busy, 1);
});

/** An execution that only remembers how it was ended. */
function execution(id: string, epoch: string): Execution & { ends: string[] } {
  const ends: string[] = [];
  return {
    id,
    epoch: octets(epoch),
    cancel: (reason) => void ends.push(reason),
    stop: () => {},
    credit: () => {},
    keepAlive: () => {},
    receive: () => false,
    linkLost: () => {},
    ends,
  };
}

Deno.test("A cancel ends the executions of its id and epoch, and no others", () => {
  const executions = new Executions(1_000);
  const a = execution("q", "aaaaaaaa");
  const b = execution("q", "bbbbbbbb");
  const other = execution("other", "aaaaaaaa");
  for (const one of [a, b, other]) executions.add(one);
  assert.equal(executions.size, 3);
  executions.cancel("q", hex(octets("bbbbbbbb")), "one");
  executions.cancel("q", hex(octets("cccccccc")), "none");
  executions.cancel("q", null, "all");
  assert.deepEqual([a.ends, b.ends, other.ends], [["all"], ["one", "all"], []]);
  executions.remove(a);
  executions.remove(a);
  assert.deepEqual(executions.get("q"), [b]);
  assert.equal(executions.size, 2);
  assert.deepEqual(new Set(executions.all()), new Set([b, other]));
});

Deno.test("A cancel that found nothing is remembered once and for its time; one with an epoch never", () => {
  const executions = new Executions(60_000);
  executions.cancel("q", null, "r");
  assert.equal(executions.wasCancelled("q"), true);
  assert.equal(executions.wasCancelled("q"), false);
  executions.cancel("q", "00", "r");
  assert.equal(executions.wasCancelled("q"), false);
  const short = new Executions(-1);
  short.cancel("q", null, "r");
  assert.equal(short.wasCancelled("q"), false);
});

Deno.test("What is remembered is bounded: the oldest goes first, a repeated one counts as new", () => {
  const executions = new Executions(60_000);
  executions.cancel("first", null, "r");
  executions.cancel("second", null, "r");
  for (let i = 0; i < 9_998; i++) executions.cancel(`x${i}`, null, "r");
  executions.cancel("first", null, "again");
  executions.cancel("one more", null, "r");
  assert.equal(executions.wasCancelled("first"), true);
  assert.equal(executions.wasCancelled("second"), false);
  assert.equal(executions.wasCancelled("one more"), true);
});
