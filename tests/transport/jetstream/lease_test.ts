import assert from "node:assert/strict";
import { Lease } from "../../../lib/transport/jetstream/lease.ts";
import { pool, request, settlements, TestReceiver } from "./receiver_rig.ts";
import { JsServer, JumpingClock } from "./support.ts";

const ACK_WAIT_MS = 4000;

Deno.test("a claim acknowledges the message and is true once that is confirmed", async () => {
  await using js = await JsServer.start();
  await using receiver = new TestReceiver(js.server.url, "worker");
  await receiver.until(null);
  await request(js, "a");
  const delivery = await receiver.take("a");
  const claim = delivery.claim();
  assert.notEqual(claim, true);
  assert.equal(await claim, true);
  assert.deepEqual(await pool(js), [0, 0, 0]);
  assert.equal(await delivery.claim(), true, "the answer stays");
  assert.equal(receiver.transport.counts.leasesLost, 0);
});

for (const clockName of ["monotonic clock", "wall clock"] as const) {
  Deno.test(`a process that was stopped for longer than the lease, by its ${clockName}, neither owns nor takes the message`, async () => {
    await using js = await JsServer.start();
    await js.addDurable(ACK_WAIT_MS);
    const clock = new JumpingClock();
    await using receiver = new TestReceiver(js.server.url, "worker", { clock });
    await receiver.until(null);
    await request(js, "a");
    const delivery = await receiver.take("a");
    if (clockName === "wall clock") clock.wallJumpMs = ACK_WAIT_MS;
    else clock.monoJumpMs = ACK_WAIT_MS;
    const log = settlements(js);
    await js.operator.link.flush();
    assert.equal(await delivery.claim(), false);
    assert.equal(receiver.transport.counts.leasesLost, 1);
    await receiver.transport.flush();
    await js.operator.link.flush();
    assert.deepEqual(log.events.filter((text) => text === "+ACK"), []);
    assert.equal((await pool(js))[0], 1, "another receiver can have it");
  });
}

Deno.test("a confirmation that comes after the lease is worth nothing", async () => {
  await using js = await JsServer.start();
  await js.addDurable(ACK_WAIT_MS);
  const clock = new JumpingClock();
  await using receiver = new TestReceiver(js.server.url, "worker", { clock });
  await receiver.until(null);
  await request(js, "a");
  const delivery = await receiver.take("a");
  const claim = delivery.claim();
  clock.monoJumpMs = ACK_WAIT_MS;
  assert.equal(await claim, false);
});

Deno.test("an in_progress that is confirmed in time moves the lease", async () => {
  await using js = await JsServer.start();
  await js.addDurable(ACK_WAIT_MS);
  const clock = new JumpingClock();
  await using receiver = new TestReceiver(js.server.url, "worker", { clock });
  await receiver.until(null);
  await request(js, "a");
  await request(js, "b");
  const first = await receiver.take("a");
  const second = await receiver.take("b");
  clock.monoJumpMs += ACK_WAIT_MS * 0.6;
  first.working();
  // Answered in turn: with this confirmation the one of the in_progress has come.
  assert.equal(await second.claim(), true);
  clock.monoJumpMs += ACK_WAIT_MS * 0.6;
  assert.equal(await first.claim(), true);
});

Deno.test("a lease counts the larger clock, and a confirmation that comes late does not move it", () => {
  const time = { mono: 0, wall: 0 };
  const clock = { monoMs: () => time.mono, wallMs: () => time.wall };
  const lease = new Lease(clock, { monoMs: 0, wallMs: 0 }, 1000);
  time.mono = 999;
  assert.ok(lease.held);
  time.wall = 1000;
  assert.ok(!lease.held);
  time.wall = 900;
  lease.confirmed({ monoMs: 500, wallMs: 500 });
  time.mono = 1499;
  assert.ok(lease.held);
  time.mono = 1500;
  assert.ok(!lease.held);
  lease.confirmed({ monoMs: 1400, wallMs: 1400 });
  assert.ok(!lease.held);
});

Deno.test("a claim that the link cuts off is false", async () => {
  await using js = await JsServer.start();
  await using receiver = new TestReceiver(js.server.url, "worker");
  await receiver.until(null);
  await request(js, "a");
  const delivery = await receiver.take("a");
  await js.server.kill("SIGSTOP");
  const claim = delivery.claim();
  await js.server.kill("SIGKILL");
  assert.equal(await claim, false);
  assert.equal(await delivery.claim(), false);
});

Deno.test("a claim on a consumer that is gone is false at once", async () => {
  await using js = await JsServer.start();
  await using receiver = new TestReceiver(js.server.url, "worker");
  await receiver.until(null);
  await request(js, "a");
  const delivery = await receiver.take("a");
  await js.manager.streams.delete("proxy");
  assert.equal(await delivery.claim(), false);
});

Deno.test("an unsettled request gets a heartbeat each third of the consumer's own ack_wait, and no other delivery", async () => {
  await using js = await JsServer.start();
  await js.addDurable(900);
  const log = settlements(js);
  await using receiver = new TestReceiver(js.server.url, "worker");
  await receiver.until(null);
  await request(js, "a");
  const delivery = await receiver.take("a");
  const start = performance.now();
  for (let beats = 0; beats < 12; beats++) {
    await log.find((text) => text === "+WPI", { ms: 5000, what: "a heartbeat", from: beats });
  }
  const tookMs = performance.now() - start;
  assert.ok(tookMs > 12 * 300 * 0.6, `12 heartbeats in ${tookMs} ms`);
  assert.equal((await pool(js))[1], 0, "it was not delivered again");
  delivery.ack();
  await receiver.transport.flush();
  assert.deepEqual(await pool(js), [0, 0, 0]);
  assert.equal(receiver.taken.events.length, 1);
  assert.equal(receiver.transport.counts.unsettled, 0);
});
