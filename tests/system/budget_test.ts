import assert from "node:assert/strict";
import { RawClient, requestOctets } from "../helpers/client.ts";
import { json, one } from "../helpers/http_message.ts";
import { startRig } from "../helpers/rig.ts";
import type { TestSocket } from "../helpers/socket.ts";
import { pause } from "../helpers/wait.ts";
import { flowsAre, flowsGone } from "./flows.ts";
import { checkStream, connectOctets, OPEN_PROXY, openTunnel, sendStream } from "./tunnels.ts";

const MIB = 1_048_576;

Deno.test("a hundred stuck tunnels stay within FLOW_MEMORY_BYTES, and a hundred-and-first still moves", async () => {
  const budget = 24 * MIB;
  const stuck = 100;
  await using rig = await startRig({
    settings: { FLOW_MEMORY_BYTES: String(budget), MAX_FLOWS: "500", PEER_TIMEOUT: "3" },
    requesterSettings: OPEN_PROXY,
  });
  const over = Promise.withResolvers<void>();
  rig.upstream.route("/stuck", async (_, connection) => {
    sendStream(connection, 2, 256 * MIB).catch(() => {}); // it is broken off
    await over.promise;
    return "close";
  });
  rig.upstream.route("/moves", async (_, connection) => {
    await Promise.all([sendStream(connection, 4, MIB), checkStream(connection, 3, MIB)]);
  });
  for (let i = 0; i < 20; i++) await rig.request("/warm-up");
  const roles = [rig.requester, rig.receiver];
  const before = roles.map((role) => role.rssBytes());
  const sockets: TestSocket[] = [];
  try {
    for (let i = 0; i < stuck; i++) {
      const socket = await openTunnel(rig.port, rig.upstream.port);
      sockets.push(socket);
      await socket.write(requestOctets("/stuck"));
      sendStream(socket, 1, 256 * MIB).catch(() => {}); // it is broken off
    }
    // Longer than PEER_TIMEOUT: slow is not lost.
    await pause(5_000);
    await flowsAre(roles, stuck);
    roles.forEach((role, i) => {
      const grown = role.rssBytes() - (before[i] ?? 0);
      const text = `${role.role} grew by ${Math.round(grown / MIB)} MiB`;
      // Besides the budget there are the buffers of the sockets, up to 256 KiB for each tunnel.
      assert.ok(grown < budget + stuck * 0.25 * MIB + 32 * MIB, text);
    });
    await using moving = await openTunnel(rig.port, rig.upstream.port);
    await moving.write(requestOctets("/moves"));
    await Promise.all([sendStream(moving, 3, MIB), checkStream(moving, 4, MIB)]);
    for (let i = 0; i < 10; i++) assert.equal((await rig.request("/beside")).status, 200);
  } finally {
    over.resolve();
    await Promise.all(sockets.map((socket) => socket.close()));
  }
  await flowsGone(roles, 10_000);
});

Deno.test("a reader that pauses for three times PEER_TIMEOUT loses nothing, in both directions of a tunnel", async () => {
  const size = 12 * MIB;
  await using rig = await startRig({
    settings: { PEER_TIMEOUT: "2" },
    requesterSettings: OPEN_PROXY,
  });
  const checked = Promise.withResolvers<void>();
  rig.upstream.route("/slow", async (_, connection) => {
    const sending = sendStream(connection, 2, size);
    await pause(6_500);
    await checkStream(connection, 1, size).then(checked.resolve, checked.reject);
    await sending;
  });
  await using socket = await openTunnel(rig.port, rig.upstream.port);
  await socket.write(requestOctets("/slow"));
  const sending = sendStream(socket, 1, size);
  await pause(6_500);
  await Promise.all([checkStream(socket, 2, size), sending, checked.promise]);
});

for (const where of ["requester", "receiver"] as const) {
  Deno.test(`MAX_FLOWS of the ${where}: one more CONNECT is 503 with Retry-After, and there is room again when a tunnel ends`, async () => {
    await using rig = await startRig({
      requesterSettings: { ...OPEN_PROXY, ...(where === "requester" ? { MAX_FLOWS: "3" } : {}) },
      receiverSettings: where === "receiver" ? { MAX_FLOWS: "3" } : {},
    });
    const authority = `127.0.0.1:${rig.upstream.port}`;
    const tunnels: TestSocket[] = [];
    for (let i = 0; i < 3; i++) tunnels.push(await openTunnel(rig.port, rig.upstream.port));
    await using client = await RawClient.connect(rig.port);
    const response = await client.exchange(connectOctets(authority));
    assert.equal(response.status, 503);
    assert.equal(json(response)["code"], "overloaded");
    assert.match(one(response, "retry-after") ?? "", /^\d+$/);
    await client.mustClose();
    await tunnels.shift()?.reset();
    await flowsAre([rig.requester, rig.receiver], 2);
    tunnels.push(await openTunnel(rig.port, rig.upstream.port));
    await Promise.all(tunnels.map((socket) => socket.close()));
    await flowsGone([rig.requester, rig.receiver]);
  });
}
