import assert from "node:assert/strict";
import { pattern, sha256 } from "../helpers/bytes.ts";
import { request, type RequestParts } from "../helpers/client.ts";
import { json, one, type ReadResponseOptions, text } from "../helpers/http_message.ts";
import { NatsClient } from "../helpers/nats_client.ts";
import { freePort, type NatsServer, startNats } from "../helpers/nats_server.ts";
import { type Natsway, type Settings, startNatsway } from "../helpers/natsway.ts";
import { answer, startUpstream, type Upstream } from "../helpers/upstream.ts";
import { pause } from "../helpers/wait.ts";

const KIB = 1024;
const SMALL = 64 * KIB;
const LARGE = 1024 * KIB;
const MOST_WAIT_MS = 15_000;

interface LeafOptions {
  hubMaxPayload: number;
  leafMaxPayload: number;
  requesterOn: "hub" | "leaf";
  receiversOn: readonly ("hub" | "leaf")[];
}

/** A bridge over two nats-servers with a leaf link between them. */
interface LeafRig extends AsyncDisposable {
  readonly hub: NatsServer;
  readonly leaf: NatsServer;
  readonly upstream: Upstream;
  readonly requester: Natsway;
  get(
    target: string,
    parts?: RequestParts & ReadResponseOptions,
  ): ReturnType<typeof request>;
  /** Fails when a server cut the link, or a client, for a message that was too large. */
  assertUncut(): void;
}

async function startLeafRig(options: LeafOptions): Promise<LeafRig> {
  await using stack = new AsyncDisposableStack();
  const linkPort = freePort();
  const hub = stack.use(
    await startNats({
      config: `server_name: hub\nmax_payload: ${options.hubMaxPayload}\n` +
        `leafnodes { listen: "127.0.0.1:${linkPort}" }\n`,
    }),
  );
  const leaf = stack.use(
    await startNats({
      config: `server_name: leaf\nmax_payload: ${options.leafMaxPayload}\n` +
        `leafnodes { reconnect: 1, remotes: [{ url: "nats://127.0.0.1:${linkPort}" }] }\n`,
    }),
  );
  const servers = { hub, leaf };
  const upstream = stack.use(await startUpstream());
  const settings = (on: "hub" | "leaf"): Settings => ({
    NATS_URL: servers[on].url,
    MAX_HEADER_BYTES: String(128 * KIB),
  });
  const requester = stack.use(await startNatsway("requester", settings(options.requesterOn)));
  const { requesterOn } = options;
  const [near, far] = [true, false].map((isNear) =>
    options.receiversOn.filter((on) => (on === requesterOn) === isNear)
  ) as [("hub" | "leaf")[], ("hub" | "leaf")[]];
  const startReceiver = async (on: "hub" | "leaf") =>
    stack.use(await startNatsway("receiver", { ...settings(on), UPSTREAM_URL: upstream.url }));
  for (const on of far) await startReceiver(on);
  await interestCrossed(servers[requesterOn]);
  for (const on of near) await startReceiver(on);
  const kept = stack.move();
  return {
    hub,
    leaf,
    upstream,
    requester,
    get: (target, parts) => request(requester.port, target, parts),
    assertUncut: () => {
      for (const { log } of [hub, leaf]) {
        assert.doesNotMatch(
          log,
          /maximum (message )?payload|slow consumer|protocol (error|violation)/i,
        );
        assert.doesNotMatch(log, /leafnode connection closed/i);
      }
    },
    [Symbol.asyncDispose]: () => kept.disposeAsync(),
  };
}

/** Waits until `server` knows of a receiver: until a message for all of them is not bounced. */
async function interestCrossed(server: NatsServer): Promise<void> {
  await using client = await NatsClient.connect(server.port);
  const bounced = await client.subscribe("bounced");
  const cancel = JSON.stringify({ type: "cancel", request_id: "x", cancel: { request_id: "x" } });
  const until = performance.now() + MOST_WAIT_MS;
  for (;;) {
    const before = bounced.events.length;
    await client.publish("to.proxy.cancel._pool.x", cancel, { reply: "bounced" });
    await client.flush();
    if (bounced.events.length === before) return;
    assert.ok(performance.now() < until, "the leaf link did not come up");
    await pause(50);
  }
}

function routes({ upstream }: LeafRig): void {
  upstream.route("/up", async (request, connection) => {
    const body = await request.readBody();
    await connection.write(answer("got", { fields: [`X-Sha256: ${sha256(body)}`] }));
  });
  upstream.route("/length/", async (request, connection) => {
    await connection.write(answer(pattern(Number(request.path.split("/")[2]))));
  });
  upstream.route("/chunked/", async (request, connection) => {
    const body = pattern(Number(request.path.split("/")[2]));
    await connection.write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
    for (let at = 0; at < body.length; at += 50_000) {
      const piece = body.subarray(at, at + 50_000);
      await connection.write(`${piece.length.toString(16)}\r\n`);
      await connection.write(piece);
      await connection.write("\r\n");
    }
    await connection.write("0\r\n\r\n");
  });
  upstream.route("/long-head/", async (request, connection) => {
    const fields = [`X-Long: ${"0".repeat(Number(request.path.split("/")[2]))}`];
    await connection.write(answer("ok", { fields }));
  });
}

const SET_UPS: readonly (LeafOptions & { name: string })[] = [
  {
    name: "requester on a leaf with 1 MiB, receiver on a hub with 64 KiB",
    hubMaxPayload: SMALL,
    leafMaxPayload: LARGE,
    requesterOn: "leaf",
    receiversOn: ["hub"],
  },
  {
    name: "requester on a leaf with 1 MiB, one receiver there, one on a hub with 64 KiB",
    hubMaxPayload: SMALL,
    leafMaxPayload: LARGE,
    requesterOn: "leaf",
    receiversOn: ["leaf", "hub"],
  },
  {
    name: "requester on a hub with 64 KiB, two receivers on a leaf with 1 MiB",
    hubMaxPayload: SMALL,
    leafMaxPayload: LARGE,
    requesterOn: "hub",
    receiversOn: ["leaf", "leaf"],
  },
  {
    name: "requester on a hub with 1 MiB, receiver on a leaf with 64 KiB",
    hubMaxPayload: LARGE,
    leafMaxPayload: SMALL,
    requesterOn: "hub",
    receiversOn: ["leaf"],
  },
  {
    name: "requester on a leaf with 64 KiB, two receivers on a hub with 1 MiB",
    hubMaxPayload: LARGE,
    leafMaxPayload: SMALL,
    requesterOn: "leaf",
    receiversOn: ["hub", "hub"],
  },
];

for (const setUp of SET_UPS) {
  Deno.test(`F38 a leaf link is never cut: ${setUp.name}`, async () => {
    await using rig = await startLeafRig(setUp);
    routes(rig);
    // The very first request is too large: nothing is known of the receivers yet.
    const first = await rig.get("/up", { method: "POST", body: pattern(300_000) });
    assert.equal(first.status, 413, text(first));
    assert.equal(json(first)["code"], "body_too_large");
    assert.match(text(first), /max_payload.*\b32768\b/);
    let going = true;
    let small = 0;
    const beside = Promise.all(Array.from({ length: 10 }, async () => {
      while (going) {
        const response = await rig.get("/small");
        assert.equal(response.status, 200, text(response));
        small++;
      }
    }));
    try {
      for (const target of ["length", "chunked"]) {
        const down = await rig.get(`/${target}/${5 * LARGE}`, { ms: 30_000, collect: false });
        assert.equal(down.complete, true);
        assert.equal(down.bodySha256, sha256(pattern(5 * LARGE)), target);
      }
      const body = pattern(30_000);
      const up = await rig.get("/up", { method: "POST", body });
      assert.equal(one(up, "x-sha256"), sha256(body), text(up));
      const longRequest = await rig.get("/up", { fields: [`X-Long: ${"0".repeat(70 * KIB)}`] });
      assert.equal(longRequest.status, 431, text(longRequest));
      assert.match(text(longRequest), /max_payload of 65536/);
      const longAnswer = await rig.get(`/long-head/${70 * KIB}`);
      // A receiver on the requester's own server need not care for the others.
      if (longAnswer.status !== 200 || !setUp.receiversOn.includes(setUp.requesterOn)) {
        assert.equal(longAnswer.status, 502, text(longAnswer));
        assert.match(text(longAnswer), /max_payload \(65536\)/);
      }
    } finally {
      going = false;
      await beside;
    }
    assert.ok(small >= 10, `${small} small requests`);
    rig.assertUncut();
  });
}

Deno.test("F38 where all servers take 1 MiB large requests cross a leaf link from the first on", async () => {
  await using rig = await startLeafRig({
    hubMaxPayload: LARGE,
    leafMaxPayload: LARGE,
    requesterOn: "leaf",
    receiversOn: ["hub", "leaf"],
  });
  routes(rig);
  const body = pattern(500_000);
  for (let i = 0; i < 5; i++) {
    const response = await rig.get("/up", { method: "POST", body });
    assert.equal(one(response, "x-sha256"), sha256(body), text(response));
  }
  const longHead = await rig.get("/up", { fields: [`X-Long: ${"0".repeat(70 * KIB)}`] });
  assert.equal(longHead.status, 200, text(longHead));
  rig.assertUncut();
});
