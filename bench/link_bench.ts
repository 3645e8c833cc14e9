/**
 * Messages per second through the lane against nats-core's own publish and subscribe on a plain
 * transport, interleaved in one run. Prints medians and their ratio: `deno run -A bench/link_bench.ts`.
 * @module
 */

import { NatsConnectionImpl } from "@nats-io/nats-core/internal";
import { natsUrls } from "../lib/config/addresses.ts";
import { installLaneTransport } from "../lib/transport/lane_transport.ts";
import { NatsLink } from "../lib/transport/link.ts";
import { startNats } from "../tests/helpers/nats_server.ts";
import { installPlainTransport } from "../tests/transport/plain_transport.ts";

const MESSAGES = 200_000;
const PAYLOAD_BYTES = 512;
const ROUNDS = 7;
/** So many are published in one turn, as a busy process does. */
const BATCH = 64;

const quiet = { debug() {}, info() {}, warn() {}, error() {}, enabled: () => false };

interface Candidate {
  publish(subject: string, payload: Uint8Array): void;
  subscribe(subject: string, onMessage: (token: string, data: Uint8Array) => void): void;
  flush(): Promise<void>;
  /** Waits while the output is long. */
  drained(): Promise<void>;
  close(): Promise<void>;
}

async function lane(url: string): Promise<Candidate> {
  installLaneTransport();
  const link = new NatsLink({ servers: natsUrls.parse(url), logger: quiet });
  await new Promise<void>((resolve) => link.onConnection(() => resolve()));
  return {
    publish: (subject, payload) => void link.publish(subject, [payload]),
    subscribe: (subject, onMessage) =>
      void link.subscribe({ subject, label: "bench", deliver: onMessage }),
    flush: () => link.flush(),
    drained: () => link.drained(),
    close: () => link.close(),
  };
}

async function stock(url: string): Promise<Candidate> {
  installPlainTransport();
  const connection = await NatsConnectionImpl.connect({ servers: url, noAsyncTraces: true });
  return {
    publish: (subject, payload) => connection.publish(subject, payload),
    subscribe: (subject, onMessage) =>
      void connection.subscribe(subject, {
        callback: (_error, { subject, data }) =>
          onMessage(subject.slice(subject.lastIndexOf(".") + 1), data),
      }),
    flush: () => connection.flush(),
    drained: () => Promise.resolve(),
    close: () => connection.close(),
  };
}

/** Messages per second from one connection to another, both in this process. */
async function measure(from: Candidate, to: Candidate, subject: string): Promise<number> {
  const done = Promise.withResolvers<void>();
  let received = 0;
  to.subscribe(`${subject}.*`, (token, data) => {
    if (token.length !== 32 || data.length !== PAYLOAD_BYTES) throw new Error("a wrong message");
    if (++received === MESSAGES) done.resolve();
  });
  await to.flush();
  const payload = new Uint8Array(PAYLOAD_BYTES);
  const ids = Array.from({ length: BATCH }, () => crypto.randomUUID().replaceAll("-", ""));
  const start = performance.now();
  for (let sent = 0; sent < MESSAGES; sent += BATCH) {
    for (const id of ids) from.publish(`${subject}.${id}`, payload);
    await from.drained();
    // Half a round trip behind at most: neither candidate is to measure an endless queue.
    if (sent % (BATCH * 32) === 0) await from.flush();
    else await Promise.resolve();
  }
  await done.promise;
  return MESSAGES / ((performance.now() - start) / 1000);
}

function median(values: number[]): number {
  return values.toSorted((a, b) => a - b)[values.length >> 1] ?? 0;
}

await using server = await startNats();
const laneRates: number[] = [];
const stockRates: number[] = [];
const pairs = {
  stock: [await stock(server.url), await stock(server.url)] as const,
  lane: [await lane(server.url), await lane(server.url)] as const,
};
for (let round = 0; round < ROUNDS; round++) {
  stockRates.push(await measure(...pairs.stock, `bench.stock.${round}`));
  laneRates.push(await measure(...pairs.lane, `bench.lane.${round}`));
}
for (const candidate of [...pairs.stock, ...pairs.lane]) await candidate.close();

const ratios = laneRates.map((rate, round) => rate / (stockRates[round] ?? rate));
const lines = [
  `${MESSAGES} messages of ${PAYLOAD_BYTES} B, ${ROUNDS} rounds, Deno ${Deno.version.deno}`,
  `nats-core  ${Math.round(median(stockRates))} messages/s (median)`,
  `lane       ${Math.round(median(laneRates))} messages/s (median)`,
  `ratio      ${median(ratios).toFixed(2)} (median of rounds)`,
];
await Deno.stdout.write(new TextEncoder().encode(lines.join("\n") + "\n"));
