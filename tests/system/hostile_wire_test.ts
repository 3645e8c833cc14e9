import assert from "node:assert/strict";
import { coreTest } from "../helpers/mode.ts";
import { sha256 } from "../helpers/bytes.ts";
import { requestOctets } from "../helpers/client.ts";
import { NatsClient, type NatsMessage } from "../helpers/nats_client.ts";
import { type Rig, startRig } from "../helpers/rig.ts";
import type { EventLog } from "../helpers/wait.ts";
import { pause } from "../helpers/wait.ts";
import { startCabled } from "./bridges.ts";
import { flowsGone } from "./flows.ts";
import { Load, type LoadOptions } from "./load.ts";
import { checkStream, OPEN_PROXY, openTunnel, sendStream } from "./tunnels.ts";

const MIB = 1_048_576;
const LOAD: LoadOptions = {
  tunnels: 6,
  tunnelBytes: 2 * MIB,
  downloads: 2,
  downloadBytes: 8 * MIB,
  ms: 20_000,
};
const SESSIONS = ["to.proxy.sessions.>", "from.proxy.sessions.>"];
const RESPONSES = ["from.proxy.responses.>", "to.proxy.control.>"];

function startOpen(natsConfig = ""): Promise<Rig> {
  return startRig({
    natsConfig,
    settings: { LOG_LEVEL: "info", PEER_TIMEOUT: "6" },
    requesterSettings: OPEN_PROXY,
  });
}

/** Passes every message of `log` to `act` once, its own echoes apart, until `over`. */
async function eachMessage(
  log: EventLog<NatsMessage>,
  over: Promise<void>,
  act: (message: NatsMessage) => Promise<void>,
): Promise<void> {
  let going = true;
  over.then(() => going = false);
  const seen = new Set<string>();
  for (let at = 0; going;) {
    const message = log.events[at];
    if (message === undefined) {
      await pause(1);
      continue;
    }
    at++;
    const key = `${message.subject} ${sha256(message.data)}`;
    if (seen.has(key)) continue;
    seen.add(key);
    await act(message);
  }
}

function headerLines(message: NatsMessage): string[] | undefined {
  if (message.headers === "") return undefined;
  return message.headers.split("\r\n").slice(1).filter((line) => line !== "");
}

async function publishAgain(nats: NatsClient, message: NatsMessage): Promise<void> {
  const headers = headerLines(message);
  await nats.publish(message.subject, message.data, {
    ...(message.reply === "" ? {} : { reply: message.reply }),
    ...(headers === undefined ? {} : { headers }),
  });
}

Deno.test("a network that brings messages twice, late and out of order changes no octet", async () => {
  await using rig = await startOpen();
  await using nats = await NatsClient.connect(rig.nats.port);
  const over = Promise.withResolvers<void>();
  const late: NatsMessage[] = [];
  const doubling: Promise<void>[] = [];
  for (const subject of [...SESSIONS, ...RESPONSES]) {
    const log = await nats.subscribe(subject);
    doubling.push(eachMessage(log, over.promise, async (message) => {
      late.push(message);
      if (late.length % 2 === 0) await publishAgain(nats, message);
      const old = late.length > 40 ? late.splice(late.length % 7, 1)[0] : undefined;
      if (old !== undefined) await publishAgain(nats, old);
    }));
  }
  try {
    await using load = await Load.start(rig, LOAD);
    await load.finish();
  } finally {
    over.resolve();
    await Promise.all(doubling);
  }
  assert.ok(late.length > 0, "nothing was doubled");
  await flowsGone([rig.requester, rig.receiver]);
});

Deno.test("octets that are no frames, and frames cut short or changed, end nothing silently and change no octet", async () => {
  await using rig = await startOpen();
  await using nats = await NatsClient.connect(rig.nats.port);
  const over = Promise.withResolvers<void>();
  let sent = 0;
  const noise: Promise<void>[] = [];
  for (const subject of SESSIONS) {
    const log = await nats.subscribe(subject);
    noise.push(eachMessage(log, over.promise, async ({ subject, data }) => {
      if (sent++ > 400) return;
      // A wrong type, a foreign epoch, half of it, nothing: none can be of this flow.
      const foreign = data.slice();
      foreign[1] = (foreign[1] ?? 0) ^ 0xff;
      const unknown = data.slice();
      unknown[0] = 0xee;
      await nats.publish(subject, foreign);
      await nats.publish(subject, unknown);
      await nats.publish(subject, data.slice(0, 8));
      await nats.publish(subject, "");
      await nats.publish(subject, '{"type":"session_close","reason":"noise"}');
    }));
  }
  try {
    await using load = await Load.start(rig, LOAD);
    await load.finish();
  } finally {
    over.resolve();
    await Promise.all(noise);
  }
  assert.ok(sent > 0, "no noise was made");
  await flowsGone([rig.requester, rig.receiver]);
});

coreTest(
  "no more is sent to a role than its pulls ask for",
  "a role that nats-server cuts off as a slow consumer goes on where it was",
  async () => {
    await using rig = await startOpen('max_pending: 1MB\nwrite_deadline: "500ms"\n');
    const cutOff = () => rig.nats.log.match(/slow consumer/gi)?.length ?? 0;
    for (const role of ["receiver", "requester"] as const) {
      // How much is on its way to a role that stops, only its moment decides.
      const before = cutOff();
      for (let load = 0; load < 4 && cutOff() === before; load++) {
        // More on its way than all buffers of the kernel hold.
        const much = { ...LOAD, tunnels: 64, tunnelBytes: 4 * MIB };
        await using running = await Load.start(rig, much);
        for (let i = 0; i < 3 && cutOff() === before; i++) {
          rig[role].kill("SIGSTOP");
          await pause(1_500);
          rig[role].kill("SIGCONT");
          await pause(100);
        }
        await running.finish();
      }
    }
    assert.match(rig.nats.log, /slow consumer/i);
    await flowsGone([rig.requester, rig.receiver]);
  },
);

for (const role of ["requester", "receiver"] as const) {
  Deno.test(`a ${role} whose link to NATS flaps at short intervals loses nothing`, async () => {
    await using bridge = await startCabled(role, { settings: { PEER_TIMEOUT: "10" } });
    const { requester, receiver, upstream, cable } = bridge;
    await using load = await Load.start({ port: requester.port, upstream }, LOAD);
    for (let i = 0; i < 8; i++) {
      await cable.joined();
      await pause(20 * i);
      await cable.cut();
      await cable.heal();
    }
    await load.finish();
    await flowsGone([requester, receiver]);
  });
}

Deno.test("an outage while both windows are shut: the octets that waited arrive when the readers wake", async () => {
  const size = 12 * MIB;
  await using rig = await startOpen();
  const woken = Promise.withResolvers<void>();
  const checked = Promise.withResolvers<void>();
  rig.upstream.route("/shut", async (_, connection) => {
    const sending = sendStream(connection, 2, size);
    await woken.promise;
    await checkStream(connection, 1, size).then(checked.resolve, checked.reject);
    await sending;
  });
  await using socket = await openTunnel(rig.port, rig.upstream.port);
  await socket.write(requestOctets("/shut"));
  const sending = sendStream(socket, 1, size);
  await pause(800);
  await rig.nats.kill("SIGKILL");
  await pause(1_000);
  await rig.nats.restart();
  await pause(500);
  woken.resolve();
  await Promise.all([checkStream(socket, 2, size), sending, checked.promise]);
});
