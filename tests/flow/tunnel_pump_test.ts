import assert from "node:assert/strict";
import type { ByteFlow } from "../../lib/flow/byte_flow.ts";
import { DeadlinesByLength } from "../../lib/flow/deadlines.ts";
import type { LaneEnd } from "../../lib/flow/lane_types.ts";
import { TunnelPump } from "../../lib/flow/tunnel_pump.ts";
import { latin1, octets } from "../helpers/bytes.ts";
import { MemorySocket } from "../helpers/unit_tunnel.ts";
import { EventLog, within } from "../helpers/wait.ts";

/** A flow that takes as much as the test lets it, and notes what it is told. */
class FakeFlow implements ByteFlow {
  readonly log = new EventLog<string>();
  taken = "";
  /** How many bytes it still takes. */
  room = Infinity;
  deliveredBytes = 0;
  /** Called at the end of each offer, before it returns. */
  offered = () => {};

  offer(buffer: Uint8Array, start: number, end: number): number {
    const size = Math.min(end - start, this.room);
    this.room -= size;
    this.taken += latin1(buffer.subarray(start, start + size));
    this.log.add(`offer ${end - start}`);
    this.offered();
    return size;
  }

  finish(): void {
    this.log.add("finish");
  }

  delivered(bytes: number): void {
    this.deliveredBytes += bytes;
    this.log.add("delivered");
  }

  reset(reason: string): void {
    this.log.add(`reset ${reason}`);
  }

  async says(text: string): Promise<void> {
    const describe = () => this.log.events.join();
    await this.log.find((one) => one === text, { ms: 5_000, what: text, describe });
  }
}

interface Rig extends Disposable {
  readonly socket: MemorySocket;
  readonly flow: FakeFlow;
  readonly pump: TunnelPump;
  readonly ends: LaneEnd[];
  /** Bytes read and written, as they were told last. */
  readonly bytes: { read: number; written: number };
}

function startPump({ idleMs = 0 } = {}): Rig {
  const socket = new MemorySocket();
  const flow = new FakeFlow();
  const ends: LaneEnd[] = [];
  const bytes = { read: 0, written: 0 };
  const deadlines = new DeadlinesByLength();
  const pump = new TunnelPump({
    socket,
    flow,
    idleMs,
    deadlines,
    onBytes: (read, written) => Object.assign(bytes, { read, written }),
    onEnd: (end) => ends.push(end),
  });
  pump.start();
  return { socket, flow, pump, ends, bytes, [Symbol.dispose]: () => deadlines.close() };
}

const OK: LaneEnd = { reason: "ok", byPeer: false };

Deno.test("What the socket says goes to the flow in order, and its end as a half-close", async () => {
  using rig = startPump();
  rig.socket.send("one ");
  rig.socket.send("two");
  rig.socket.sendEnd();
  await rig.flow.says("finish");
  assert.equal(rig.flow.taken, "one two");
  assert.deepEqual(rig.bytes, { read: 7, written: 0 });
  assert.deepEqual(rig.socket.log.events, [], "the other direction is open");
  rig.pump.data(octets("still"));
  await rig.socket.gets("still");
});

Deno.test("What the flow brings goes to the socket, is told when taken, and its end is a half-close behind it", async () => {
  using rig = startPump();
  rig.socket.hold();
  rig.pump.data(octets("abc"));
  rig.pump.data(octets("de"));
  rig.pump.eof();
  await Promise.resolve();
  assert.equal(rig.flow.deliveredBytes, 0, "nothing is told before the socket has it");
  assert.deepEqual(rig.socket.log.events, []);
  rig.socket.release();
  await rig.socket.sees("closeWrite");
  assert.equal(rig.socket.got, "abcde");
  assert.equal(rig.flow.deliveredBytes, 5);
  assert.deepEqual(rig.bytes, { read: 0, written: 5 });
  rig.socket.send("more");
  await rig.flow.says("offer 4");
});

Deno.test("A flow that takes no more is offered what came meanwhile together, and within a bound", async () => {
  using rig = startPump();
  rig.flow.room = 3;
  rig.socket.send("abcdefgh");
  await rig.flow.says("offer 8");
  rig.socket.send("ijk");
  await Promise.resolve();
  rig.flow.room = 4;
  rig.pump.room();
  await rig.flow.says("offer 8");
  assert.equal(rig.flow.taken, "abcdefg");
  rig.flow.room = Infinity;
  rig.pump.room();
  await rig.flow.says("offer 4");
  assert.equal(rig.flow.taken, "abcdefghijk");
  rig.flow.room = 0;
  let sent = 0;
  for (let reads = -1; reads !== rig.socket.reads && sent < 2 ** 20; sent += 8192) {
    reads = rig.socket.reads;
    rig.socket.send("x".repeat(8192));
    for (let turn = 0; turn < 20; turn++) await Promise.resolve();
  }
  assert.ok(sent <= 160 * 1024, `${sent} octets were read ahead`);
});

Deno.test("Room that is made while an offer is under way is used", async () => {
  using rig = startPump();
  rig.flow.room = 3;
  rig.flow.offered = () => {
    rig.flow.offered = () => {};
    rig.flow.room = Infinity;
    rig.pump.room();
  };
  rig.socket.send("abcdefgh");
  await rig.flow.says("offer 5");
  assert.equal(rig.flow.taken, "abcdefgh");
});

Deno.test("A client that takes nothing is told of no further than what it took", async () => {
  using rig = startPump();
  rig.pump.data(octets("first"));
  await rig.socket.gets("first");
  await rig.flow.says("delivered");
  rig.socket.hold();
  rig.pump.data(octets("x".repeat(100_000)));
  await Promise.resolve();
  assert.equal(rig.flow.deliveredBytes, 5);
  rig.socket.release();
  await rig.socket.gets(`first${"x".repeat(100_000)}`);
  assert.equal(rig.flow.deliveredBytes, 100_005);
});

Deno.test("A socket that breaks while it is read, or written, resets the flow", async () => {
  using reading = startPump();
  reading.socket.breakOff();
  await reading.flow.says("reset reset");
  using writing = startPump();
  writing.socket.sendEnd();
  await writing.flow.says("finish");
  writing.socket.breakOff();
  writing.pump.data(octets("x"));
  await writing.flow.says("reset reset");
  using closing = startPump();
  closing.socket.sendEnd();
  await closing.flow.says("finish");
  closing.socket.breakOff();
  closing.pump.eof();
  await closing.flow.says("reset reset");
});

Deno.test("A flow that ends well closes the socket behind the last byte, any other end resets it at once", async () => {
  using well = startPump();
  well.socket.hold();
  well.pump.data(octets("last"));
  well.pump.ended(OK);
  await Promise.resolve();
  assert.deepEqual(well.socket.log.events, []);
  well.socket.release();
  await well.socket.sees("close");
  assert.deepEqual(well.socket.log.events, ["wrote 4", "closeWrite", "close"]);
  assert.deepEqual(well.ends, [OK]);
  for (const reason of ["reset", "peer_lost", "canceled", "gone"]) {
    using rig = startPump();
    rig.socket.hold();
    rig.pump.data(octets("last"));
    const end = { reason, byPeer: true };
    rig.pump.ended(end);
    rig.pump.ended(OK);
    assert.deepEqual(rig.socket.log.events, ["reset"], "whatever is still buffered");
    assert.deepEqual(rig.ends, [end]);
  }
});

Deno.test("A flow that ends while the reading side waits for room ends that wait", async () => {
  using rig = startPump();
  rig.flow.room = 0;
  rig.socket.send("abc");
  await rig.flow.says("offer 3");
  rig.pump.ended({ reason: "gap", byPeer: false });
  await rig.socket.sees("reset");
  await new Promise((resolve) => setTimeout(resolve, 0));
  assert.deepEqual(rig.flow.log.events, ["offer 3"], "nothing more is said to a flow that is over");
});

Deno.test("Nothing in either direction for IDLE_TIMEOUT resets the flow; what passes starts the wait anew", async () => {
  using rig = startPump({ idleMs: 80 });
  const started = performance.now();
  for (let i = 0; i < 3; i++) {
    await new Promise((resolve) => setTimeout(resolve, 40));
    if (i === 1) rig.pump.data(octets("x"));
    else rig.socket.send("x");
  }
  await rig.flow.says("reset idle_timeout");
  assert.ok(performance.now() - started >= 120 + 80 - 2, `${performance.now() - started} ms`);
  rig.pump.ended({ reason: "idle_timeout", byPeer: false });
  assert.deepEqual(rig.socket.log.events.at(-1), "reset");
});

Deno.test("Without IDLE_TIMEOUT, and after the end, no clock runs", async () => {
  using idle = startPump();
  using ended = startPump({ idleMs: 20 });
  ended.pump.ended(OK);
  await within(ended.socket.sees("close"), 5_000, "the close");
  await new Promise((resolve) => setTimeout(resolve, 60));
  for (const { flow } of [idle, ended]) {
    assert.ok(!flow.log.events.includes("reset idle_timeout"));
  }
});
