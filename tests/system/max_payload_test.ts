import assert from "node:assert/strict";
import { pattern, sha256 } from "../helpers/bytes.ts";
import { one, text } from "../helpers/http_message.ts";
import { type Rig, startRig } from "../helpers/rig.ts";
import { answer } from "../helpers/upstream.ts";

const KIB = 1024;
const SMALL = 64 * KIB;

function routes(rig: Rig): void {
  rig.upstream.route("/up", async (request, connection) => {
    const body = await request.readBody();
    await connection.write(answer("got", { fields: [`X-Sha256: ${sha256(body)}`] }));
  });
  rig.upstream.route("/down/", async (request, connection) => {
    await connection.write(answer(pattern(Number(request.path.split("/")[2]))));
  });
}

/** What the server says when a client went over its limits. */
function assertNoViolation(rig: Rig): void {
  assert.doesNotMatch(rig.nats.log, /maximum payload|slow consumer|protocol (error|violation)/i);
}

Deno.test("F38 with a max_payload of 64 KiB no message is ever too large", async (t) => {
  await using rig = await startRig({ natsConfig: `max_payload: ${SMALL}\n` });
  routes(rig);
  // Small requests run beside everything else; none may fail.
  let going = true;
  let small = 0;
  const beside = Promise.all(Array.from({ length: 4 }, async () => {
    while (going) {
      const response = await rig.request("/small");
      assert.equal(response.status, 200, text(response));
      small++;
    }
  }));
  try {
    await t.step({
      name: "bodies in and out arrive octet by octet",
      sanitizeOps: false,
      sanitizeResources: false,
      fn: async () => {
        for (const size of [0, 1, 1_000, 20_000]) {
          const body = pattern(size, size + 1);
          const up = await rig.request("/up", { method: "POST", body });
          assert.equal(up.status, 200, text(up));
          assert.equal(one(up, "x-sha256"), sha256(body));
        }
        for (const size of [0, SMALL - 1, SMALL, SMALL + 1, 5 * KIB * KIB]) {
          const down = await rig.request(`/down/${size}`, { ms: 30_000 });
          assert.equal(down.bodySha256, sha256(pattern(size)), `${size} octets`);
        }
      },
    });
    await t.step({
      name: "a request body that cannot cross is answered 413",
      sanitizeOps: false,
      sanitizeResources: false,
      fn: async () => {
        const response = await rig.request("/up", { method: "POST", body: pattern(SMALL) });
        assert.equal(response.status, 413);
      },
    });
    await t.step({
      name: "a request head that cannot cross is answered 431 with the limit named",
      sanitizeOps: false,
      sanitizeResources: false,
      fn: async () => {
        const response = await rig.request("/head", { fields: [`X-Long: ${"0".repeat(60_000)}`] });
        assert.equal(response.status, 431);
        assert.match(text(response), /max_payload|MAX_HEADER_BYTES/);
      },
    });
    await t.step({
      name: "a response head that cannot cross is answered 502 with the limit named",
      sanitizeOps: false,
      sanitizeResources: false,
      fn: async () => {
        rig.upstream.route(
          "/long-head",
          (_, connection) =>
            connection.write(answer("ok", { fields: [`X-Long: ${"0".repeat(65_400)}`] })),
        );
        const response = await rig.request("/long-head");
        assert.equal(response.status, 502);
        assert.match(text(response), /max_payload|MAX_HEADER_BYTES/);
      },
    });
  } finally {
    going = false;
    await beside;
  }
  assert.ok(small > 0);
  assertNoViolation(rig);
});

Deno.test("max_payload is read again at each connect", async () => {
  await using rig = await startRig();
  routes(rig);
  const body = pattern(100_000);
  assert.equal((await rig.request("/up", { method: "POST", body })).status, 200);
  for (const [config, status] of [[`max_payload: ${SMALL}\n`, 413], ["", 200]] as const) {
    const marks = [rig.requester.mark, rig.receiver.mark] as const;
    rig.nats.configure(config);
    await rig.nats.restart();
    await rig.requester.event("ready", { from: marks[0] });
    await rig.receiver.event("ready", { from: marks[1] });
    const response = await rig.request("/up", { method: "POST", body });
    assert.equal(response.status, status, text(response));
    const down = await rig.request("/down/300000");
    assert.equal(down.bodySha256, sha256(pattern(300_000)));
  }
  assertNoViolation(rig);
});
