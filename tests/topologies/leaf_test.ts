import assert from "node:assert/strict";
import { ownServerUrl } from "../system/own_server.ts";
import { Topology } from "./topology.ts";
import { checkTraffic } from "./traffic.ts";

for (const mode of ["core", "jetstream"] as const) {
  Deno.test(`leaf: a requester's own server is a leaf of the receiver's own, ${mode}`, async () => {
    await using topology = await Topology.start("leaf", { mode });
    await checkTraffic(topology.port, topology.upstream);
    const { backend } = await topology.nats("requester");
    assert.equal(backend, mode);
  });
}

Deno.test("leaf-domain: the stream is in the JetStream domain of the receiver, the requester has its own", async () => {
  await using topology = await Topology.start("leaf-domain");
  await checkTraffic(topology.port, topology.upstream);
  // Each domain as it is seen from the requester's own server.
  const url = await ownServerUrl(topology.natsway("requester"));
  const port = Number(new URL(url).port);
  const streams = async (domain: string) => {
    const manager = await topology.manager(port, domain);
    return (await Array.fromAsync(manager.streams.list())).map(({ config }) => config.name);
  };
  assert.deepEqual(await streams("hub"), ["proxy"]);
  assert.deepEqual(await streams("edge"), []);
});
