import assert from "node:assert/strict";
import { latin1 } from "../helpers/bytes.ts";
import { requestOctets } from "../helpers/client.ts";
import { freePort } from "../helpers/nats_server.ts";
import { cpuMs } from "../helpers/proc.ts";
import { startRig } from "../helpers/rig.ts";
import { pause } from "../helpers/wait.ts";
import { FULL, holdings, MIB, mib, returnsTo, settled } from "./settled.ts";

const CONNECTIONS = FULL ? 10_000 : 1_000;
/** Under 400 MiB for 10 000: what the process has by itself, and 28 KiB for each connection. */
const MOST_BYTES = 120 * MIB + CONNECTIONS * 28 * 1024;
const WATCH_MS = FULL ? 10_000 : 5_000;
/** 2 % of a core. */
const MOST_CPU_MS = WATCH_MS * 0.02;
const AT_ONCE = 50;
const REST_MS = 30_000;

/** A connection after one complete exchange. */
async function openIdle(port: number): Promise<Deno.Conn> {
  const conn = await Deno.connect({ hostname: "127.0.0.1", port });
  const request = requestOctets("/quiet");
  assert.equal(await conn.write(request), request.length);
  const buffer = new Uint8Array(2048);
  let got = "";
  while (!got.endsWith("GET /quiet")) {
    const count = await conn.read(buffer);
    assert.notEqual(count, null, `closed after ${JSON.stringify(got)}`);
    got += latin1(buffer.subarray(0, count ?? 0));
  }
  return conn;
}

Deno.test(`${CONNECTIONS} idle connections cost little memory and next to no time`, async (t) => {
  const monitorPort = freePort();
  await using rig = await startRig({
    natsConfig: `http: "127.0.0.1:${monitorPort}"\n`,
    settings: { LOG_LEVEL: "info" },
    requesterSettings: { KEEPALIVE_TIMEOUT: "600" },
  });
  const count = () => holdings(rig, monitorPort);
  const closeKept = () =>
    Promise.all(rig.upstream.connections.splice(0).map((connection) => connection.close()));
  await rig.request("/first");
  await closeKept();
  const before = await settled(count, REST_MS);
  const open: Deno.Conn[] = [];
  try {
    let left = CONNECTIONS;
    const worker = async () => {
      while (left-- > 0) open.push(await openIdle(rig.port));
    };
    await Promise.all(Array.from({ length: AT_ONCE }, worker));
    await closeKept();
    const sockets = before.descriptors[0]!["socket"]! + CONNECTIONS;
    const busy = await settled(count, REST_MS);
    assert.equal(busy.descriptors[0]!["socket"], sockets, "some connections were closed");
    assert.equal(busy.subscriptions, before.subscriptions);

    const bytes = rig.requester.rssBytes();
    await t.step(`${CONNECTIONS} connections: ${mib(bytes)}`, () => {
      assert.ok(bytes < MOST_BYTES, `more than ${mib(MOST_BYTES)}`);
    });
    const roles = [rig.requester, rig.receiver];
    const cpuBefore = roles.map((role) => cpuMs(role.pid));
    await pause(WATCH_MS);
    const cpu = roles.map((role, i) => cpuMs(role.pid) - cpuBefore[i]!);
    await t.step(`CPU in ${WATCH_MS} ms: ${cpu.join(" and ")} ms`, () => {
      for (const used of cpu) assert.ok(used < MOST_CPU_MS, `more than ${MOST_CPU_MS} ms`);
    });
  } finally {
    for (const conn of open) conn.close();
  }
  await returnsTo(before, count, REST_MS);
});
