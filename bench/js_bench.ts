/**
 * One way through a stream with file storage: natsway's JetStream transport in two workers against
 * `nats bench js pub async` and `nats bench js consume` in two processes, in turn on one server. Prints
 * medians and their ratio: `deno run -A bench/js_bench.ts [rounds]`. Needs the `nats` command.
 * @module
 */

import { jetstreamManager } from "@nats-io/jetstream";
import type { NatsConnection } from "@nats-io/nats-core/internal";
import { natsUrls } from "../lib/config/addresses.ts";
import { planePatterns } from "../lib/protocol/subjects.ts";
import { JetStreamTransport } from "../lib/transport/jetstream/jetstream.ts";
import { NatsLink } from "../lib/transport/link.ts";
import { startNats } from "../tests/helpers/nats_server.ts";

const ROOTS = { request: "proxy", response: "proxy" };
const STREAM = "proxy";
const CASES = [
  { bytes: 1024, messages: 100_000 },
  { bytes: 32 * 1024, messages: 12_000 },
  { bytes: 128 * 1024, messages: 3000 },
];
/** Both sides are this file; a worker is told by its name. */
const WORKER = "js-bench";
const LIMIT_BYTES = 1024 * 1024 * 1024;

const quiet = { debug() {}, info() {}, warn() {}, error() {}, enabled: () => false };

/** What a worker is told to do. */
interface Task {
  readonly role: "publish" | "consume";
  readonly url: string;
  readonly bytes: number;
  readonly messages: number;
}

function connect(url: string, serviceId: string): JetStreamTransport {
  return new JetStreamTransport({
    link: new NatsLink({ servers: natsUrls.parse(url), logger: quiet }),
    logger: quiet,
    stream: STREAM,
    base: "nats-proxy",
    serviceId,
    responseTimeoutMs: 30_000,
    streamResponseTimeoutMs: 30_000,
    apiPrefix: null,
    subjects: { requests: "proxy.requests.>", ...planePatterns(ROOTS, serviceId) },
  });
}

/** Connects, says "ready", and works when it is told "go"; says "done" at the end. */
async function work({ role, url, bytes, messages }: Task): Promise<void> {
  const port = self as unknown as Worker;
  const go = new Promise<void>((resolve) => port.onmessage = () => resolve());
  if (role === "consume") {
    const transport = connect(url, "edge");
    const done = Promise.withResolvers<void>();
    let count = 0;
    transport.consumePlane("sessions.downstream", ({ data }) => {
      if (data.length !== bytes) throw new Error("a wrong message");
      if (++count === messages) done.resolve();
    });
    await new Promise<void>((resolve) => {
      transport.onReadiness((notReady) => notReady === null && resolve());
    });
    port.postMessage("ready");
    await done.promise;
    port.postMessage("done");
    await transport.close();
    return;
  }
  const transport = connect(url, "worker");
  await new Promise<void>((resolve) => transport.onConnection(() => resolve()));
  port.postMessage("ready");
  await go;
  const payload = [new Uint8Array(bytes)];
  for (let sent = 0; sent < messages; sent++) {
    if (transport.congested) await transport.drained();
    if (!transport.publish("proxy.sessions.downstream.edge.t1", payload)) {
      throw new Error("the link is down");
    }
  }
  await transport.flush();
  const { lost } = transport.counts;
  if (lost > 0) throw new Error(`${lost} messages lost`);
  port.postMessage("done");
  await transport.close();
}

class Peer {
  readonly #worker = new Worker(import.meta.url, { type: "module", name: WORKER });
  #said: string[] = [];
  #wake: () => void = () => {};

  constructor(task: Task) {
    this.#worker.onmessage = ({ data }) => {
      this.#said.push(data);
      this.#wake();
    };
    this.#worker.postMessage(task);
  }

  go(): void {
    this.#worker.postMessage("go");
  }

  async said(word: string): Promise<void> {
    while (!this.#said.includes(word)) await new Promise<void>((resolve) => this.#wake = resolve);
  }

  end(): void {
    this.#worker.terminate();
  }
}

async function natsway(url: string, bytes: number, messages: number): Promise<number> {
  const consumer = new Peer({ role: "consume", url, bytes, messages });
  const publisher = new Peer({ role: "publish", url, bytes, messages });
  await Promise.all([consumer.said("ready"), publisher.said("ready")]);
  const start = performance.now();
  publisher.go();
  await consumer.said("done");
  const seconds = (performance.now() - start) / 1000;
  await publisher.said("done");
  consumer.end();
  publisher.end();
  return messages / seconds;
}

async function natsBench(url: string, bytes: number, messages: number): Promise<number> {
  const run = (...args: string[]) =>
    new Deno.Command("nats", {
      args: [
        "-s",
        url,
        "bench",
        "js",
        ...args,
        "--stream",
        STREAM,
        "--msgs",
        `${messages}`,
        "--size",
        `${bytes}B`,
        "--no-progress",
      ],
      stdout: "piped",
      stderr: "piped",
    }).output();
  const consuming = run("consume");
  const start = performance.now();
  const publishing = run("pub", "async", "proxy.bench");
  const [consumed, published] = await Promise.all([consuming, publishing]);
  const seconds = (performance.now() - start) / 1000;
  for (const { success, stderr } of [consumed, published]) {
    if (!success) throw new Error(new TextDecoder().decode(stderr));
  }
  return messages / seconds;
}

function median(values: number[]): number {
  return values.toSorted((a, b) => a - b)[values.length >> 1] ?? 0;
}

async function main(rounds: number): Promise<void> {
  const folder = await Deno.makeTempDir({ prefix: "natsway-js-bench-" });
  await using server = await startNats({ config: `jetstream { store_dir: "${folder}" }\n` });
  const link = new NatsLink({ servers: natsUrls.parse(server.url), logger: quiet });
  await new Promise<void>((resolve) => link.onConnection(() => resolve()));
  const manager = await jetstreamManager(link.connection as unknown as NatsConnection, {
    checkAPI: false,
  });
  const lines = [`Deno ${Deno.version.deno}, ${rounds} rounds, file storage, one way, medians`];
  for (const { bytes, messages } of CASES) {
    const rates: { own: number[]; bench: number[] } = { own: [], bench: [] };
    for (let round = 0; round < rounds; round++) {
      for (const [name, measure] of [["bench", natsBench], ["own", natsway]] as const) {
        await manager.streams.add(
          { name: STREAM, subjects: ["proxy.>"], storage: "file", max_bytes: LIMIT_BYTES } as never,
        );
        rates[name].push(await measure(server.url, bytes, messages));
        await manager.streams.delete(STREAM);
      }
    }
    const [own, bench] = [median(rates.own), median(rates.bench)];
    const mb = (rate: number) => `${(rate * bytes / 1e6).toFixed(0)} MB/s`;
    lines.push(
      `${bytes / 1024} KiB: natsway ${own.toFixed(0)}/s ${mb(own)}, ` +
        `nats bench ${bench.toFixed(0)}/s ${mb(bench)}, ratio ${(own / bench).toFixed(2)}`,
    );
  }
  await link.close();
  await Deno.remove(folder, { recursive: true });
  await Deno.stdout.write(new TextEncoder().encode(lines.join("\n") + "\n"));
}

if (self.name !== WORKER) {
  await main(Number(Deno.args[0] ?? 5));
} else {
  const port = self as unknown as Worker;
  port.onmessage = ({ data }) => void work(data as Task);
}
