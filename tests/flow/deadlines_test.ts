import assert from "node:assert/strict";
import { Deadlines, DeadlinesByLength } from "../../lib/flow/deadlines.ts";
import { within } from "../helpers/wait.ts";

/** Keeps the process awake: the timer of `Deadlines` alone does not. */
function awake<T>(promise: Promise<T>, what: string): Promise<T> {
  return within(promise, 5_000, what);
}

Deno.test("Deadlines end in the order in which they began, and not before their time", async () => {
  const deadlines = new Deadlines(30);
  const order: number[] = [];
  const started = performance.now();
  await awake(
    new Promise<void>((resolve) => {
      for (let i = 0; i < 5; i++) {
        deadlines.start(() => {
          order.push(i);
          if (i === 4) resolve();
        });
      }
    }),
    "five deadlines",
  );
  assert.deepEqual(order, [0, 1, 2, 3, 4]);
  assert.ok(performance.now() - started >= 29);
  deadlines.close();
});

Deno.test("A cancelled deadline does not run, wherever it stands", async () => {
  const deadlines = new Deadlines(20);
  const ran: string[] = [];
  const done = Promise.withResolvers<void>();
  const first = deadlines.start(() => ran.push("first"));
  const middle = deadlines.start(() => ran.push("middle"));
  deadlines.start(() => ran.push("kept"));
  const last = deadlines.start(() => ran.push("last"));
  deadlines.start(() => done.resolve());
  last.cancel();
  middle.cancel();
  first.cancel();
  first.cancel();
  await awake(done.promise, "the deadline that was kept");
  assert.deepEqual(ran, ["kept"]);
  deadlines.close();
});

Deno.test("A deadline may cancel another one that is due at the same moment", async () => {
  const deadlines = new Deadlines(10);
  const ran: string[] = [];
  const done = Promise.withResolvers<void>();
  deadlines.start(() => {
    ran.push("first");
    second.cancel();
  });
  const second = deadlines.start(() => ran.push("second"));
  deadlines.start(() => done.resolve());
  await awake(done.promise, "the third");
  assert.deepEqual(ran, ["first"]);
  deadlines.close();
});

Deno.test("Cancelling after the end does nothing", async () => {
  const deadlines = new Deadlines(5);
  const done = Promise.withResolvers<void>();
  const deadline = deadlines.start(() => done.resolve());
  await awake(done.promise, "the deadline");
  deadline.cancel();
  const again = Promise.withResolvers<void>();
  deadlines.start(() => again.resolve());
  await awake(again.promise, "one that was started after the ring was empty");
  deadlines.close();
});

Deno.test("A deadline that is started by an ending one runs a whole time later", async () => {
  const deadlines = new Deadlines(25);
  const done = Promise.withResolvers<number>();
  deadlines.start(() => {
    const started = performance.now();
    deadlines.start(() => done.resolve(performance.now() - started));
  });
  assert.ok(await awake(done.promise, "the second") >= 24);
  deadlines.close();
});

Deno.test("close cancels all, leaks no timer, and a later start still works", async () => {
  const deadlines = new Deadlines(10);
  let ran = 0;
  for (let i = 0; i < 1000; i++) deadlines.start(() => ran++);
  deadlines.close();
  const done = Promise.withResolvers<void>();
  deadlines.start(() => done.resolve());
  await awake(done.promise, "a deadline after close");
  assert.equal(ran, 0);
  deadlines.close();
});

Deno.test("DeadlinesByLength run each after its own time, unless cancelled", async () => {
  const deadlines = new DeadlinesByLength();
  const ended: number[] = [];
  const done = Promise.withResolvers<void>();
  const started = performance.now();
  deadlines.start(200, () => done.resolve());
  deadlines.start(150, () => ended.push(performance.now() - started));
  deadlines.start(20.5, () => ended.push(performance.now() - started));
  deadlines.start(60, () => ended.push(-1)).cancel();
  await awake(done.promise, "the longest deadline");
  assert.equal(ended.length, 2);
  assert.ok(ended[0]! >= 20 && ended[1]! >= 149, String(ended));
  deadlines.close();
});

Deno.test("DeadlinesByLength end none before its time, however many lengths there are", async () => {
  const deadlines = new DeadlinesByLength();
  const started = performance.now();
  const waits: Promise<number>[] = [];
  for (let ms = 1; ms <= 100; ms++) {
    waits.push(
      new Promise((resolve) =>
        deadlines.start(ms, () => resolve(performance.now() - started - ms))
      ),
    );
  }
  for (const late of await awake(Promise.all(waits), "a hundred deadlines")) {
    assert.ok(late >= -0.5, String(late));
  }
  deadlines.start(60_000, () => assert.fail("it was closed"));
  deadlines.close();
});
