import { jetstreamManager } from "@nats-io/jetstream";
import type { NatsConnection } from "@nats-io/nats-core/internal";
import assert from "node:assert/strict";
import { freePort, type NatsServer, startNats } from "../../helpers/nats_server.ts";
import { TestLink } from "../support.ts";
import { Pair } from "./pair.ts";
import { eventually, JsServer, STREAM } from "./support.ts";

/** F42: in service again within that time. */
const HEAL_MS = 15_000;

Deno.test("a deleted request consumer is made anew, and requests go on", async () => {
  await using js = await JsServer.start();
  await using pair = new Pair(js.server.url);
  await pair.ready();
  await pair.roundTrip();
  const gone = pair.receiver.until(/consumer nats-proxy of stream proxy/);
  await js.manager.consumers.delete(STREAM, "nats-proxy");
  await gone;
  await pair.receiver.until(null, HEAL_MS);
  await pair.roundTrip();
});

Deno.test("a deleted response consumer is made anew, and answers go on", async () => {
  await using js = await JsServer.start();
  await using pair = new Pair(js.server.url);
  await pair.ready();
  await pair.roundTrip();
  const name = "nats-proxy-responses-edge";
  const gone = pair.requester.until(/consumer nats-proxy-responses-edge of stream proxy/);
  await js.manager.consumers.delete(STREAM, name);
  await gone;
  await pair.requester.until(null, HEAL_MS);
  await pair.roundTrip();
});

Deno.test("a consumer that somebody deletes and makes again is pulled from again", async () => {
  await using js = await JsServer.start();
  await using pair = new Pair(js.server.url);
  await pair.ready();
  const gone = pair.receiver.until(/consumer nats-proxy of stream proxy/);
  await js.manager.consumers.delete(STREAM, "nats-proxy");
  await js.addDurable(20_000);
  await gone;
  await pair.receiver.until(null, HEAL_MS);
  await pair.roundTrip();
});

Deno.test("a deleted stream makes both sides not ready, naming it; a new one is used", async () => {
  await using js = await JsServer.start();
  await using pair = new Pair(js.server.url);
  await pair.ready();
  await js.manager.streams.delete(STREAM);
  await Promise.all(pair.peers.map((peer) => peer.until(/of stream proxy.* no such stream/)));
  await js.addStream();
  await pair.ready(HEAL_MS);
  await pair.roundTrip();
});

Deno.test("a stream that appears after the start is used without a restart", async () => {
  await using js = await JsServer.start({ subjects: null });
  await using pair = new Pair(js.server.url);
  await pair.requester.until(
    /consumer nats-proxy-responses-edge of stream proxy .*no such stream/,
  );
  await js.addStream();
  await pair.ready(HEAL_MS);
  await pair.roundTrip();
});

for (const memory of [false, true]) {
  Deno.test(`a restarted server ${memory ? "without" : "with"} its store`, async () => {
    await using js = await JsServer.start({ memory });
    await using pair = new Pair(js.server.url);
    await pair.ready();
    await pair.roundTrip();
    await js.server.kill("SIGTERM");
    await Promise.all(pair.peers.map((peer) => peer.until(/not connected/)));
    await js.server.restart();
    if (memory) {
      await Promise.all(pair.peers.map((peer) => peer.until(/no such stream/)));
      await js.operator.until(true);
      await js.addStream(["proxy.>"], true);
    }
    await pair.ready(HEAL_MS);
    await pair.roundTrip();
  });
}

Deno.test("a server that was stopped for a while, with its connections kept", async () => {
  await using js = await JsServer.start();
  await using pair = new Pair(js.server.url);
  await pair.ready();
  await js.server.kill("SIGSTOP");
  await Promise.all(pair.peers.map((peer) => peer.until(/not connected/, 30_000)));
  await js.server.kill("SIGCONT");
  await pair.ready(HEAL_MS);
  await pair.roundTrip();
});

async function startCluster(folder: string): Promise<NatsServer[]> {
  const ports = [freePort(), freePort(), freePort()];
  const routes = ports.map((port) => `"nats://127.0.0.1:${port}"`).join(", ");
  return await Promise.all(ports.map((port, i) =>
    startNats({
      config: `server_name: n${i}\njetstream { store_dir: "${folder}/n${i}" }\n` +
        `cluster { name: c, listen: "127.0.0.1:${port}", routes: [${routes}] }\n`,
    })
  ));
}

Deno.test("new leaders in a cluster, by step-down and by the loss of a server", async () => {
  const folder = await Deno.makeTempDir({ prefix: "natsway-cluster-" });
  const servers = await startCluster(folder);
  try {
    const urls = servers.map((server) => server.url);
    await using operator = new TestLink(urls);
    await operator.until(true);
    const manager = await jetstreamManager(operator.link.connection as unknown as NatsConnection, {
      checkAPI: false,
      timeout: 10_000,
    });
    const config = { name: STREAM, subjects: ["proxy.>"], num_replicas: 3 };
    // The cluster elects its first leader.
    await eventually(20_000, () => manager.streams.add(config));
    await using pair = new Pair(urls.join(","));
    await pair.ready(20_000);
    await pair.roundTrip();

    const gone = pair.receiver.until(/consumer nats-proxy of/);
    await operator.link.request(
      `$JS.API.CONSUMER.LEADER.STEPDOWN.${STREAM}.nats-proxy`,
      new Uint8Array(0),
      { timeoutMs: 5000 },
    );
    await gone;
    await pair.ready(HEAL_MS);
    await pair.roundTrip();

    const { cluster } = await manager.streams.info(STREAM);
    const leader = servers[Number(cluster?.leader?.slice(1))];
    assert.ok(leader !== undefined);
    await leader.kill("SIGKILL");
    await eventually(HEAL_MS, async () => {
      await pair.ready(1000);
      await pair.roundTrip(1000);
    });
  } finally {
    await Promise.all(servers.map((server) => server[Symbol.asyncDispose]()));
    await Deno.remove(folder, { recursive: true });
  }
});
