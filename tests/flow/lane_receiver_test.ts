import assert from "node:assert/strict";
import { LaneReceiver } from "../../lib/flow/lane_receiver.ts";
import type { LaneSizes } from "../../lib/flow/lane_types.ts";
import { FLOW_RESERVE_BYTES, MemoryBudget } from "../../lib/flow/memory_budget.ts";
import type { FrameHead } from "../../lib/protocol/frames.ts";
import { concat, octets } from "../helpers/bytes.ts";
import { KIB, pattern, recordedOutput, SIZES, TIMES } from "./lane_rig.ts";

interface Given {
  readonly sharedBytes?: number;
  readonly startsWithHead?: boolean;
  readonly sizes?: LaneSizes;
  readonly granted?: number;
}

/** A receiver whose first window is 64 KiB, and what it handed over. */
function startReceiver(
  { sharedBytes = 1024 * KIB, startsWithHead = false, sizes = SIZES, granted = 0 }: Given = {},
) {
  const { wire, output } = recordedOutput();
  const budget = new MemoryBudget({ totalBytes: FLOW_RESERVE_BYTES + sharedBytes, maxFlows: 1 });
  const rig = { ms: 1000, bytes: new Uint8Array(0) as Uint8Array, seen: [] as string[] };
  const receiver = new LaneReceiver({
    output,
    budget,
    sizes,
    times: TIMES,
    now: () => rig.ms,
    receives: true,
    startsWithHead,
    granted,
    consumer: {
      head: () => rig.seen.push("head"),
      data: (bytes) => rig.bytes = concat([rig.bytes, bytes]),
      eof: (trailers) => rig.seen.push(trailers.length > 0 ? "eof with trailers" : "eof"),
      close: (reason) => rig.seen.push(`close ${reason}`),
    },
  });
  return { receiver, wire, output, budget, rig };
}

const NOTHING = octets("");
const HEAD: FrameHead = {
  status: 200,
  reason: NOTHING,
  info: NOTHING,
  fields: NOTHING,
  declaredLength: -1,
};

function data(receiver: LaneReceiver, from: number, to: number, fin = false): void {
  receiver.data(from, null, pattern(from, to), fin);
}

Deno.test("Only what continues is taken: below is dropped, a straddling frame is cut", () => {
  const { receiver, rig } = startReceiver();
  data(receiver, 0, 100);
  data(receiver, 0, 100);
  data(receiver, 20, 60);
  data(receiver, 50, 150);
  data(receiver, 150, 151);
  assert.equal(receiver.next, 151);
  assert.deepEqual(rig.bytes, pattern(0, 151));
});

Deno.test("A gap is asked for once for each next, further only in answer to a probe", () => {
  const { receiver, wire, rig } = startReceiver();
  data(receiver, 0, 100);
  data(receiver, 200, 300);
  data(receiver, 300, 400);
  rig.ms += 10_000;
  data(receiver, 400, 500);
  assert.deepEqual(wire.take(), ["window 100 of 65536 resend"]);
  receiver.probe(500, 3, true);
  assert.deepEqual(wire.take(), ["window 100 of 65536 #3 resend"]);
  data(receiver, 100, 150);
  data(receiver, 200, 300);
  assert.deepEqual(wire.take(), ["window 150 of 65536 #3 resend"]);
  assert.deepEqual(rig.bytes, pattern(0, 150));
});

Deno.test("A lost eof and a lost close are gaps like others", () => {
  const { receiver, wire } = startReceiver();
  receiver.eof(5, NOTHING);
  assert.deepEqual(wire.take(), ["window 0 of 65536 resend"]);
  data(receiver, 0, 5);
  receiver.close(6, "reset");
  assert.deepEqual(wire.take(), ["window 5 of 65536 resend"]);
});

Deno.test("A probe is answered with the window and the largest serial; resend if something is missing", () => {
  const { receiver, wire } = startReceiver();
  receiver.probe(0, 7, true);
  receiver.probe(0, 4, true);
  receiver.probe(1, 8, true);
  assert.deepEqual(wire.take(), [
    "window 0 of 65536 #7",
    "window 0 of 65536 #7",
    "window 0 of 65536 #8 resend",
  ]);
});

Deno.test("A window is sent when half of it is used up", () => {
  const { receiver, wire, rig } = startReceiver();
  rig.ms += 2000;
  data(receiver, 0, 40_000);
  receiver.delivered(32_767);
  assert.deepEqual(wire.take(), []);
  receiver.delivered(1);
  assert.deepEqual(wire.take(), [`window 40000 of ${32_768 + 65_536}`]);
});

Deno.test("Without that, every frame is answered within a second, dropped ones included", () => {
  const { receiver, wire, rig } = startReceiver();
  assert.equal(receiver.windowDueAt, Infinity);
  data(receiver, 0, 10);
  rig.ms += 300;
  data(receiver, 10, 20);
  assert.equal(receiver.windowDueAt, 2000);
  receiver.answer();
  assert.deepEqual(wire.take(), ["window 20 of 65536"]);
  assert.equal(receiver.windowDueAt, Infinity);
  data(receiver, 0, 10);
  assert.equal(receiver.windowDueAt, 2300);
});

Deno.test("eof is acknowledged at once, whatever is still buffered", () => {
  const { receiver, wire, rig } = startReceiver();
  data(receiver, 0, 10, true);
  data(receiver, 0, 10, true);
  assert.deepEqual(wire.take(), ["window 11 of 65536"]);
  assert.deepEqual(rig.seen, ["eof"]);
  assert.equal(receiver.undelivered, 10);
  receiver.delivered(10);
  assert.equal(receiver.undelivered, 0);
  assert.deepEqual(wire.take(), [], "no credit behind the end");
  data(receiver, 11, 20);
  assert.equal(receiver.next, 11, "nothing follows an eof but close");
});

Deno.test("An eof whose bytes are known already counts alone, with its trailers", () => {
  const { receiver, rig } = startReceiver();
  data(receiver, 0, 10);
  data(receiver, 5, 10, true);
  assert.deepEqual([receiver.next, rig.seen], [11, ["eof"]]);
  const other = startReceiver();
  other.receiver.eof(0, octets("A: b\r\n"));
  assert.deepEqual(other.rig.seen, ["eof with trailers"]);
});

Deno.test("close in its place is acknowledged at once, also behind eof, and ends the lane", () => {
  const { receiver, wire, rig } = startReceiver();
  data(receiver, 0, 10, true);
  receiver.close(11, "reset");
  data(receiver, 12, 20);
  assert.deepEqual(wire.take(), ["window 11 of 65536", "window 12 of 65536"]);
  assert.deepEqual(rig.seen, ["eof", "close reset"]);
});

Deno.test("More than was granted is left alone", () => {
  const { receiver, rig } = startReceiver();
  data(receiver, 0, 65_000);
  data(receiver, 65_000, 66_000, true);
  assert.equal(receiver.next, 65_536);
  assert.equal(rig.bytes.length, 65_536);
  assert.deepEqual(rig.seen, []);
});

Deno.test("A head is handed over once and costs no credit", () => {
  const { receiver, wire, rig } = startReceiver({ startsWithHead: true });
  receiver.data(0, null, pattern(0, 10), false);
  assert.equal(receiver.next, 0, "the lane starts with its head");
  receiver.data(0, HEAD, pattern(0, 10), false);
  receiver.data(0, HEAD, pattern(0, 15), false);
  receiver.data(16, null, pattern(15, 20), true);
  assert.deepEqual([receiver.next, rig.seen], [22, ["head", "eof"]]);
  assert.deepEqual(rig.bytes, pattern(0, 20));
  assert.deepEqual(wire.take(), ["window 22 of 65536"]);
  receiver.delivered(20);
  assert.equal(receiver.undelivered, 0);
  const tunnel = startReceiver();
  tunnel.receiver.data(0, HEAD, pattern(0, 10), false);
  assert.equal(tunnel.receiver.next, 0, "a tunnel has none");
});

Deno.test("A silent lane answers nothing", () => {
  const { receiver, wire } = startReceiver({ startsWithHead: true });
  receiver.beSilent();
  receiver.data(0, HEAD, pattern(0, 10), true);
  assert.deepEqual(wire.take(), []);
  assert.equal(receiver.windowDueAt, Infinity);
});

Deno.test("The first grant is at most a sixteenth of what is free, never below the reserve", () => {
  assert.equal(startReceiver({ sharedBytes: 0 }).receiver.limit, 8192);
  assert.equal(startReceiver({ sharedBytes: 160 * KIB }).receiver.limit, 8192 + 10 * KIB);
  const { receiver, budget } = startReceiver();
  assert.equal(receiver.limit, 65_536);
  assert.equal(budget.usedBytes, 65_536 - 8192);
});

/** Lets the lane be used up to `bytes` in frames of 4 KiB, each delivered at once. */
function flood(lane: ReturnType<typeof startReceiver>, bytes: number, msEach: number): void {
  while (lane.receiver.next < bytes) {
    const size = Math.min(4096, lane.receiver.limit - lane.receiver.next);
    data(lane.receiver, lane.receiver.next, lane.receiver.next + size);
    lane.receiver.delivered(size);
    lane.rig.ms += msEach;
  }
}

Deno.test("A first grant that was announced before is kept, whatever the budget would grant now", () => {
  const { receiver, budget } = startReceiver({ sharedBytes: 0, granted: 32 * KIB });
  assert.equal(receiver.limit, 32 * KIB);
  assert.equal(budget.usedBytes, 24 * KIB, "it counts all the same");
  data(receiver, 0, 32 * KIB + 1);
  assert.equal(receiver.next, 32 * KIB);
  receiver.release();
  assert.equal(budget.usedBytes, 0);
});

Deno.test("A window that drains quickly grows, up to the largest", () => {
  const lane = startReceiver({ sharedBytes: 64 * 1024 * KIB });
  flood(lane, 2 * 1024 * KIB, 1);
  const window = lane.receiver.limit - lane.receiver.next;
  assert.ok(window > 128 * KIB && window <= 256 * KIB, `${window}`);
});

Deno.test("A window whose reader is slow does not grow, and a very slow one gives back", () => {
  const lane = startReceiver({ sharedBytes: 64 * 1024 * KIB });
  flood(lane, 512 * KIB, 100);
  assert.ok(lane.receiver.limit - lane.receiver.next <= 64 * KIB);
  flood(lane, 1024 * KIB, 1);
  assert.ok(lane.receiver.limit - lane.receiver.next > 128 * KIB);
  flood(lane, 2048 * KIB, 2000);
  assert.ok(lane.receiver.limit - lane.receiver.next <= 64 * KIB);
});

Deno.test("Growth stops at a sixteenth of the free budget, and comes back when there is more", () => {
  const lane = startReceiver({ sharedBytes: 1600 * KIB });
  lane.budget.change(0, 1500 * KIB);
  flood(lane, 500 * KIB, 1);
  assert.ok(lane.receiver.limit - lane.receiver.next <= 20 * KIB);
  assert.ok(lane.budget.freeBytes >= 0);
  lane.budget.change(1500 * KIB, 0);
  flood(lane, 3000 * KIB, 1);
  assert.ok(lane.receiver.limit - lane.receiver.next > 64 * KIB);
});

Deno.test("A lane that ends gives its grant back, and with release all of it", () => {
  const { receiver, budget } = startReceiver();
  data(receiver, 0, 20_000, true);
  assert.equal(budget.usedBytes, 20_000 - 8192);
  receiver.delivered(20_000);
  assert.equal(budget.usedBytes, 0);
  const other = startReceiver();
  data(other.receiver, 0, 20_000);
  other.receiver.release();
  assert.equal(other.budget.usedBytes, 0);
});
