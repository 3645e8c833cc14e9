import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { latin1, pattern, sha256 } from "../helpers/bytes.ts";
import { coreTest } from "../helpers/mode.ts";
import { type Rig, startRig } from "../helpers/rig.ts";
import type { TestSocket } from "../helpers/socket.ts";
import { Cable } from "./cable.ts";
import { StdioProcess } from "./stdio.ts";
import { echo } from "./tunnels.ts";

const MIB = 1_048_576;

/** A bridge, and a stdio session to its upstream. */
function startStdio(rig: Rig, settings: Record<string, string> = {}): StdioProcess {
  return new StdioProcess(`127.0.0.1:${rig.upstream.port}`, {
    NATS_URL: rig.nats.url,
    ...settings,
  });
}

/** The script of an upstream that hands its one connection to the test, until it is disposed. */
class OneConnection implements Disposable {
  readonly #accepted = Promise.withResolvers<TestSocket>();
  readonly #over = Promise.withResolvers<void>();

  readonly script = (connection: TestSocket): Promise<void> => {
    this.#accepted.resolve(connection);
    return this.#over.promise;
  };

  get accepted(): Promise<TestSocket> {
    return this.#accepted.promise;
  }

  [Symbol.dispose](): void {
    this.#over.resolve();
  }
}

Deno.test("stdio carries every octet both ways and nothing else, and ends with 0 after both ends", async () => {
  await using rig = await startRig({ upstream: echo });
  await using stdio = startStdio(rig);
  const sent = pattern(8 * MIB);
  const sending = stdio.write(sent).then(() => stdio.closeInput());
  const digest = createHash("sha256");
  let count = 0;
  for (let piece = await stdio.read(); piece !== null; piece = await stdio.read()) {
    digest.update(piece);
    count += piece.length;
  }
  await sending;
  assert.equal(count, sent.length);
  assert.equal(digest.digest("hex"), sha256(sent));
  assert.deepEqual(await stdio.ended(), { code: 0, stderr: "" });
  const closed = await rig.receiver.flowClosed();
  assert.deepEqual([closed["code"], closed["kind"]], ["ok", "tcp"]);
});

Deno.test("the end of the target's bytes is seen on standard output while the input goes on", async () => {
  const far = new OneConnection();
  await using rig = await startRig({ upstream: far.script });
  using _far = far;
  await using stdio = startStdio(rig);
  const target = await far.accepted;
  await target.write("SSH-2.0-far\r\n");
  assert.equal(await stdio.readText(13), "SSH-2.0-far\r\n");
  await target.closeWrite();
  assert.equal(await stdio.read(), null);
  await stdio.write("still there");
  assert.equal(latin1(await target.readExactly(11)), "still there");
  await stdio.closeInput();
  assert.equal(await target.waitEnd(), "fin");
  assert.deepEqual(await stdio.ended(), { code: 0, stderr: "" });
});

Deno.test("a session that cannot be had is exit 1 and one line with its code", async () => {
  await using rig = await startRig();
  const targets: [target: string, code: string][] = [
    ["127.0.0.1:1", "target_refused"],
    ["no-such-host.invalid:22", "target_not_found"],
    ["169.254.169.254:80", "target_denied"],
  ];
  for (const [target, code] of targets) {
    await using stdio = new StdioProcess(target, { NATS_URL: rig.nats.url });
    await stdio.write("SSH-2.0-near\r\n");
    const { code: exit, stderr } = await stdio.ended();
    assert.equal(exit, 1);
    assert.match(stderr, new RegExp(`^natsway: .+ \\(${code}\\)\\n$`));
    assert.equal(await stdio.read(), null);
  }
});

coreTest(
  "a stream keeps a request until somebody comes",
  "no receiver: exit 1 with no_receiver at once",
  async () => {
    await using rig = await startRig({ receivers: 0 });
    await using lonely = startStdio(rig);
    const { code, stderr } = await lonely.ended();
    assert.equal(code, 1);
    assert.match(stderr, /^natsway: .+ \(no_receiver\)\n$/);
  },
);

Deno.test("no NATS: exit 1 with nats_down after NATS_RESPONSE_TIMEOUT", async () => {
  await using rig = await startRig({ receivers: 0 });
  await rig.nats.stop();
  await using down = startStdio(rig, { NATS_RESPONSE_TIMEOUT: "1" });
  const result = await down.ended();
  assert.equal(result.code, 1);
  assert.match(result.stderr, /natsway: no connection to NATS within 1 s \(nats_down\)\n$/);
});

Deno.test("NATS that comes while stdio waits for it is in time", async () => {
  await using rig = await startRig({ upstream: echo });
  await using cable = await Cable.to(rig.nats.port);
  await cable.cut();
  await using stdio = startStdio(rig, { NATS_URL: `nats://127.0.0.1:${cable.port}` });
  await stdio.write("early");
  await stdio.said(/cannot connect to NATS/);
  await cable.heal();
  assert.equal(await stdio.readText(5), "early");
  await stdio.closeInput();
  assert.equal((await stdio.ended()).code, 0);
});

Deno.test("a reset of the target is exit 1 with reset", async () => {
  const far = new OneConnection();
  await using rig = await startRig({ upstream: far.script });
  using _far = far;
  await using stdio = startStdio(rig);
  const target = await far.accepted;
  await target.write("x");
  assert.equal(await stdio.readText(1), "x");
  await target.reset();
  const { code, stderr } = await stdio.ended();
  assert.equal(code, 1);
  assert.match(stderr, /^natsway: the tunnel to 127\.0\.0\.1:\d+ was broken off \(reset\)\n$/);
});

Deno.test("when nobody reads standard output any more the target sees a reset", async () => {
  const far = new OneConnection();
  await using rig = await startRig({ upstream: far.script });
  using _far = far;
  await using stdio = startStdio(rig);
  const target = await far.accepted;
  await target.write("x");
  await stdio.readText(1);
  await stdio.closeOutput();
  await target.write("nobody reads this");
  assert.equal(await target.waitEnd(), "reset");
  const { code, stderr } = await stdio.ended();
  assert.equal(code, 1);
  assert.match(stderr, /\(reset\)\n$/);
});

for (const signal of ["SIGTERM", "SIGHUP"] as const) {
  Deno.test(`${signal} ends stdio at once, and the target sees the end`, async () => {
    const far = new OneConnection();
    await using rig = await startRig({ upstream: far.script });
    using _far = far;
    await using stdio = startStdio(rig);
    const target = await far.accepted;
    await target.write("x");
    await stdio.readText(1);
    const started = performance.now();
    stdio.kill(signal);
    assert.deepEqual(await stdio.ended(5_000), { code: 0, stderr: "" });
    assert.ok(performance.now() - started < 3_000);
    assert.equal(await target.waitEnd(5_000), "reset");
  });
}

Deno.test("stdio that is killed is noticed: the target sees a reset within the liveness bound", async () => {
  const far = new OneConnection();
  await using rig = await startRig({ upstream: far.script, settings: { PEER_TIMEOUT: "2" } });
  using _far = far;
  await using stdio = startStdio(rig, { PEER_TIMEOUT: "2" });
  const target = await far.accepted;
  await target.write("x");
  await stdio.readText(1);
  stdio.kill("SIGKILL");
  assert.equal(await target.waitEnd(15_000), "reset");
  assert.equal((await rig.receiver.flowClosed())["code"], "peer_lost");
});
