import assert from "node:assert/strict";
import { json, one, type TestResponse, text } from "../helpers/http_message.ts";
import { coreTest } from "../helpers/mode.ts";
import { freePort } from "../helpers/nats_server.ts";
import type { Natsway } from "../helpers/natsway.ts";
import { type Rig, startRig } from "../helpers/rig.ts";
import { answer } from "../helpers/upstream.ts";
import { within } from "../helpers/wait.ts";

/** Says that a failure is the same in the client's body and in the log of the requester. */
async function assertFailure(
  rig: Rig,
  target: string,
  response: TestResponse,
  status: number,
  code: string,
): Promise<void> {
  assert.equal(response.status, status, text(response));
  assert.equal(response.complete, true);
  assert.equal(one(response, "content-type")?.split(";")[0], "application/json");
  const body = json(response);
  assert.equal(body["code"], code, text(response));
  assert.equal(typeof body["error"], "string");
  const line = await flowLine(rig.requester, target, code);
  assert.equal(line["status"], status);
  assert.equal(line["method"], "GET");
}

/** The one line of the flow for `target`, which must end with `code`. */
async function flowLine(role: Natsway, target: string, code: string) {
  const line = await role.flowClosed((event) => event["target"] === target);
  assert.equal(line["code"], code, JSON.stringify(line));
  assert.equal(line.level, "warning");
  return line;
}

/** Asks, and expects the failure in the body and in the logs of both roles. */
async function fails(rig: Rig, target: string, status: number, code: string): Promise<void> {
  await assertFailure(rig, target, await rig.request(target), status, code);
  await Promise.any(rig.receivers.map((receiver) => flowLine(receiver, target, code)));
}

for (const receivers of [1, 2] as const) {
  const also = `with receivers: ${receivers}`;

  Deno.test(`F56 an upstream that refuses: 502 target_refused, ${also}`, async () => {
    const url = `http://127.0.0.1:${freePort()}`;
    await using rig = await startRig({ receivers, receiverSettings: { UPSTREAM_URL: url } });
    await fails(rig, "/refuses", 502, "target_refused");
  });

  Deno.test(`F56 an upstream whose name is unknown: 502 target_not_found, ${also}`, async () => {
    const url = "http://no-such-name.invalid:80";
    await using rig = await startRig({ receivers, receiverSettings: { UPSTREAM_URL: url } });
    await fails(rig, "/unknown", 502, "target_not_found");
  });

  Deno.test(`F56 an upstream that is silent, closes or sends garbage, ${also}`, async () => {
    await using rig = await startRig({ receivers, receiverSettings: { UPSTREAM_TIMEOUT: "1" } });
    const { upstream } = rig;
    upstream.route("/silent", async (_, connection) => {
      await connection.waitEnd(60_000);
      return "close";
    });
    upstream.route("/closes", () => "close");
    upstream.route("/garbage", async (_, connection) => {
      await connection.write("SSH-2.0-OpenSSH_9.6\r\n\r\n");
      return "close";
    });
    await fails(rig, "/silent", 504, "target_timeout");
    await fails(rig, "/closes", 502, "target_broken");
    await fails(rig, "/garbage", 502, "target_broken");
  });

  coreTest(
    "a stream keeps what no receiver has a slot for",
    `F56 a full queue: 503 overloaded with Retry-After, ${also}`,
    async () => {
      await using rig = await startRig({
        receivers,
        receiverSettings: { RECEIVER_MAX_INFLIGHT: "1" },
      });
      const release = Promise.withResolvers<void>();
      rig.upstream.route("/held", async (_, connection) => {
        await release.promise;
        await connection.write(answer("held"));
      });
      // One slot and two places in the queue at each receiver: the rest is refused.
      const all = Array.from({ length: 20 }, async (_, i) => {
        const response = await rig.request(`/held/${i}`, { ms: 30_000 });
        return { target: `/held/${i}`, response };
      });
      const refused = await within(
        Promise.any(all.map(async (one) => {
          const { target, response } = await one;
          assert.equal(response.status, 503);
          return { target, response };
        })),
        10_000,
        "a 503 while all slots and places are taken",
      );
      release.resolve();
      await assertFailure(rig, refused.target, refused.response, 503, "overloaded");
      assert.match(one(refused.response, "retry-after") ?? "", /^[1-9]\d*$/);
      for (const { target, response } of await Promise.all(all)) {
        if (response.status === 200) assert.equal(text(response), "held");
        else await assertFailure(rig, target, response, 503, "overloaded");
      }
    },
  );

  Deno.test(`F56 NATS down: 503 nats_down, and back to 200, ${also}`, async () => {
    await using rig = await startRig({ receivers });
    await rig.nats.stop();
    await rig.requester.event("not ready");
    await assertFailure(rig, "/down", await rig.request("/down?q=1"), 503, "nats_down");
    const from = rig.requester.mark;
    const marks = rig.receivers.map((receiver) => receiver.mark);
    await rig.nats.restart();
    await rig.requester.event("ready", { from });
    for (const [i, receiver] of rig.receivers.entries()) {
      await receiver.event("ready", { from: marks[i] as number });
    }
    assert.equal((await rig.request("/up")).status, 200);
  });
}

coreTest(
  "a stream keeps a request until somebody comes",
  "F56 no receiver: 503 no_receiver",
  async () => {
    await using rig = await startRig({ receivers: 0 });
    await assertFailure(rig, "/nobody", await rig.request("/nobody"), 503, "no_receiver");
    const body = "x".repeat(200_000);
    const large = await rig.request("/nobody/large", { method: "POST", body });
    assert.equal(large.status, 503, text(large));
    assert.equal(json(large)["code"], "no_receiver");
  },
);

Deno.test("F56 MAX_FLOWS at the requester: 503 overloaded, the same in body and log", async () => {
  await using rig = await startRig({ requesterSettings: { MAX_FLOWS: "1" } });
  const release = Promise.withResolvers<void>();
  rig.upstream.route("/held", async (_, connection) => {
    await release.promise;
    await connection.write(answer("held"));
  });
  const held = rig.request("/held");
  await rig.upstream.request("/held");
  const over = await rig.request("/over");
  release.resolve();
  await assertFailure(rig, "/over", over, 503, "overloaded");
  assert.notEqual(one(over, "retry-after"), null);
  assert.equal((await held).status, 200);
});
