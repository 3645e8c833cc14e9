import assert from "node:assert/strict";
import { concat, pattern, sha256 } from "../helpers/bytes.ts";
import { type ContractRig, contractRig, EVENTS, ID, SIZES } from "./contract_rig.ts";

const SEEDS = 150;

/** Numbers from 0 to 1, the same for the same seed. */
function randomOf(seed: number): () => number {
  let state = (seed * 2654435761) >>> 0 || 1;
  return () => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return (state >>> 0) / 2 ** 32;
  };
}

/** One end of a session with what it has to say, what it got, and how much of that its socket took. */
class End {
  readonly rig: ContractRig;
  readonly bytes: Uint8Array;
  readonly #pieces: Uint8Array[] = [];
  said = 0;
  got = 0;
  taken = 0;
  finished = false;

  constructor(side: "requester" | "receiver", bytes: Uint8Array) {
    this.rig = contractRig(side);
    this.bytes = bytes;
    this.rig.app.data = (piece) => {
      this.#pieces.push(piece.slice());
      this.got += piece.length;
    };
  }

  /** Digest of all that came. */
  get digest(): string {
    return sha256(concat(this.#pieces));
  }

  say(most: number): void {
    const size = Math.min(most, this.bytes.length - this.said);
    this.said += this.rig.flow.offer(this.bytes, this.said, this.said + size);
  }

  take(most: number): void {
    const size = Math.min(most, this.got - this.taken);
    this.taken += size;
    if (size > 0) this.rig.flow.delivered(size);
  }

  finish(): void {
    this.finished = true;
    this.rig.flow.finish();
  }
}

/** A link as Core is: in order, all messages of one end to the other, whatever their subject. */
function carry(from: End, to: End, most: number): void {
  for (const { subject, headers, data } of from.rig.wire.published.splice(0, most)) {
    if (subject !== EVENTS) to.rig.flow.receive({ token: ID, reply: "", headers, data });
    else to.rig.flow.peerClosed("target_closed");
  }
}

function run(seed: number): void {
  const random = randomOf(seed);
  const upTo = (most: number) => Math.floor(random() * most);
  const edge = new End("requester", pattern(upTo(200_000), seed + 1));
  const worker = new End("receiver", pattern(upTo(200_000), seed + 2));
  worker.rig.flow.open();
  edge.rig.flow.open();
  const ends = [edge, worker];
  const first = random() < 0.5 ? edge : worker;
  const size = random() < 0.3 ? 50 : 20_000;
  for (let step = 0; ends.some((end) => end.rig.app.end() === null); step++) {
    assert.ok(step < 200_000, `seed ${seed}: it does not come to an end`);
    const [one, other] = random() < 0.5 ? [edge, worker] : [worker, edge];
    const what = random();
    if (what < 0.35) one.say(1 + upTo(size));
    else if (what < 0.6) one.take(1 + upTo(size));
    else if (what < 0.95) carry(one, other, 1 + upTo(20));
    else for (const end of ends) end.rig.clock.pass(5);
    for (const end of ends) {
      const held = end.got - end.taken;
      assert.ok(held <= SIZES.initial + SIZES.batch, `seed ${seed}: ${held} bytes are held`);
      assert.deepEqual(end.rig.warnings, [], `seed ${seed}: credit was exceeded`);
    }
    // The contract has no half-close: who ends first has heard all that it wants to hear.
    const done = ends.every((end) => end.said === end.bytes.length) &&
      edge.got === worker.bytes.length && worker.got === edge.bytes.length;
    if (done && !first.finished) first.finish();
  }
  for (const [end, peer] of [[edge, worker], [worker, edge]] as const) {
    assert.deepEqual(end.rig.app.end(), { reason: "ok", byPeer: false }, `seed ${seed}`);
    assert.equal(end.digest, sha256(peer.bytes), `seed ${seed}`);
    assert.equal(end.taken, end.got);
    assert.equal(end.rig.clock.running, 0, `seed ${seed}: a wait is left`);
  }
}

Deno.test("Two ends bring every byte across, whatever the sizes, pauses and order of steps", () => {
  for (let seed = 1; seed <= SEEDS; seed++) run(seed);
});

Deno.test("What is on its way when an end is said arrives, in both directions", () => {
  for (let seed = 1; seed <= SEEDS; seed++) {
    const random = randomOf(seed);
    const edge = new End("requester", pattern(20_000, seed));
    const worker = new End("receiver", pattern(20_000, seed + 1));
    worker.rig.flow.open();
    edge.rig.flow.open();
    carry(worker, edge, 100);
    carry(edge, worker, 100);
    for (const end of [edge, worker]) end.say(1 + Math.floor(random() * 20_000));
    const [one, other] = random() < 0.5 ? [edge, worker] : [worker, edge];
    one.finish();
    for (const [from, to] of [[one, other], [other, one]] as const) {
      carry(from, to, 1000);
      to.take(Infinity);
      from.rig.clock.pass(60);
      to.rig.clock.pass(60);
    }
    for (const end of [other, one, other]) {
      end.rig.clock.pass(100);
      carry(end, end === one ? other : one, 1000);
      end.take(Infinity);
    }
    one.rig.clock.pass(100);
    for (const [end, peer] of [[edge, worker], [worker, edge]] as const) {
      assert.deepEqual(end.rig.app.end(), { reason: "ok", byPeer: false }, `seed ${seed}`);
      assert.equal(end.digest, sha256(peer.bytes.subarray(0, peer.said)), `seed ${seed}`);
    }
  }
});
