import assert from "node:assert/strict";
import { octets } from "../helpers/bytes.ts";
import { RawClient, requestOctets } from "../helpers/client.ts";
import { NatsClient } from "../helpers/nats_client.ts";
import { type Rig, startRig } from "../helpers/rig.ts";
import { answer, type UpstreamConnection } from "../helpers/upstream.ts";
import { pause, within } from "../helpers/wait.ts";
import { DeafTarget } from "./deaf.ts";
import { flowsGone } from "./flows.ts";
import { connectOctets, OPEN_PROXY, openTunnel, sendStream } from "./tunnels.ts";

const MIB = 1_048_576;
/** From the client's leaving to the end of the upstream's connection. */
const CANCEL_MS = 2_000;

/** Whatever the way of leaving, nothing of the flow may stay. */
async function leftByReset(rig: Rig, client: RawClient): Promise<void> {
  await client.socket.reset();
  await flowsGone([rig.requester, ...rig.receivers], CANCEL_MS);
}

/** A stage at which the client leaves: what the upstream does until then, and how the client knows. */
interface Stage {
  readonly name: string;
  /** What the upstream says before it waits for its end. */
  readonly says: (connection: UpstreamConnection) => Promise<void>;
  /** Resolves when the client is to leave. */
  readonly reached: (rig: Rig, client: RawClient) => Promise<unknown>;
}

const HEAD = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";

const STAGES: readonly Stage[] = [
  {
    name: "before the response head, when no owner is known",
    says: () => Promise.resolve(),
    reached: (rig) => rig.upstream.request("/stage"),
  },
  {
    name: "within the upstream's head",
    says: (connection) => connection.write("HTTP/1.1 200 OK\r\nX-Part"),
    reached: async (rig) => {
      await rig.upstream.request("/stage");
      await pause(100);
    },
  },
  {
    name: "behind the head, before any body",
    says: (connection) => connection.write(HEAD),
    reached: (_, client) => client.socket.readUntil("\r\n\r\n"),
  },
  {
    name: "in the middle of the body",
    says: (connection) => connection.write(`${HEAD}5\r\nhello\r\n`),
    reached: (_, client) => client.socket.readUntil("hello"),
  },
  {
    name: "while it reads nothing and the upstream is slowed down",
    says: async (connection) => {
      await connection.write(`HTTP/1.1 200 OK\r\nContent-Length: ${256 * MIB}\r\n\r\n`);
      await sendStream(connection, 1, 256 * MIB);
    },
    reached: async (_, client) => {
      await client.socket.readUntil("\r\n\r\n");
      await pause(500);
    },
  },
  {
    name: "when the upstream has said all and the client has not taken it",
    says: async (connection) => {
      await connection.write(`HTTP/1.1 200 OK\r\nContent-Length: ${9 * MIB}\r\n\r\n`);
      await sendStream(connection, 1, 9 * MIB);
      await connection.closeWrite();
    },
    reached: async (_, client) => {
      await client.socket.readUntil("\r\n\r\n");
      await pause(500);
    },
  },
];

for (const { name, says, reached } of STAGES) {
  Deno.test(`a client that leaves ${name}: the upstream's connection ends and no flow is left`, async () => {
    await using rig = await startRig();
    const ended = Promise.withResolvers<void>();
    rig.upstream.route("/stage", async (_, connection) => {
      // Its writes fail when it is cut off: that is the end that is waited for.
      await says(connection).catch(() => {});
      await connection.waitEnd(20_000).catch(() => {});
      ended.resolve();
      return "close";
    });
    const client = await rig.connect();
    await client.send(requestOctets("/stage"));
    await reached(rig, client);
    await leftByReset(rig, client);
    await within(ended.promise, CANCEL_MS, "the end of the upstream's connection");
    const closed = await rig.requester.flowClosed();
    assert.equal(closed["code"], "canceled");
    assert.equal((await rig.request("/after")).status, 200);
  });
}

Deno.test("a request that waits for a slot of the receiver and is cancelled never reaches the upstream", async () => {
  await using rig = await startRig({ receiverSettings: { RECEIVER_MAX_INFLIGHT: "1" } });
  const go = Promise.withResolvers<void>();
  rig.upstream.route("/busy", async (_, connection) => {
    await go.promise;
    await connection.write(answer("busy"));
  });
  await using spy = await NatsClient.connect(rig.nats.port);
  const requests = await spy.subscribe("to.proxy.requests.>");
  const cancels = await spy.subscribe("to.proxy.cancel.>");
  const busy = rig.request("/busy");
  await rig.upstream.request("/busy");
  const client = await rig.connect();
  await client.send(requestOctets("/queued"));
  const second = (_: unknown) => requests.events.length === 2;
  await requests.find(second, { ms: 5_000, what: "the second request" });
  await client.socket.reset();
  const cancel = await cancels.find(() => true, { ms: CANCEL_MS, what: "a cancel" });
  assert.match(cancel.subject, /^to\.proxy\.cancel\._pool\./);
  await spy.flush();
  go.resolve();
  assert.equal((await busy).status, 200);
  assert.equal((await rig.request("/next")).status, 200);
  assert.equal(rig.upstream.requestsFor("/queued").length, 0);
  await flowsGone([rig.requester, rig.receiver], CANCEL_MS);
});

Deno.test("a request that is cancelled before its receiver hears of it is not run", async () => {
  await using rig = await startRig();
  await using spy = await NatsClient.connect(rig.nats.port);
  const cancels = await spy.subscribe("to.proxy.cancel._pool.>");
  rig.receiver.kill("SIGSTOP");
  const client = await rig.connect();
  await client.send(requestOctets("/unheard", { method: "POST", body: "once" }));
  await pause(100);
  await client.socket.reset();
  await cancels.find(() => true, { ms: CANCEL_MS, what: "a cancel" });
  await flowsGone([rig.requester], CANCEL_MS);
  rig.receiver.kill("SIGCONT");
  assert.equal((await rig.request("/after")).status, 200);
  await flowsGone([rig.receiver], CANCEL_MS);
  // It may have been sent in the moment between the two messages; then it was broken off.
  for (const request of rig.upstream.requestsFor("/unheard")) {
    assert.ok(request.bodyComplete !== true || request.body === null);
  }
});

Deno.test("a tunnel whose client leaves during the dial: the dial is given up", async () => {
  await using target = await DeafTarget.start();
  await using rig = await startRig({ requesterSettings: OPEN_PROXY });
  await using spy = await NatsClient.connect(rig.nats.port);
  const requests = await spy.subscribe("to.proxy.requests.>");
  const client = await rig.connect();
  await client.send(connectOctets(`127.0.0.1:${target.port}`));
  await requests.find(() => true, { ms: 5_000, what: "the open" });
  await pause(200);
  await leftByReset(rig, client);
  assert.equal((await rig.receiver.flowClosed())["code"], "canceled");
});

for (const first of ["client", "target"] as const) {
  Deno.test(`a tunnel is broken off by the ${first} while both ends flood and neither reads`, async () => {
    const over = Promise.withResolvers<UpstreamConnection>();
    const left = Promise.withResolvers<void>();
    await using rig = await startRig({
      requesterSettings: OPEN_PROXY,
      upstream: async (connection) => {
        sendStream(connection, 2, 256 * MIB).catch(() => {}); // it is broken off
        over.resolve(connection);
        await left.promise;
      },
    });
    await using client = await openTunnel(rig.port, rig.upstream.port);
    const flooding = sendStream(client, 1, 256 * MIB);
    flooding.catch(() => {});
    const target = await over.promise;
    await pause(700);
    const [leaves, stays] = first === "client" ? [client, target] : [target, client];
    await leaves.reset();
    // The end comes at once, not behind what is still buffered on its way.
    await flowsGone([rig.requester, rig.receiver], CANCEL_MS);
    assert.equal(await stays.waitEnd(CANCEL_MS), "reset");
    left.resolve();
  });
}

Deno.test("a hundred clients that leave at random moments leave no flow behind", async () => {
  await using rig = await startRig({ requesterSettings: OPEN_PROXY, receivers: 2 });
  rig.upstream.route("/many", async (_, connection) => {
    await connection.write(octets(HEAD));
    for (let i = 0; i < 1_000; i++) {
      await connection.write("a\r\n0123456789\r\n");
      await pause(5);
    }
  });
  await Promise.all(Array.from({ length: 100 }, async (_, i) => {
    await pause(i % 10);
    const client = await RawClient.connect(rig.port);
    const tunnelled = i % 3 === 0;
    if (tunnelled) await client.send(connectOctets(`127.0.0.1:${rig.upstream.port}`));
    await client.send(requestOctets("/many"));
    await pause((i * 7) % 60);
    await (i % 2 === 0 ? client.socket.reset() : client.close());
  }));
  await flowsGone([rig.requester, ...rig.receivers], 5_000);
  const open = () => rig.upstream.connections.filter((connection) => connection.end === "open");
  await Promise.all(open().map((connection) => connection.waitEnd(5_000).catch(() => {})));
  assert.deepEqual(open(), []);
});
