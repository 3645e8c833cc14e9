import assert from "node:assert/strict";
import { LaneSender } from "../../lib/flow/lane_sender.ts";
import { FLOW_RESERVE_BYTES, MemoryBudget } from "../../lib/flow/memory_budget.ts";
import { encodeHeadPrefix, FrameType } from "../../lib/protocol/frames.ts";
import { concat, octets } from "../helpers/bytes.ts";
import { EPOCH, KIB, pattern, recordedOutput, SIZES, TIMES } from "./lane_rig.ts";

/** A sender with a limit, a clock, and a budget of `sharedBytes` beyond the reserve of two flows. */
function startSender(
  { limit = 10_000, sharedBytes = 1024 * KIB, startsWithHead = false, sizes = SIZES } = {},
) {
  const { wire, output } = recordedOutput();
  const budget = new MemoryBudget({
    totalBytes: 2 * FLOW_RESERVE_BYTES + sharedBytes,
    maxFlows: 2,
  });
  const rig = { ms: 1000, rooms: 0, probes: 0, freed: 0 };
  const sender = new LaneSender({
    output,
    budget,
    sizes,
    times: TIMES,
    now: () => rig.ms,
    startsWithHead,
    onRoom: () => rig.rooms++,
    onProbe: () => rig.probes++,
    waiter: { budgetFreed: () => rig.freed++ },
  });
  sender.open(limit);
  return { sender, wire, output, budget, rig };
}

function offer(sender: LaneSender, bytes: Uint8Array, last = false): number {
  return sender.offer(bytes, 0, bytes.length, last);
}

/** A frame of response head; `fields` octets long. */
function head(fields: number): Uint8Array {
  const parts = { status: 200, reason: octets(""), info: octets(""), declaredLength: -1 };
  return encodeHeadPrefix(EPOCH, { ...parts, fields: new Uint8Array(fields) }, false);
}

Deno.test("A lane numbers its bytes from 0 and cuts them into frames", () => {
  const { sender, wire } = startSender();
  assert.equal(offer(sender, pattern(0, 2500)), 2500);
  assert.deepEqual(wire.take(), ["data 0+1000", "data 1000+1000", "data 2000+500"]);
  assert.equal(offer(sender, pattern(2500, 2501)), 1);
  assert.deepEqual(wire.take(), ["data 2500+1"]);
});

Deno.test("Credit is absolute: nothing goes beyond the limit, and the larger one wins", () => {
  const { sender, wire, rig } = startSender({ limit: 300 });
  assert.equal(offer(sender, pattern(0, 500)), 300);
  assert.deepEqual(wire.take(), ["data 0+300"]);
  sender.window(0, 200, 0, false);
  assert.equal(rig.rooms, 0);
  sender.window(0, 400, 0, false);
  assert.equal(rig.rooms, 1);
  assert.equal(offer(sender, pattern(300, 500)), 100);
  assert.deepEqual(wire.take(), ["data 300+100"]);
});

Deno.test("What was sent is kept as a copy and sent again from next on, a probe behind it", () => {
  const { sender, wire } = startSender();
  const bytes = pattern(0, 2500);
  offer(sender, bytes);
  bytes.fill(0xff);
  wire.take();
  sender.window(700, 10_000, 0, true);
  const again = wire.frames.filter((frame) => frame.type === FrameType.Data);
  assert.deepEqual(concat(again.map((frame) => frame.body)), pattern(700, 2500));
  assert.deepEqual(wire.take(), ["data 700+1000", "data 1700+800", "probe 2500 #1"]);
});

Deno.test("A lane restarts once from each next, unless a probe behind the restart was answered", () => {
  const { sender, wire, rig } = startSender();
  offer(sender, pattern(0, 1500));
  wire.take();
  sender.window(500, 10_000, 0, true);
  assert.deepEqual(wire.take(), ["data 500+1000", "probe 1500 #1"]);
  rig.ms += 5000;
  sender.window(500, 10_000, 0, true);
  assert.deepEqual(wire.take(), [], "a copy of the same demand");
  sender.window(500, 10_000, 1, false);
  assert.deepEqual(wire.take(), [], "no demand");
  sender.window(500, 10_000, 1, true);
  assert.deepEqual(wire.take(), ["data 500+1000", "probe 1500 #2"]);
  rig.ms += 5000;
  sender.window(500, 10_000, 1, true);
  assert.deepEqual(wire.take(), [], "the answer to the probe before");
  sender.window(1000, 10_000, 1, true);
  assert.deepEqual(wire.take(), ["data 1000+500", "probe 1500 #3"], "another next");
});

Deno.test("Two restarts from one next are a second apart", () => {
  const { sender, wire, rig } = startSender();
  offer(sender, pattern(0, 100));
  sender.window(0, 10_000, 0, true);
  wire.take();
  rig.ms += 999;
  sender.window(0, 10_000, 1, true);
  assert.deepEqual(wire.take(), []);
  rig.ms += 1;
  sender.window(0, 10_000, 1, true);
  assert.deepEqual(wire.take(), ["data 0+100", "probe 100 #2"]);
});

Deno.test("A late window and one that acknowledges what was never sent change nothing", () => {
  const { sender, wire } = startSender();
  offer(sender, pattern(0, 1000));
  sender.window(600, 10_000, 0, false);
  wire.take();
  sender.window(200, 10_000, 0, true);
  assert.equal(sender.next, 600);
  assert.equal(sender.window(1001, 50_000, 0, false), false);
  assert.deepEqual([sender.next, sender.limit], [600, 10_000]);
  assert.deepEqual(wire.take(), []);
});

Deno.test("An unacknowledged tail is probed after 2 s without news, and every 2 s", () => {
  const { sender, rig } = startSender();
  assert.equal(sender.probeAt, Infinity);
  offer(sender, pattern(0, 100));
  assert.equal(sender.probeAt, 3000);
  rig.ms = 2500;
  sender.window(50, 10_000, 0, false);
  assert.equal(sender.probeAt, 4500, "it got on");
  rig.ms = 3000;
  sender.window(50, 10_000, 0, false);
  assert.equal(sender.probeAt, 4500, "a window that acknowledges nothing new is no news");
  rig.ms = 4500;
  sender.probe();
  assert.equal(sender.probeAt, 6500);
  sender.window(100, 10_000, 1, false);
  assert.equal(sender.probeAt, Infinity);
});

Deno.test("Bytes without a window are probed after 2 s", () => {
  const { sender, rig } = startSender({ limit: 0 });
  assert.equal(offer(sender, pattern(0, 10)), 0);
  assert.equal(sender.probeAt, 3000);
  rig.ms = 2000;
  sender.window(0, 0, 0, false);
  assert.equal(sender.probeAt, 4000);
});

Deno.test("A lane that its own budget stops probes at once, and goes on when something is freed", () => {
  const { sender, wire, budget, rig } = startSender({ limit: 100_000, sharedBytes: 0 });
  assert.equal(offer(sender, pattern(0, 20_000)), 8192);
  assert.equal(wire.take().at(-1), "probe 8192 #1");
  assert.equal(budget.usedBytes, 0);
  assert.equal(offer(sender, pattern(8192, 20_000)), 0);
  assert.deepEqual(wire.take(), [], "once for each stop");
  sender.window(4096, 100_000, 0, false);
  assert.equal(rig.rooms, 1);
  assert.equal(offer(sender, pattern(8192, 20_000)), 4096);
});

Deno.test("A lane that waits for the budget is called when another gives some back", () => {
  const { sender, budget, rig } = startSender({ limit: 100_000, sharedBytes: 8 * KIB });
  budget.change(0, 8 * KIB);
  assert.equal(offer(sender, pattern(0, 10_000)), 8192);
  budget.change(8 * KIB, 0);
  assert.equal(rig.freed, 1);
  sender.budgetFreed();
  assert.equal(rig.rooms, 1);
  assert.equal(offer(sender, pattern(8192, 10_000)), 10_000 - 8192);
});

Deno.test("No peer makes a lane keep more than the largest window", () => {
  const sizes = { ...SIZES, largestWindowBytes: 3000 };
  const { sender } = startSender({ limit: 1e9, sizes });
  assert.equal(offer(sender, pattern(0, 9000)), 3000);
  sender.window(1000, 1e9, 0, false);
  assert.equal(offer(sender, pattern(3000, 9000)), 1000);
});

Deno.test("eof needs no credit and takes one number, with the last byte or behind it", () => {
  const { sender, wire } = startSender({ limit: 5 });
  offer(sender, pattern(0, 5));
  sender.finish(octets(""));
  assert.deepEqual(wire.take(), ["data 0+5", "eof 5"]);
  sender.window(5, 5, 0, false);
  assert.equal(sender.eofAcknowledged, false);
  sender.window(6, 5, 0, false);
  assert.equal(sender.eofAcknowledged, true);
  const other = startSender();
  assert.equal(offer(other.sender, pattern(0, 1500), true), 1500);
  assert.deepEqual(other.wire.take(), ["data 0+1000", "data 1000+500 fin"]);
  other.sender.window(1200, 10_000, 0, true);
  assert.deepEqual(other.wire.take(), ["data 1200+300 fin", "probe 1501 #1"]);
});

Deno.test("Trailers are kept and sent again with eof", () => {
  const { sender, wire } = startSender();
  offer(sender, pattern(0, 5));
  sender.finish(octets("A: b\r\n"));
  assert.deepEqual(wire.take(), ["data 0+5", "eof 5 with trailers"]);
  sender.window(0, 10_000, 0, true);
  assert.deepEqual(wire.take(), ["data 0+5", "eof 5 with trailers", "probe 6 #1"]);
});

Deno.test("close may follow eof, needs no credit, and is sent again", () => {
  const { sender, wire } = startSender({ limit: 5 });
  offer(sender, pattern(0, 5), true);
  sender.close("reset");
  assert.equal(offer(sender, pattern(5, 6)), 0);
  assert.deepEqual(wire.take(), ["data 0+5 fin", "close 6 reset"]);
  sender.window(5, 5, 0, true);
  assert.deepEqual(wire.take(), ["eof 5", "close 6 reset", "probe 7 #1"]);
  sender.window(7, 5, 1, false);
  assert.equal(sender.closeAcknowledged, true);
});

Deno.test("A whole response is one frame, and nothing of it is kept", () => {
  const { sender, wire, budget } = startSender({ startsWithHead: true });
  const body = pattern(0, 500);
  assert.deepEqual(sender.head(head(50), body, 0, 500, true, true), { taken: 500, whole: true });
  assert.deepEqual(wire.take(), ["head 0+500 fin"]);
  assert.equal(sender.keptBytes, 0);
  assert.equal(sender.probeAt, Infinity);
  assert.equal(budget.usedBytes, 0);
});

Deno.test("A head takes one number and no credit; the rest of its body follows", () => {
  const { sender, wire } = startSender({ startsWithHead: true, limit: 301 });
  const body = pattern(0, 500);
  assert.deepEqual(sender.head(head(50), body, 0, 500, true, true), { taken: 300, whole: false });
  assert.deepEqual(wire.take(), ["head 0+300"]);
  assert.equal(sender.offer(body, 300, 500, true), 0);
  sender.window(301, 1000, 0, false);
  assert.equal(sender.offer(body, 300, 500, true), 200);
  assert.deepEqual(wire.take(), ["data 301+200 fin"]);
});

Deno.test("A head that is sent again never looks like a whole response", () => {
  const { sender, wire } = startSender({ startsWithHead: true, limit: 101 });
  const body = pattern(0, 200);
  sender.head(head(50), body, 0, 200, true, true);
  sender.window(0, 1000, 0, false);
  sender.offer(body, 100, 200, true);
  assert.deepEqual(wire.take(), ["head 0+100", "data 101+100 fin"]);
  sender.window(0, 1000, 0, true);
  assert.deepEqual(wire.take(), ["head 0+200", "eof 201", "probe 202 #1"]);
  sender.repeatHead();
  assert.deepEqual(wire.take(), ["head 0+200"]);
});

Deno.test("A head frame stays below the largest message", () => {
  const { sender, wire } = startSender({ startsWithHead: true });
  const { taken } = sender.head(head(3800), pattern(0, 900), 0, 900, false, true);
  assert.equal(taken, 4000 - 3800 - 35);
  assert.deepEqual(wire.take(), [`head 0+${taken}`]);
});

Deno.test("While the transport is full data waits, ends do not", () => {
  const { sender, wire, rig } = startSender();
  wire.ready = false;
  assert.equal(offer(sender, pattern(0, 10)), 0);
  wire.ready = true;
  sender.pump();
  assert.equal(rig.rooms, 1);
  offer(sender, pattern(0, 10));
  wire.take();
  wire.ready = false;
  sender.window(0, 10_000, 0, true);
  assert.deepEqual(wire.take(), []);
  wire.ready = true;
  sender.pump();
  assert.deepEqual(wire.take(), ["data 0+10", "probe 10 #1"]);
  wire.ready = false;
  sender.finish(octets(""));
  assert.deepEqual(wire.take(), ["eof 10"]);
});

Deno.test("While disconnected nothing is published; the lane goes on by a probe", () => {
  const { sender, wire, output, rig } = startSender();
  offer(sender, pattern(0, 10));
  output.connected = false;
  wire.take();
  assert.equal(offer(sender, pattern(10, 20)), 0);
  sender.close("reset");
  sender.probe();
  assert.deepEqual(wire.take(), []);
  output.connected = true;
  rig.ms += 5;
  sender.reconnected();
  assert.deepEqual(wire.take(), ["close 10 reset"]);
  assert.ok(sender.probeAt <= rig.ms);
});

Deno.test("A gap counts from the first answer to the latest probe, with three restarts", () => {
  const { sender, rig } = startSender();
  offer(sender, pattern(0, 10));
  for (let i = 1; i <= 3; i++) {
    assert.equal(sender.gapDueAt, Infinity, `after ${i - 1} restarts`);
    sender.probe();
    rig.ms += 2000;
    const latest = 2 * i - 1;
    sender.window(0, 10_000, latest, true);
  }
  assert.equal(sender.gapDueAt, 3000 + 15_000);
  sender.window(5, 10_000, 1, false);
  assert.equal(sender.gapDueAt, Infinity, "it got on");
});

Deno.test("All memory comes back with the acknowledgement, and with release", () => {
  const { sender, budget } = startSender({ limit: 1e6 });
  offer(sender, pattern(0, 100_000));
  assert.ok(budget.usedBytes >= 100_000 - 8192);
  sender.window(100_000, 1e6, 0, false);
  assert.deepEqual([sender.keptBytes, budget.usedBytes], [0, 0]);
  offer(sender, pattern(0, 100_000));
  sender.release();
  assert.deepEqual([sender.keptBytes, budget.usedBytes], [0, 0]);
});
