import assert from "node:assert/strict";
import type { Inbound } from "../../../lib/transport/types.ts";
import { EventLog } from "../../helpers/wait.ts";
import { decode, encode } from "../support.ts";
import { pool, request, settlements, takeAndForget, TestReceiver } from "./receiver_rig.ts";
import { eventually, JsServer, JumpingClock, STREAM } from "./support.ts";

Deno.test("a refused request comes again after the delay, and on its last delivery it is terminated", async () => {
  await using js = await JsServer.start();
  const log = settlements(js);
  await using receiver = new TestReceiver(js.server.url, "worker");
  await receiver.until(null);
  await request(js, "a");
  const first = await receiver.take("a");
  assert.deepEqual([first.deliveries, first.redelivered, first.lastDelivery], [1, false, false]);
  const refusedMs = performance.now();
  first.nak(300);
  first.ack();
  const second = await receiver.take("a", 1);
  assert.ok(performance.now() - refusedMs >= 290);
  assert.deepEqual([second.deliveries, second.redelivered, second.lastDelivery], [2, true, false]);
  second.nak(0);
  const third = await receiver.take("a", 2);
  assert.deepEqual([third.deliveries, third.lastDelivery], [3, true]);
  third.nak(0);
  await receiver.transport.flush();
  await js.operator.link.flush();
  assert.deepEqual(log.events, ['-NAK {"delay": 300000000}', "-NAK", "+TERM"]);
  assert.equal((await pool(js))[0], 0);
});

Deno.test("a settlement made while the link is down is sent with the next connection", async () => {
  await using js = await JsServer.start();
  await using receiver = new TestReceiver(js.server.url, "worker");
  await receiver.until(null);
  await request(js, "a");
  const delivery = await receiver.take("a");
  await js.server.kill("SIGTERM");
  await receiver.until(/not connected/);
  delivery.ack();
  await js.server.restart();
  await receiver.until(null);
  await receiver.transport.flush();
  await js.operator.until(true);
  assert.equal((await pool(js))[0], 0);
});

Deno.test("so many requests are taken as there are free slots, and more when more are free", async () => {
  await using js = await JsServer.start();
  let free = 3;
  await using receiver = new TestReceiver(js.server.url, "worker", {}, { free: () => free });
  await receiver.until(null);
  receiver.taken.add = ((add) => (taken) => {
    free--;
    add.call(receiver.taken, taken);
  })(receiver.taken.add);
  for (let i = 0; i < 10; i++) await request(js, `r${i}`);
  await receiver.take("r2");
  assert.deepEqual(await pool(js), [3, 0, 7]);
  free = 5;
  receiver.consumer.more();
  await receiver.take("r7");
  assert.deepEqual(await pool(js), [8, 0, 2]);
  assert.equal(free, 0);
  assert.equal(receiver.taken.events.length, 8);
});

Deno.test("two receivers of a pool share the requests", async () => {
  await using js = await JsServer.start();
  await using one = new TestReceiver(js.server.url, "one");
  await using two = new TestReceiver(js.server.url, "two");
  await Promise.all([one.until(null), two.until(null)]);
  await Promise.all([one.transport.flush(), two.transport.flush()]);
  const all = new EventLog<string>();
  for (const receiver of [one, two]) {
    const add = receiver.taken.add;
    receiver.taken.add = (taken) => {
      taken.delivery.ack();
      add.call(receiver.taken, taken);
      all.add(taken.text);
    };
  }
  const count = 40;
  for (let i = 0; i < count; i++) await request(js, `r${i}`);
  await all.find(() => all.events.length === count, { ms: 10_000, what: "all requests" });
  assert.equal(new Set(all.events).size, count);
  assert.ok(one.taken.events.length >= 10, `${one.taken.events.length} of ${count}`);
  assert.ok(two.taken.events.length >= 10, `${two.taken.events.length} of ${count}`);
});

Deno.test("a receiver that finds no place among the waiting pulls stays ready, and gets one when it can", async () => {
  await using js = await JsServer.start();
  await js.addDurable(60_000, { max_waiting: 1 });
  await using one = new TestReceiver(js.server.url, "one");
  await one.until(null);
  await one.transport.flush();
  await using two = new TestReceiver(js.server.url, "two");
  await two.until(null);
  await two.transport.flush();
  await one.consumer.pause();
  await request(js, "a");
  (await two.take("a")).ack();
  assert.equal(two.notReady, null);
  assert.equal(two.readiness.events.at(-1), null);
  assert.equal(two.readiness.events.filter((reason) => reason === null).length, 1);
});

Deno.test("a request that is larger than a pull may be is taken alone", async () => {
  await using js = await JsServer.start();
  await js.addDurable(60_000, { max_bytes: 5000 });
  await using receiver = new TestReceiver(js.server.url, "worker");
  await receiver.until(null);
  for (const letter of ["a", "b"]) {
    await js.operator.link.request("proxy.requests.edge.big", encode(letter.repeat(20_000)), {
      timeoutMs: 5000,
    });
  }
  await request(js, "c");
  (await receiver.take("a".repeat(20_000))).ack();
  (await receiver.take("b".repeat(20_000))).ack();
  (await receiver.take("c")).ack();
});

Deno.test("a paused receiver gets nothing, its share goes to the others; resumed it takes part again", async () => {
  await using js = await JsServer.start();
  await using leaving = new TestReceiver(js.server.url, "leaving");
  await leaving.until(null);
  await leaving.transport.flush();
  await leaving.consumer.pause();
  await using staying = new TestReceiver(js.server.url, "staying");
  await staying.until(null);
  for (let i = 0; i < 5; i++) await request(js, `r${i}`);
  for (let i = 0; i < 5; i++) (await staying.take(`r${i}`)).ack();
  assert.equal(leaving.taken.events.length, 0);
  await staying.consumer.pause();
  leaving.consumer.resume();
  await request(js, "again");
  (await leaving.take("again")).ack();
});

Deno.test("a request that nobody settled is answered by one receiver and removed", async () => {
  await using js = await JsServer.start();
  await js.addDurable(500, { max_deliver: 1 });
  await request(js, "poison");
  // A receiver that takes it and dies.
  await takeAndForget(js);
  const exhausted = new EventLog<string>();
  const onExhausted = ({ token, data, reply }: Inbound) => {
    exhausted.add(`${token} ${decode(data)} ${reply}`);
  };
  const requests = { free: () => 5, onExhausted };
  await using one = new TestReceiver(js.server.url, "one", {}, requests);
  await using two = new TestReceiver(js.server.url, "two", {}, requests);
  await exhausted.find(() => true, { ms: 10_000, what: "the exhausted request" });
  await eventually(10_000, async () => {
    assert.equal(await js.manager.streams.getMessage(STREAM, { seq: 1 }), null);
    assert.equal(one.transport.counts.exhausted + two.transport.counts.exhausted, 1);
  });
  assert.deepEqual(exhausted.events, ["poison poison "]);
  assert.equal(one.taken.events.length + two.taken.events.length, 0);
});

Deno.test("the age of a request is known, also when both clocks have gone on, and unknown when one was set", async () => {
  await using js = await JsServer.start();
  const clock = new JumpingClock();
  await using receiver = new TestReceiver(js.server.url, "worker", { clock });
  await receiver.until(null);
  await request(js, "a");
  const delivery = await receiver.take("a");
  await eventually(5000, () => {
    assert.ok(typeof delivery.ageMs === "number");
    return Promise.resolve();
  });
  const ageMs = delivery.ageMs ?? NaN;
  assert.ok(ageMs >= 0 && ageMs < 5000, `${ageMs} ms`);
  clock.monoJumpMs = clock.wallJumpMs = 60_000;
  const laterMs = delivery.ageMs ?? NaN;
  assert.ok(laterMs >= 58_000 && laterMs < 66_000, `${laterMs} ms`);
  clock.wallJumpMs += 2000;
  assert.equal(delivery.ageMs, null);
  await eventually(5000, () => {
    assert.ok(delivery.ageMs !== null);
    return Promise.resolve();
  });
  // Measured anew, with the server's clock: the jump of both counts as none.
  assert.ok((delivery.ageMs ?? NaN) < 5000);
});
