import assert from "node:assert/strict";
import { coreTest } from "../helpers/mode.ts";
import { latin1 } from "../helpers/bytes.ts";
import { jsonOf, NatsClient } from "../helpers/nats_client.ts";
import { type Natsway, runNatsway, startNatsway, TEST_SETTINGS } from "../helpers/natsway.ts";
import { startRig } from "../helpers/rig.ts";
import { TestSocket } from "../helpers/socket.ts";
import { answer, startUpstream } from "../helpers/upstream.ts";
import { DeafTarget } from "./deaf.ts";
import { checkStream, echo, sendStream } from "./tunnels.ts";

const MIB = 1_048_576;

/** Where the requester listens for this target. */
function forwardPort(requester: Natsway, target: string): number {
  const line = requester.log.events.find((event) =>
    event.message === "listening for a forward" && event["target"] === target
  );
  const port = /:(\d+)$/.exec(String(line?.["address"]))?.[1];
  if (port === undefined) throw new Error(requester.described(`no forward to ${target}`));
  return Number(port);
}

Deno.test("each forward leads to its target, proxy auth or not, and every octet passes both ways", async () => {
  await using echoing = await startUpstream(echo);
  await using six = await startUpstream(echo, "::1");
  // PROXY_AUTH_ENABLED is on: a forward on loopback knows no users.
  await using rig = await startRig({
    requesterSettings: {
      FORWARDS: `0=127.0.0.1:${echoing.port},[::1]:0=[::1]:${six.port}`,
    },
  });
  await using spy = await NatsClient.connect(rig.nats.port);
  const requests = await spy.subscribe("to.proxy.requests.>");
  await using client = await TestSocket.connect(
    forwardPort(rig.requester, `127.0.0.1:${echoing.port}`),
  );
  const sending = sendStream(client, 1, 8 * MIB);
  await checkStream(client, 1, 8 * MIB);
  await sending;
  await client.closeWrite();
  assert.equal(await client.waitEnd(), "fin");
  await using bySix = await TestSocket.connect(
    forwardPort(rig.requester, `[::1]:${six.port}`),
    "::1",
  );
  await bySix.write("six");
  assert.equal(latin1(await bySix.readExactly(3)), "six");
  await spy.flush();
  const kinds = requests.events.map((message) => jsonOf(message)["payload"]);
  assert.deepEqual(
    kinds.map((payload) => (payload as Record<string, unknown>)["ingress_kind"]),
    ["forward", "forward"],
  );
  assert.equal((await rig.requester.flowClosed())["code"], "ok");
});

Deno.test("a target that speaks first is heard, and a half-close of the client reaches it", async () => {
  await using rig = await startRig({
    upstream: async (connection) => {
      await connection.write("220 ready\r\n");
      const end = await connection.waitEnd();
      await connection.write(`after ${end}`);
      await connection.closeWrite();
    },
    requesterSettings: { FORWARDS: "0=localhost:80" },
  });
  await using requester = await startNatsway("requester", {
    ...rig.requesterSettings,
    FORWARDS: `127.0.0.1:0=localhost:${rig.upstream.port}`,
  });
  await using client = await TestSocket.connect(
    forwardPort(requester, `localhost:${rig.upstream.port}`),
  );
  assert.equal(latin1(await client.readUntil("\r\n")), "220 ready\r\n");
  await client.closeWrite();
  assert.equal(latin1(await client.readExactly(9)), "after fin");
  assert.equal(await client.waitEnd(), "fin");
});

Deno.test("a client whose target cannot be reached is reset, and the log has one warning with the code", async () => {
  await using deaf = await DeafTarget.start();
  const targets: [target: string, code: string][] = [
    ["127.0.0.1:1", "target_refused"],
    ["no-such-host.invalid:80", "target_not_found"],
    ["169.254.169.254:80", "target_denied"],
    [`127.0.0.1:${deaf.port}`, "target_timeout"],
  ];
  await using rig = await startRig({
    receiverSettings: { CONNECT_TIMEOUT: "1" },
    requesterSettings: { FORWARDS: targets.map(([target]) => `0=${target}`).join(",") },
  });
  for (const [target, code] of targets) {
    await using client = await TestSocket.connect(forwardPort(rig.requester, target));
    await client.write("hello");
    assert.equal(await client.waitEnd(), "reset", target);
    assert.equal(client.receivedBytes, 0);
    const line = await rig.requester.flowClosed((event) => event["target"] === target);
    assert.deepEqual([line.level, line["code"]], ["warning", code]);
    const about = rig.requester.log.events.filter((event) =>
      event["target"] === target && event.level === "warning"
    );
    assert.equal(about.length, 1);
  }
});

coreTest(
  "a stream keeps a request until somebody comes",
  "no receiver: a client of a forward is reset at once",
  async () => {
    await using rig = await startRig({
      receivers: 0,
      requesterSettings: { FORWARDS: "0=127.0.0.1:7" },
    });
    await using client = await TestSocket.connect(forwardPort(rig.requester, "127.0.0.1:7"));
    assert.equal(await client.waitEnd(2_000), "reset");
    await rig.requester.event((event) => event["code"] === "no_receiver");
  },
);

Deno.test("NATS down: a client of a forward is reset at once", async () => {
  await using rig = await startRig({
    receivers: 0,
    requesterSettings: { FORWARDS: "0=127.0.0.1:7" },
  });
  const port = forwardPort(rig.requester, "127.0.0.1:7");
  const { mark } = rig.requester;
  await rig.nats.stop();
  await rig.requester.event("not ready", { from: mark });
  await using client = await TestSocket.connect(port);
  assert.equal(await client.waitEnd(1_000), "reset");
  await rig.requester.event((event) => event["code"] === "nats_down");
});

for (const end of ["client", "target"] as const) {
  Deno.test(`a forward passes on a reset of the ${end}`, async () => {
    const accepted = Promise.withResolvers<TestSocket>();
    const over = Promise.withResolvers<void>();
    await using target = await startUpstream((connection) => {
      accepted.resolve(connection);
      return over.promise;
    });
    await using rig = await startRig({
      requesterSettings: { FORWARDS: `0=127.0.0.1:${target.port}` },
    });
    await using client = await TestSocket.connect(
      forwardPort(rig.requester, `127.0.0.1:${target.port}`),
    );
    const far = await accepted.promise;
    await far.write("x");
    await client.readExactly(1);
    const [leaves, stays] = end === "client" ? [client, far] : [far, client];
    await leaves.reset();
    assert.equal(await stays.waitEnd(5_000), "reset");
    over.resolve();
  });
}

Deno.test("forwards and requests share MAX_CONNECTIONS", async () => {
  await using target = await startUpstream(echo);
  await using rig = await startRig({
    requesterSettings: { FORWARDS: `0=127.0.0.1:${target.port}`, MAX_CONNECTIONS: "1" },
  });
  rig.upstream.route("/", (_, connection) => connection.write(answer()));
  const port = forwardPort(rig.requester, `127.0.0.1:${target.port}`);
  {
    await using client = await TestSocket.connect(port);
    await client.write("x");
    await client.readExactly(1);
    await using http = await TestSocket.connect(rig.port);
    await http.waitEnd(2_000);
    await rig.requester.event((event) => event["setting"] === "MAX_CONNECTIONS");
    await client.closeWrite();
    assert.equal(await client.waitEnd(), "fin");
  }
  await rig.requester.flowClosed();
  assert.equal((await rig.request("/")).status, 200);
});

Deno.test("F62 a forward's port that is taken: exit 3, one line with role, address, port and FORWARDS", async () => {
  using taken = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const { port } = taken.addr;
  const result = await runNatsway(["requester", "--forward", `${port}=db.internal:5432`], {
    ...TEST_SETTINGS,
    NATS_URL: "nats://127.0.0.1:1",
  });
  assert.equal(result.code, 3, result.stderr);
  assert.ok(result.ms < 5_000);
  assert.deepEqual(result.stderr.split("\n").filter((line) => line.startsWith("natsway: ")), [
    `natsway: cannot listen for the forward to db.internal:5432 as requester on 127.0.0.1:${port}: ` +
    "the address is in use; stop the other program or change FORWARDS",
  ]);
});
