/**
 * iperf3 through a static forward.
 * @module
 */
import assert from "node:assert/strict";
import { startBridge } from "./support/bridge.ts";
import { FULL, MIB, randomBytes, sha256, TempFolder } from "./support/files.ts";
import { startIperf3 } from "./support/iperf3.ts";
import { runAny } from "./support/program.ts";

const SECONDS = FULL ? 20 : 2;
const STREAMS = 16;
/** What every stream must get, however busy the machine is. */
const LEAST_BYTES = 256 * 1024;
const FILE_BYTES = 64 * MIB;
/** How long the server may be busy with the end of the test before. */
const BUSY_MS = 10_000;

/** The parts of iperf3's report that these tests read. */
interface Report {
  readonly error?: string;
  readonly end: {
    readonly streams: readonly {
      readonly sender: { readonly bytes: number };
      readonly receiver: { readonly bytes: number };
    }[];
    readonly sum_sent: { readonly bytes: number };
    readonly sum_received: { readonly bytes: number };
  };
}

async function iperf3(port: number, words: readonly string[]): Promise<Report> {
  const args = ["--client", "127.0.0.1", "--port", `${port}`, "--json", ...words];
  const deadline = performance.now() + BUSY_MS;
  for (;;) {
    const report = JSON.parse((await runAny("iperf3", args)).text) as Report;
    // It serves one test at a time, and the one before may still be ending there.
    if (/busy/.test(report.error ?? "") && performance.now() < deadline) continue;
    assert.equal(report.error, undefined);
    return report;
  }
}

for (const [name, words] of [["to the server", []], ["from the server", ["--reverse"]]] as const) {
  Deno.test(`iperf3 with 1 and ${STREAMS} streams ${name} ends well on both sides`, async () => {
    await using server = await startIperf3();
    await using bridge = await startBridge({ forwardTo: [server.port] });
    await bridge.explained(async () => {
      for (const streams of [1, STREAMS]) {
        const parallel = ["--time", `${SECONDS}`, "--parallel", `${streams}`];
        const { end } = await iperf3(bridge.forward(server.port), [...parallel, ...words]);
        assert.equal(end.streams.length, streams);
        for (const { receiver } of end.streams) {
          assert.ok(receiver.bytes >= LEAST_BYTES, `a stream got ${receiver.bytes} octets alone`);
        }
        assert.ok(end.sum_received.bytes <= end.sum_sent.bytes);
      }
    });
  });
}

/**
 * iperf3 stops to read when its control connection says so: the last octets may still be on their
 * way then, without natsway too.
 */
async function assertNearlyWhole(file: string, sent: Uint8Array): Promise<void> {
  const got = await Deno.readFile(file);
  assert.ok(got.length > sent.length / 2, `${got.length} of ${sent.length} octets`);
  assert.equal(sha256(got), sha256(sent.subarray(0, got.length)));
}

Deno.test("iperf3 --file brings a file's octets to the server and from it", async () => {
  await using folder = new TempFolder();
  const content = randomBytes(FILE_BYTES);
  const source = await folder.write("source", content);
  const [far, back] = [folder.at("far"), folder.at("back")];
  await using taking = await startIperf3(far);
  await using giving = await startIperf3(source);
  await using bridge = await startBridge({ forwardTo: [taking.port, giving.port] });
  await bridge.explained(async () => {
    await iperf3(bridge.forward(taking.port), ["--file", source]);
    await assertNearlyWhole(far, content);
    // In this direction iperf3 always takes its full time.
    await iperf3(bridge.forward(giving.port), ["--file", back, "--reverse", "--time", "4"]);
    await assertNearlyWhole(back, content);
  });
});
