import assert from "node:assert/strict";
import { request } from "../helpers/client.ts";
import { startNatsway } from "../helpers/natsway.ts";
import { startRig } from "../helpers/rig.ts";
import { pause } from "../helpers/wait.ts";

const RESTARTS = 10;
const CLIENTS = 4;

for (const receivers of [1, 2] as const) {
  Deno.test(`F62 a requester that restarts ${RESTARTS} times under load binds at once, with receivers: ${receivers}`, async () => {
    await using rig = await startRig({ receivers });
    const { port } = rig;
    let going = true;
    const load = Promise.all(Array.from({ length: CLIENTS }, async () => {
      while (going) {
        await request(port, "/load").catch(() => {});
        await pause(5);
      }
    }));
    let requester = rig.requester;
    try {
      for (let i = 0; i < RESTARTS; i++) {
        requester.kill("SIGTERM");
        assert.equal((await requester.ended()).code, 0, requester.described("exit code"));
        requester = await startNatsway("requester", {
          ...rig.requesterSettings,
          PORT: String(port),
        });
        assert.equal((await request(port, `/bound/${i}`)).status, 200);
      }
    } finally {
      going = false;
      await load;
      await requester[Symbol.asyncDispose]();
    }
    assert.equal(rig.upstream.requestsFor("/bound/").length, RESTARTS);
  });
}
