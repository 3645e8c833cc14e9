import assert from "node:assert/strict";
import { json, one, text } from "../helpers/http_message.ts";
import { startRig } from "../helpers/rig.ts";
import { answer } from "../helpers/upstream.ts";
import { pause, within } from "../helpers/wait.ts";

Deno.test("a saturated receiver makes requests wait or answers 503 overloaded with Retry-After", async () => {
  await using rig = await startRig({ receiverSettings: { RECEIVER_MAX_INFLIGHT: "2" } });
  const release = Promise.withResolvers<void>();
  rig.upstream.route("/held", async (_, connection) => {
    await release.promise;
    await connection.write(answer("held"));
  });
  const first = [rig.request("/held/0"), rig.request("/held/1")];
  await Promise.all([rig.upstream.request("/held/0"), rig.upstream.request("/held/1")]);
  const more = Array.from({ length: 30 }, (_, i) => rig.request(`/held/${i + 2}`));
  // Those that do not wait are answered without the upstream's help.
  const refused: number[] = [];
  for (const answered of more) answered.then((response) => refused.push(response.status));
  const rejected = await within(
    Promise.any(more.map(async (answered) => {
      const response = await answered;
      assert.equal(response.status, 503);
      return response;
    })),
    10_000,
    "a 503 while both slots and the queue are taken",
  );
  assert.equal(json(rejected)["code"], "overloaded");
  assert.match(one(rejected, "retry-after") ?? "", /^\d+$/);
  assert.ok(rig.upstream.requestsFor("/held").length <= 2, "more than the slots were taken");
  assert.equal(refused.includes(200), false);
  release.resolve();
  const all = await Promise.all([...first, ...more]);
  for (const response of all) {
    if (response.status === 503) assert.equal(json(response)["code"], "overloaded");
    else assert.equal(text(response), "held");
  }
  assert.ok(all.filter((response) => response.status === 200).length >= 4, "the queue was lost");
  const served = rig.upstream.requestsFor("/held").length;
  assert.equal(served, all.filter((response) => response.status === 200).length);
  // It is back in the pool.
  assert.equal((await rig.request("/relaxed")).status, 200);
});

Deno.test("a saturated receiver leaves new requests to the other one", async () => {
  await using rig = await startRig({
    receivers: 2,
    receiverSettings: { RECEIVER_MAX_INFLIGHT: "4" },
  });
  const release = Promise.withResolvers<void>();
  rig.upstream.route("/held", async (_, connection) => {
    await release.promise;
    await connection.write(answer("held"));
  });
  const held = Array.from({ length: 8 }, (_, i) => rig.request(`/held/${i}`));
  await pause(300);
  release.resolve();
  for (const response of await Promise.all(held)) assert.equal(text(response), "held");
});

Deno.test("MAX_FLOWS at the requester bounds live flows with 503 overloaded", async () => {
  await using rig = await startRig({ requesterSettings: { MAX_FLOWS: "3" } });
  const release = Promise.withResolvers<void>();
  rig.upstream.route("/held", async (_, connection) => {
    await release.promise;
    await connection.write(answer("held"));
  });
  const held = [0, 1, 2].map((i) => rig.request(`/held/${i}`));
  await Promise.all([0, 1, 2].map((i) => rig.upstream.request(`/held/${i}`)));
  const over = await rig.request("/over");
  assert.equal(over.status, 503);
  assert.equal(json(over)["code"], "overloaded");
  assert.notEqual(one(over, "retry-after"), null);
  release.resolve();
  for (const response of await Promise.all(held)) assert.equal(text(response), "held");
  assert.equal((await rig.request("/again")).status, 200);
});
