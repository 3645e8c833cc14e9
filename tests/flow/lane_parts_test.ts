import assert from "node:assert/strict";
import { AwakeClock } from "../../lib/flow/lane_awake_clock.ts";
import { EndedFlows } from "../../lib/flow/lane_ended.ts";
import { KeptBytes } from "../../lib/flow/lane_kept.ts";
import { LaneSchedule, type Scheduled } from "../../lib/flow/lane_schedule.ts";
import { laneSizes, laneTimes } from "../../lib/flow/lane_types.ts";
import { FLOW_RESERVE_BYTES, MemoryBudget } from "../../lib/flow/memory_budget.ts";
import { concat } from "../helpers/bytes.ts";
import { KIB, pattern } from "./lane_rig.ts";

function budgetOf(sharedBytes: number): MemoryBudget {
  return new MemoryBudget({ totalBytes: FLOW_RESERVE_BYTES + sharedBytes, maxFlows: 1 });
}

Deno.test("Kept bytes come back by number, whatever was appended and released", () => {
  let random = 7;
  const next = (below: number) => {
    random = (Math.imul(random, 1_103_515_245) + 12_345) & 0x7fff_ffff;
    return random % below;
  };
  for (let round = 0; round < 30; round++) {
    const budget = budgetOf(next(3) * 100 * KIB);
    const kept = new KeptBytes(budget, 1);
    let start = 1;
    for (let i = 0; i < 100; i++) {
      const size = Math.min(next(20_000), kept.roomBytes);
      kept.append(pattern(kept.end, kept.end + size));
      assert.ok(kept.capacityBytes <= 8 * KIB + Math.max(0, budget.usedBytes));
      assert.ok(budget.freeBytes >= 0);
      if (next(2) === 0) {
        start += next(kept.end - start + 1);
        kept.release(start);
      }
      assert.equal(kept.start, start);
      const parts: Uint8Array[] = [];
      for (let at = start; at < kept.end; at += parts.at(-1)!.length) {
        parts.push(kept.view(at, 5000));
        assert.ok(parts.at(-1)!.length > 0);
      }
      if (i % 10 === 0) assert.deepEqual(concat(parts), pattern(start, kept.end));
    }
    kept.clear();
    assert.deepEqual([kept.capacityBytes, budget.usedBytes], [0, 0]);
  }
});

Deno.test("Without budget a lane keeps its reserve, and has room again with each acknowledgement", () => {
  const kept = new KeptBytes(budgetOf(0), 0);
  assert.equal(kept.roomBytes, 8 * KIB);
  kept.append(pattern(0, 8 * KIB));
  assert.equal(kept.roomBytes, 0);
  kept.release(5000);
  assert.equal(kept.roomBytes, 4 * KIB);
  kept.append(pattern(8 * KIB, 12 * KIB));
  kept.release(12 * KIB);
  assert.equal(kept.roomBytes, 8 * KIB);
});

Deno.test("A budget below the reserve of all flows is refused, and no more flows get one", () => {
  const wrong = { totalBytes: 10 * FLOW_RESERVE_BYTES - 1, maxFlows: 10 };
  assert.throws(() => new MemoryBudget(wrong), RangeError);
  const budget = budgetOf(1600);
  assert.equal(budget.grantableBytes, 100);
  assert.equal(budget.open(), true);
  assert.equal(budget.open(), false);
  budget.close();
  assert.equal(budget.open(), true);
});

Deno.test("Waiters for budget have their turn in order, as many as could take something", () => {
  const budget = budgetOf(16 * KIB);
  budget.change(0, 16 * KIB);
  const called: string[] = [];
  const waiters = ["a", "b", "c"].map((name) => ({ budgetFreed: () => called.push(name) }));
  for (const waiter of waiters) budget.wait(waiter);
  budget.change(16 * KIB, 13 * KIB);
  assert.deepEqual(called, []);
  budget.change(13 * KIB, 12 * KIB);
  assert.deepEqual(called, ["a"]);
  budget.leave(waiters[1]!);
  assert.deepEqual(called, ["a", "c"]);
  budget.change(12 * KIB, 0);
  assert.deepEqual(called, ["a", "c"]);
});

Deno.test("The schedule calls in order of time, each item once, and says when it must be earlier", () => {
  const earlier: number[] = [];
  const called: [string, number][] = [];
  const schedule = new LaneSchedule((at) => earlier.push(at));
  let now = 0;
  const item = (name: string): Scheduled => (
    { queuedAt: Infinity, heapIndex: -1, run: () => called.push([name, now]) }
  );
  const [a, b, c] = [item("a"), item("b"), item("c")];
  schedule.set(a, 30);
  schedule.set(b, 20);
  schedule.set(c, 40);
  schedule.set(a, 50); // later: it is called at 30 all the same, and asks again
  schedule.set(c, 10);
  schedule.set(c, Infinity);
  assert.deepEqual(earlier, [30, 20, 10]);
  for (; now <= 60; now++) schedule.run(now);
  assert.deepEqual(called, [["c", 10], ["b", 20], ["a", 30]]);
  assert.equal(schedule.nextAt, Infinity);
});

Deno.test("Ended flows are forgotten after their time, and the oldest when there are too many", () => {
  const ended = new EndedFlows(100, 2);
  ended.add("a", { next: 1, reason: "" }, 0);
  ended.add("b", { next: 2, reason: "gap" }, 50);
  assert.equal(ended.get("a", 99)?.next, 1);
  assert.equal(ended.get("a", 100), null);
  ended.add("c", { next: 3, reason: "" }, 60);
  assert.equal(ended.get("a", 60), null);
  assert.equal(ended.get("b", 60)?.reason, "gap");
  ended.add("d", { next: 4, reason: "" }, 1000);
  assert.equal(ended.size, 1);
});

Deno.test("A clock stands while the process does", () => {
  let real = 1000;
  const clock = new AwakeClock(() => real);
  real += 400;
  assert.equal(clock.now(), 1400);
  real += 60_000;
  assert.equal(clock.now(), 1900);
  real += 100;
  assert.equal(clock.now(), 2000);
});

Deno.test("A short PEER_TIMEOUT shortens what must fit into it", () => {
  assert.deepEqual(laneTimes(15_000).probeMs, 2000);
  const times = laneTimes(1200);
  assert.deepEqual([times.probeMs, times.windowMs, times.restartMs], [200, 100, 100]);
  assert.equal(laneSizes(1_048_576).frameBytes, 131_072);
  assert.equal(laneSizes(1000).frameBytes, 936);
});
