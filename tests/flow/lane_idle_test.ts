import assert from "node:assert/strict";
import type { LaneFlowOptions } from "../../lib/flow/lane_types.ts";
import { encodeHeadPrefix } from "../../lib/protocol/frames.ts";
import { octets } from "../helpers/bytes.ts";
import { EPOCH, HostRig, type OpenFlow, pattern } from "./lane_rig.ts";

const T = 15_000;
const TEN_MINUTES = 600_000;
/** The longest that the loss of a peer takes to be seen: a third until the first probe, then all of it. */
const BOUND = T / 3 + T;

/** Both ends of one flow on one clock, with a wire between them that can be cut. */
class PairRig {
  readonly requester = new HostRig();
  readonly receiver = new HostRig();
  readonly near: OpenFlow;
  readonly far: OpenFlow;
  cut = false;

  constructor(shared: Partial<LaneFlowOptions>, near: Partial<LaneFlowOptions> = {}) {
    this.near = this.requester.open({ ...shared, ...near, role: "requester", epoch: null });
    this.far = this.receiver.open({ ...shared, role: "receiver" });
  }

  /** The requester accepts the first event. */
  bind(limit: number): void {
    const first = { epoch: EPOCH, instance: "peer", limit, whole: false };
    this.requester.host.first("f", "peer", first);
  }

  /** Brings over what was said until nothing more is. */
  exchange(): void {
    for (let moved = true; moved;) {
      moved = false;
      for (
        const [from, to] of [[this.near, this.receiver], [this.far, this.requester]] as const
      ) {
        for (const frame of from.wire.frames.splice(0)) {
          moved = true;
          if (!this.cut) to.host.receive("f", frame);
        }
      }
    }
  }

  /** Moves both clocks by `ms`, with all that is due on the way; returns how many frames passed. */
  pass(ms: number): void {
    const rigs = [this.requester, this.receiver];
    const end = this.requester.ms + ms;
    for (let i = 0;; i++) {
      if (i > 100_000) throw new Error("the hosts want to be called without end");
      const at = Math.min(...rigs.map((rig) => rig.host.nextAt));
      if (at > end) break;
      for (const rig of rigs) rig.ms = Math.max(rig.ms, at);
      for (const rig of rigs) rig.host.run();
      this.exchange();
    }
    for (const rig of rigs) rig.ms = end;
  }

  get ends(): (string | undefined)[] {
    return [this.near.app.end()?.reason, this.far.app.end()?.reason];
  }
}

/** A tunnel that is open, and has carried something. */
function tunnel(): PairRig {
  const rig = new PairRig({});
  rig.far.flow.established();
  rig.bind(10_000);
  rig.exchange();
  rig.near.flow.offer(pattern(0, 100), 0, 100);
  rig.exchange();
  return rig;
}

/** A streamed response whose head is there. */
function stream(): PairRig {
  const rig = new PairRig(
    { responseHead: true, sends: true, receives: false },
    { sends: false, receives: true, closeBy: "cancel" },
  );
  const nothing = octets("");
  const head = { status: 200, reason: nothing, info: nothing, fields: nothing, declaredLength: -1 };
  rig.far.flow.respond(encodeHeadPrefix(EPOCH, head, false), nothing, 0, 0, false);
  rig.bind(0);
  rig.exchange();
  return rig;
}

for (const [name, start] of [["tunnel", tunnel], ["stream", stream]] as const) {
  Deno.test(`A ${name} that is silent for 10 minutes, then 10 hours, is alive and carries on`, () => {
    const rig = start();
    for (const ms of [TEN_MINUTES, 60 * TEN_MINUTES]) {
      rig.pass(ms);
      assert.deepEqual(rig.ends, [undefined, undefined]);
      const before = rig.near.app.bytes.length;
      assert.equal(rig.far.flow.offer(pattern(0, 500), 0, 500), 500);
      rig.exchange();
      assert.equal(rig.near.app.bytes.length, before + 500);
      rig.near.flow.delivered(500);
    }
    rig.far.flow.finish();
    rig.near.flow.finish();
    rig.exchange();
    if (name === "tunnel") rig.far.flow.delivered(100);
    rig.pass(T);
    assert.deepEqual(rig.ends, ["ok", "ok"]);
  });

  Deno.test(`A ${name} whose ends no longer hear each other ends at both within the bound, also after 10 minutes`, () => {
    const rig = start();
    rig.pass(TEN_MINUTES);
    rig.cut = true;
    rig.pass(T - 1);
    assert.deepEqual(rig.ends, [undefined, undefined], "an outage is survived");
    rig.pass(BOUND - T + 1);
    assert.deepEqual(rig.ends, ["peer_lost", "peer_lost"]);
  });

  Deno.test(`A ${name} that is cut for less than PEER_TIMEOUT loses nothing`, () => {
    const rig = start();
    rig.pass(TEN_MINUTES);
    rig.cut = true;
    rig.far.flow.offer(pattern(0, 500), 0, 500);
    rig.exchange();
    rig.pass(T - 3_000);
    rig.cut = false;
    rig.pass(4_000);
    assert.deepEqual(rig.ends, [undefined, undefined]);
    assert.deepEqual(rig.near.app.bytes, pattern(0, 500));
  });
}

Deno.test("A quiet flow costs few frames: one question and one answer in a third of PEER_TIMEOUT", () => {
  const rig = tunnel();
  const seen: string[] = [];
  const { publish } = rig.near.wire;
  rig.near.wire.publish = function (parts, probe) {
    seen.push("frame");
    publish.call(this, parts, probe);
  };
  rig.pass(TEN_MINUTES);
  assert.ok(seen.length <= 2 * TEN_MINUTES / (T / 3) + 2, `${seen.length} frames`);
});
