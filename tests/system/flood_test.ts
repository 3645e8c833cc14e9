import assert from "node:assert/strict";
import { requestOctets } from "../helpers/client.ts";
import { freePort } from "../helpers/nats_server.ts";
import { rssBytes } from "../helpers/proc.ts";
import { type Rig, startRig } from "../helpers/rig.ts";
import type { TestSocket } from "../helpers/socket.ts";
import { pause } from "../helpers/wait.ts";
import { flowsGone } from "./flows.ts";
import { OPEN_PROXY, openTunnel, sendStream } from "./tunnels.ts";
import { Checker } from "./octet_stream.ts";

const FULL = Deno.env.get("NATSWAY_TEST_FULL") === "1";
const MIB = 1_048_576;
/** F23 with NATSWAY_TEST_FULL=1. */
const FLOOD_BYTES = (FULL ? 1_024 : 128) * MIB;
const STALL_MS = FULL ? 20_000 : 3_000;
const DRIP_MS = FULL ? 20_000 : 2_000;
const DRIP_BYTES_PER_S = MIB;
const MOST_GROWTH_BYTES = 64 * MIB;
/** What one flow and the kernel's buffers of its sockets may take of a reader that takes nothing. */
const MOST_TAKEN_BYTES = 40 * MIB;
const SERVED_MS = 1_000;
const SEED = 23;

/** Reads at a steady slow pace and checks each octet. */
async function drip(socket: TestSocket, ms: number): Promise<number> {
  const checker = new Checker(SEED);
  const started = performance.now();
  for (;;) {
    const elapsed = performance.now() - started;
    if (elapsed > ms) return checker.bytes;
    const allowed = elapsed / 1000 * DRIP_BYTES_PER_S;
    if (checker.bytes > allowed) {
      await pause((checker.bytes - allowed) / DRIP_BYTES_PER_S * 1000);
      continue;
    }
    const piece = await socket.read();
    assert.notEqual(piece, null, `the flood ended after ${checker.bytes} octets`);
    checker.take(piece ?? new Uint8Array(0));
  }
}

/** Watches resident memory and small requests until it is stopped. */
class Watch {
  readonly #rig: Rig;
  readonly #pids: readonly number[];
  readonly #before: readonly number[];
  readonly #most: number[];
  readonly #done: Promise<void>;
  readonly tookMs: number[] = [];
  #going = true;

  constructor(rig: Rig) {
    this.#rig = rig;
    this.#pids = [rig.requester.pid, rig.receiver.pid, rig.nats.pid];
    this.#before = this.#pids.map(rssBytes);
    this.#most = [...this.#before];
    this.#done = this.#run();
  }

  async stop(): Promise<void> {
    this.#going = false;
    await this.#done;
    ["requester", "receiver", "nats-server"].forEach((name, i) => {
      const grown = (this.#most[i] ?? 0) - (this.#before[i] ?? 0);
      assert.ok(grown < MOST_GROWTH_BYTES, `${name} grew by ${Math.round(grown / MIB)} MiB`);
    });
    const slowest = Math.max(...this.tookMs);
    assert.ok(slowest < SERVED_MS, `a request beside the flood took ${slowest} ms`);
    const median = this.tookMs.sort((a, b) => a - b)[this.tookMs.length >> 1] ?? Infinity;
    assert.ok(median < 100, `requests beside the flood took ${median} ms`);
  }

  async #run(): Promise<void> {
    while (this.#going) {
      this.#pids.forEach((pid, i) => this.#most[i] = Math.max(this.#most[i] ?? 0, rssBytes(pid)));
      const started = performance.now();
      assert.equal((await this.#rig.request("/beside")).status, 200);
      this.tookMs.push(performance.now() - started);
      await pause(50);
    }
  }
}

/** One way in which octets flood a reader. */
interface Flood {
  readonly name: string;
  /** Starts it and returns the slow reader, with how much the other end could write so far. */
  start(rig: Rig): Promise<{ reader: TestSocket; written: () => number; close: () => unknown }>;
}

const FLOODS: readonly Flood[] = [
  {
    name: "a response",
    async start(rig) {
      let written = 0;
      rig.upstream.route("/flood", async (_, connection) => {
        await connection.write(`HTTP/1.1 200 OK\r\nContent-Length: ${FLOOD_BYTES}\r\n\r\n`);
        await sendStream(connection, SEED, FLOOD_BYTES, {
          before: (sent) => void (written = sent),
        });
      });
      const client = await rig.connect();
      await client.send(requestOctets("/flood"));
      await client.socket.readUntil("\r\n\r\n");
      return { reader: client.socket, written: () => written, close: () => client.close() };
    },
  },
  {
    name: "the target of a tunnel",
    async start(rig) {
      let written = 0;
      rig.upstream.route("/flood", async (_, connection) => {
        await sendStream(connection, SEED, FLOOD_BYTES, {
          before: (sent) => void (written = sent),
        });
      });
      const socket = await openTunnel(rig.port, rig.upstream.port);
      await socket.write(requestOctets("/flood"));
      return { reader: socket, written: () => written, close: () => socket.close() };
    },
  },
  {
    name: "the client of a tunnel",
    async start(rig) {
      let written = 0;
      const taken = Promise.withResolvers<TestSocket>();
      const over = Promise.withResolvers<void>();
      rig.upstream.route("/flood", async (_, connection) => {
        taken.resolve(connection);
        await over.promise;
        return "close";
      });
      const socket = await openTunnel(rig.port, rig.upstream.port);
      await socket.write(requestOctets("/flood"));
      const reader = await taken.promise;
      sendStream(socket, SEED, FLOOD_BYTES, { before: (sent) => void (written = sent) })
        .catch(() => {}); // the reader leaves before it is done
      const close = async () => {
        over.resolve();
        await socket.waitEnd(2_000);
        await socket.close();
      };
      return { reader, written: () => written, close };
    },
  },
];

for (const { name, start } of FLOODS) {
  Deno.test(`F23 ${name} floods a reader that pauses, then drips: bounded memory, others keep their speed`, async () => {
    const monitorPort = freePort();
    await using rig = await startRig({
      natsConfig: `http: "127.0.0.1:${monitorPort}"\n`,
      requesterSettings: OPEN_PROXY,
    });
    for (let i = 0; i < 20; i++) await rig.request("/warm-up");
    const watch = new Watch(rig);
    const { reader, written, close } = await start(rig);
    await pause(STALL_MS);
    const taken = written();
    assert.ok(taken < MOST_TAKEN_BYTES, `${taken / MIB} MiB were taken for a reader that sleeps`);
    assert.ok(taken > 0, "the flood has not begun");
    // Paused for good: another second brings nothing more.
    await pause(1_000);
    assert.equal(written(), taken, "the flooding end is still being read");
    const dripped = await drip(reader, DRIP_MS);
    assert.ok(dripped > DRIP_MS / 1000 * DRIP_BYTES_PER_S / 2, `only ${dripped} octets dripped`);
    await watch.stop();
    await close();
    await flowsGone([rig.requester, rig.receiver]);
    assert.doesNotMatch(rig.nats.log, /slow consumer/i);
    const varz = await (await fetch(`http://127.0.0.1:${monitorPort}/varz`)).json() as {
      slow_consumers: number;
    };
    assert.equal(varz.slow_consumers, 0);
  });
}
