import assert from "node:assert/strict";
import { FLOW_RESERVE_BYTES, MemoryBudget } from "../../lib/flow/memory_budget.ts";
import { FirstWindows } from "../../lib/requester/first_windows.ts";

const KIB = 1024;

/** A budget with so much beyond the reserve. */
function windowsOver(sharedBytes: number) {
  const budget = new MemoryBudget({ totalBytes: FLOW_RESERVE_BYTES + sharedBytes, maxFlows: 1 });
  return { budget, windows: new FirstWindows(budget) };
}

Deno.test("An envelope grants 256 KiB, halved while a sixteenth of what is free is less", () => {
  const rows: [number, number][] = [
    [64 * 1024 * KIB, 256 * KIB],
    [16 * 248 * KIB, 256 * KIB],
    [16 * 248 * KIB - 16, 128 * KIB],
    [16 * 120 * KIB, 128 * KIB],
    [16 * 24 * KIB, 32 * KIB],
    [16, 8 * KIB],
    [0, 8 * KIB],
  ];
  for (const [sharedBytes, expected] of rows) {
    assert.equal(windowsOver(sharedBytes).windows.next(), expected, String(sharedBytes));
  }
});

Deno.test("What is on its way is counted until it is released, its reserve is not", () => {
  const { budget, windows } = windowsOver(16 * 248 * KIB);
  windows.hold(256 * KIB);
  assert.equal(budget.usedBytes, 248 * KIB);
  assert.equal(windows.next(), 128 * KIB);
  windows.hold(8 * KIB);
  assert.equal(budget.usedBytes, 248 * KIB);
  windows.release(256 * KIB);
  windows.release(8 * KIB);
  assert.equal(budget.usedBytes, 0);
  assert.equal(windows.next(), 256 * KIB);
});

Deno.test("However many envelopes are on their way, all of them together stay within the budget", () => {
  const { budget, windows } = windowsOver(4 * 1024 * KIB);
  for (let i = 0; i < 10_000; i++) windows.hold(windows.next());
  assert.ok(budget.freeBytes >= 0, `${budget.freeBytes}`);
  assert.equal(windows.next(), 8 * KIB, "the smallest costs nothing beyond the reserve");
});
