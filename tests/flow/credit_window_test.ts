import assert from "node:assert/strict";
import { GrantCounter, SendWindow } from "../../lib/flow/credit_window.ts";
import { creditSizes } from "../../lib/protocol/credit.ts";

Deno.test("A send window starts at its first amount, shrinks by use and grows by grants", () => {
  const window = new SendWindow(100, 10);
  assert.equal(window.credit, 10);
  window.take(10);
  assert.equal(window.credit, 0);
  window.grant(60);
  window.grant(60);
  assert.equal(window.credit, 100, "what exceeds the cap is lost");
});

Deno.test("wait resolves at once with credit, later with a grant, and with the close", async () => {
  const window = new SendWindow(100, 1);
  await window.wait();
  window.take(1);
  let waited = "pending";
  const granted = window.wait().then(() => waited = "granted");
  await Promise.resolve();
  assert.equal(waited, "pending");
  window.grant(5);
  await granted;
  window.take(5);
  const closed = window.wait();
  window.close();
  await closed;
  assert.equal(window.credit, 0);
  await window.wait();
});

Deno.test("Grants: the first amount, then what was consumed in whole batches, nothing twice", () => {
  const sizes = creditSizes(1_048_576);
  const grants = new GrantCounter(sizes);
  assert.equal(grants.first(), 1_048_576);
  assert.equal(grants.next(-5000), 0, "the head alone is pending");
  assert.equal(grants.next(262_143), 0);
  assert.equal(grants.next(262_144), 262_144);
  assert.equal(grants.next(262_144), 0);
  assert.equal(grants.next(262_144 + 300_000), 300_000);
  assert.equal(grants.next(262_144 + 300_000), 0);
});

Deno.test("A producer and a consumer never stall, and never have more than the first amount out", () => {
  const sizes = creditSizes(64 * 1024);
  const window = new SendWindow(sizes.cap, 0);
  const grants = new GrantCounter(sizes);
  window.grant(grants.first());
  const total = 50 * 1024 * 1024;
  let sent = 0;
  let consumed = 0;
  while (sent < total) {
    assert.ok(window.credit > 0, `stalled at ${sent}`);
    while (window.credit > 0 && sent < total) {
      const size = Math.min(sizes.chunk, window.credit, total - sent);
      window.take(size);
      sent += size;
    }
    assert.ok(sent - consumed <= sizes.initial);
    consumed = sent;
    const back = grants.next(consumed);
    if (back > 0) window.grant(back);
  }
  assert.equal(consumed, total);
});
