import assert from "node:assert/strict";
import { Topology } from "./topology.ts";
import { checkTraffic } from "./traffic.ts";

const MODES = [
  { mode: "core", sections: [] },
  { mode: "jetstream", sections: ["With JetStream"] },
] as const;

for (const { mode, sections } of MODES) {
  Deno.test(`accounts: requesters and receivers in accounts of their own, ${mode}`, async () => {
    await using topology = await Topology.start("accounts", { mode, sections });
    await checkTraffic(topology.port, topology.upstream);
    for (const name of ["requester", "receiver"]) {
      assert.equal((await topology.nats(name))["backend"], mode);
    }
  });
}
