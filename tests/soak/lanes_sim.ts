/**
 * One simulated schedule of lanes, from the requests to the last end.
 * @module
 */
import type { LaneFlow } from "../../lib/flow/lane_flow.ts";
import { laneTimes } from "../../lib/flow/lane_types.ts";
import { FLOW_RESERVE_BYTES } from "../../lib/flow/memory_budget.ts";
import { SimApp } from "./lanes_sim_app.ts";
import { Checks, mergedSpans } from "./lanes_sim_checks.ts";
import { Link, Simulation, type Traffic } from "./lanes_sim_net.ts";
import { type Mutation, SimProcess, SIZES } from "./lanes_sim_process.ts";
import {
  CLASSES,
  type FlowKind,
  makeSchedule,
  makeScript,
  PEER_TIMEOUT_MS,
  Random,
  type Schedule,
  type ScheduleClass,
} from "./lanes_sim_schedule.ts";

/** One flow with all its executions. */
export interface Pair {
  readonly id: string;
  readonly kind: FlowKind;
  readonly requester: SimApp;
  readonly receivers: SimApp[];
}

export interface Outcome {
  readonly seed: number;
  readonly class: ScheduleClass;
  readonly schedule: Schedule;
  readonly violations: readonly string[];
  readonly traffic: Traffic;
  readonly deliveredBytes: number;
  readonly longestStallMs: number;
  readonly idleControlPerS: number;
  /** How many flow ends ended how. */
  readonly ends: ReadonlyMap<string, number>;
  /** Most memory of one process, as a part of its budget. */
  readonly memoryShare: number;
}

const KINDS: readonly FlowKind[] = ["tunnel", "http", "upload", "tunnel"];
const SAMPLE_MS = 250;
const MOST_STEPS = 3_000_000;

/** Runs the schedule of a seed to its end. `only` fixes the class. */
export function runSchedule(seed: number, mutation: Mutation = {}, only?: ScheduleClass): Outcome {
  const random = new Random(seed * 7919 + 13);
  const name = only ?? CLASSES[seed % CLASSES.length]!;
  const schedule = makeSchedule(random, name);
  const simulation = new Simulation();
  const link = new Link(simulation, schedule, new Random(seed ^ 0x5bd1e995));
  const violations: string[] = [];
  const violation = (text: string) => {
    if (violations.length < 5) violations.push(`${text} @${Math.round(simulation.now)}`);
  };
  const pairs: Pair[] = [];
  const processes: SimProcess[] = [];
  let executions = 0;

  const openRequester = (id: string, kind: FlowKind): Pair => {
    const process = processes[0]!;
    const app = new SimApp({
      simulation,
      script: makeScript(random, schedule, kind, true),
      kind,
      role: "requester",
      shift: random.whole(0, 60_000),
      act: (run) => process.act(run),
      violation,
    });
    const owner = () => processes.find((one) => one.apps.includes(app.peer!)) ?? null;
    app.flow = process.host.open({
      id,
      role: "requester",
      epoch: null,
      sends: app.sends,
      receives: app.receives,
      responseHead: kind !== "tunnel",
      closeBy: kind === "tunnel" ? "lane" : "cancel",
      limit: 0,
      answerTimeoutMs: schedule.answerTimeoutMs,
      sizes: SIZES,
      app,
      wire: process.wire(id, owner, () => app.flow),
    })!;
    process.apps.push(app);
    app.run();
    return { id, kind, requester: app, receivers: [] };
  };

  const openReceiver = (process: SimProcess, id: string, window: number, workMs: number) => {
    const pair = pairs[Number(id)]!;
    const epoch = new Uint8Array(8);
    epoch[7] = mutation.oneEpoch === true ? 1 : ++executions;
    const app = new SimApp({
      simulation,
      script: makeScript(random, schedule, pair.kind, false),
      kind: pair.kind,
      role: "receiver",
      shift: random.whole(0, 60_000),
      act: (run) => process.act(run),
      violation,
    });
    app.peer = pair.requester;
    const flow: LaneFlow | null = process.host.open({
      id,
      role: "receiver",
      epoch,
      sends: app.sends,
      receives: app.receives,
      responseHead: pair.kind !== "tunnel",
      closeBy: "lane",
      limit: window,
      answerTimeoutMs: Infinity,
      sizes: SIZES,
      app,
      wire: process.wire(id, () => processes[0]!, () => app.flow),
    });
    if (flow === null) return; // overloaded: said elsewhere
    app.flow = flow;
    flow.joinPeer("p0");
    process.apps.push(app);
    pair.receivers.push(app);
    app.run();
    simulation.at(simulation.now + workMs, () =>
      process.act(() => {
        if (app.end === null) app.start();
      }));
  };

  for (const index of [0, 1, 2]) {
    processes.push(
      new SimProcess({
        index,
        simulation,
        link,
        stations: processes,
        times: laneTimes(PEER_TIMEOUT_MS),
        budgetBytes: Math.max(
          schedule.budgets[index]!,
          // The process that runs all twice needs the reserve for it.
          schedule.flows * (schedule.second > 0 ? 2 : 1) * FLOW_RESERVE_BYTES,
        ),
        maxFlows: schedule.flows * (schedule.second > 0 ? 2 : 1),
        mutation,
        onRequest: (process, id, window) => {
          const workMs = random.chance(0.7) ? random.between(0, 300) : random.between(0, 6000);
          openReceiver(process, id, window, workMs);
        },
        violation,
      }),
    );
  }
  const [requester, receiver] = processes as [SimProcess, SimProcess, SimProcess];
  for (const { process, start, end } of schedule.disconnects) {
    simulation.at(start, () => processes[process]!.connect(false));
    simulation.at(end, () => processes[process]!.connect(true));
  }
  for (const { process, start, end } of schedule.pauses) {
    simulation.at(start, () => processes[process]!.pause());
    simulation.at(end, () => processes[process]!.resume());
  }
  for (const { process, at } of schedule.deaths) {
    simulation.at(at, () => processes[process]!.die());
  }
  for (let i = 0; i < schedule.flows; i++) {
    const kind = name === "stuck"
      ? "tunnel"
      : name === "head"
      ? "upload"
      : KINDS[random.whole(0, 3)]!;
    const id = String(i);
    const startAt = i * 0.001 + random.between(0, 1) * (schedule.flows === 1 ? 500 : 0);
    const secondMs = random.between(0, 4000);
    simulation.at(startAt, () =>
      requester.act(() => {
        const pair = openRequester(id, kind);
        pairs.push(pair);
        const message = { kind: "request", id, window: pair.requester.flow.limit } as const;
        requester.send(receiver, message);
        if (schedule.second === 0) return;
        const again = processes[schedule.second]!;
        simulation.at(simulation.now + secondMs, () => requester.send(again, message));
      }));
  }

  const checks = new Checks({ schedule, processes, pairs, simulation, link, violation });
  const spans = mergedSpans(schedule);
  let sampleAt = SAMPLE_MS;
  let steps = 0;
  while (simulation.step(schedule.horizonMs)) {
    if (++steps > MOST_STEPS) {
      violation("too many steps");
      break;
    }
    if (violations.length >= 5) break;
    if (simulation.now < sampleAt) continue;
    sampleAt = simulation.now + SAMPLE_MS;
    checks.sample(spans);
    if (simulation.now > 5000 && checks.allOver) break;
  }
  checks.final(spans);
  const ends = new Map<string, number>();
  for (const pair of pairs) {
    for (const app of [pair.requester, ...pair.receivers]) {
      const end = app.end === null ? "open" : app.end.reason + (app.end.byPeer ? " (peer)" : "");
      ends.set(end, (ends.get(end) ?? 0) + 1);
    }
  }
  return {
    seed,
    class: name,
    schedule,
    violations,
    traffic: link.traffic,
    deliveredBytes: checks.deliveredBytes,
    longestStallMs: checks.longestStallMs,
    idleControlPerS: checks.idleControlPerS,
    ends,
    memoryShare: checks.memoryShare,
  };
}
