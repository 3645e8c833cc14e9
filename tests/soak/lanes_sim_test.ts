import assert from "node:assert/strict";
import { type Outcome, runSchedule } from "./lanes_sim.ts";
import { BROKEN_RULES } from "./lanes_sim_mutations.ts";
import { CLASSES } from "./lanes_sim_schedule.ts";

/** With NATSWAY_TEST_FULL=1 the number of the contract. */
const SCHEDULES = Deno.env.get("NATSWAY_TEST_FULL") === "1" ? 100_000 : 1100;
/** One seed alone, as a failure names it. */
const ONLY = Deno.env.get("NATSWAY_LANES_SEED");
/** How many schedules may pass before a broken rule must show. */
const NOTICED_WITHIN = 200;

function explain({ seed, class: name, violations, schedule }: Outcome): string {
  return `NATSWAY_LANES_SEED=${seed} (${name}): ${violations.join("; ")}\n` +
    JSON.stringify(schedule);
}

Deno.test(`In ${SCHEDULES} schedules every byte arrives or the end is visible, within bounds`, () => {
  const seeds = ONLY === undefined
    ? Array.from({ length: SCHEDULES }, (_, i) => i + 1)
    : [Number(ONLY)];
  let bytes = 0;
  const endings = new Map<string, number>();
  for (const seed of seeds) {
    const outcome = runSchedule(seed);
    assert.deepEqual(outcome.violations, [], explain(outcome));
    bytes += outcome.deliveredBytes;
    for (const [end, count] of outcome.ends) endings.set(end, (endings.get(end) ?? 0) + count);
  }
  if (ONLY !== undefined) return;
  // The simulation itself must have done something, and have met every way to end.
  assert.ok(bytes > SCHEDULES * 50_000, `${bytes} bytes were delivered`);
  for (const end of ["ok", "reset", "reset (peer)", "canceled (peer)", "peer_lost", "gap"]) {
    assert.ok((endings.get(end) ?? 0) > 0, `no flow ended with ${end}`);
  }
});

Deno.test("A seed gives the same schedule and the same outcome each time", () => {
  for (let seed = 1; seed <= CLASSES.length; seed++) {
    assert.deepEqual(runSchedule(seed), runSchedule(seed));
  }
});

for (const [name, { mutation, class: only }] of Object.entries(BROKEN_RULES)) {
  Deno.test(`The simulation notices when ${name}`, () => {
    for (let seed = 1; seed <= NOTICED_WITHIN; seed++) {
      if (runSchedule(seed, mutation, only).violations.length > 0) return;
    }
    assert.fail(`${NOTICED_WITHIN} schedules of class ${only} went well all the same`);
  });
}
