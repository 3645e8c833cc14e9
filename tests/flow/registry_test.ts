import assert from "node:assert/strict";
import { FlowError } from "../../lib/errors.ts";
import { FlowRegistry } from "../../lib/flow/registry.ts";
import { MemoryLogger } from "../helpers/unit_transport.ts";

function registry(maxFlows = 10) {
  const logger = new MemoryLogger();
  return { logger, registry: new FlowRegistry({ maxFlows, logger }) };
}

Deno.test("A flow is live from open to close, and ends once", () => {
  const { registry: flows, logger } = registry();
  const flow = flows.open("a", "http", "GET", "/x?secret=1");
  assert.equal(flows.size, 1);
  assert.deepEqual([...flows.live()], [flow]);
  assert.equal(flow.state, "waiting");
  assert.equal(flow.target, "/x");
  flows.close(flow, "ok");
  flows.close(flow, "gap", "too late");
  assert.equal(flow.state, "ended");
  assert.equal(flow.end, "ok");
  assert.equal(flows.size, 0);
  assert.equal(flows.opened, 1);
  assert.deepEqual([...flows.ends()], [["ok", 1]]);
  assert.equal(logger.lines.length, 1);
});

Deno.test("MAX_FLOWS bounds the live flows, and a refused one is counted", () => {
  const { registry: flows } = registry(2);
  const first = flows.open("a", "http", "GET", "/");
  flows.open("b", "http", "GET", "/");
  assert.throws(
    () => flows.open("c", "http", "GET", "/"),
    (error) =>
      error instanceof FlowError && error.code === "overloaded" && /MAX_FLOWS/.test(error.message),
  );
  assert.equal(flows.size, 2);
  assert.equal(flows.opened, 3);
  assert.equal(flows.ends().get("overloaded"), 1);
  flows.close(first, "ok");
  flows.open("d", "http", "GET", "/");
});

Deno.test("Two executions of one id are two flows", async () => {
  const { registry: flows } = registry();
  const first = flows.open("same", "http", "POST", "/");
  const second = flows.open("same", "http", "POST", "/");
  assert.equal(flows.size, 2);
  flows.close(first, "ok");
  assert.equal(flows.size, 1);
  let idle = false;
  const waiting = flows.idle().then(() => idle = true);
  await Promise.resolve();
  assert.equal(idle, false, "the second is still live");
  flows.close(second, "ok");
  await waiting;
});

Deno.test("idle resolves at once without flows, and with the end of the last one", async () => {
  const { registry: flows } = registry();
  await flows.idle();
  const a = flows.open("a", "http", "GET", "/");
  const b = flows.open("b", "http", "GET", "/");
  const idle = Promise.all([flows.idle(), flows.idle()]);
  flows.close(a, "ok");
  flows.close(b, "peer_lost");
  await idle;
});

Deno.test("One line for each flow, with the same names everywhere; a warning when it failed", () => {
  const { registry: flows, logger } = registry();
  const flow = flows.open("a", "http", "GET", "/x");
  flow.peer = "worker-1";
  flow.status = 502;
  flow.sentBytes = 3;
  flow.receivedBytes = 5;
  flows.close(flow, "target_refused", "Connection refused");
  const [line] = logger.lines;
  assert.equal(line?.level, "warning");
  assert.ok(typeof line.fields.ms === "number" && line.fields.ms >= 0);
  assert.deepEqual({ ...line.fields, ms: 0 }, {
    request_id: "a",
    kind: "http",
    code: "target_refused",
    method: "GET",
    target: "/x",
    status: 502,
    peer: "worker-1",
    sent_bytes: 3,
    received_bytes: 5,
    ms: 0,
    detail: "Connection refused",
  });
  for (const end of ["ok", "canceled"] as const) {
    flows.close(flows.open(end, "http", "GET", "/"), end);
    assert.equal(logger.lines.at(-1)?.level, "debug");
  }
  logger.level = "info";
  const before = logger.lines.length;
  flows.close(flows.open("quiet", "http", "GET", "/"), "ok");
  assert.equal(logger.lines.length, before);
});
