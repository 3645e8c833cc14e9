import { deepStrictEqual, match, strictEqual } from "node:assert/strict";
import { FlowError } from "../lib/errors.ts";
import { cli, linesOf } from "./helpers/unit_cli.ts";

Deno.test("natsway stdio takes a target and is a requester that logs only what is wrong", async () => {
  const targets: [word: string, host: string, port: number][] = [
    ["db.internal:5432", "db.internal", 5432],
    ["[::1]:22", "::1", 22],
    ["10.0.0.7:65535", "10.0.0.7", 65535],
  ];
  for (const [word, host, port] of targets) {
    const { started, code, stdout, stderr } = await cli(["stdio", word, "--nats-url", "nats://h"]);
    deepStrictEqual([code, stdout, stderr], [0, "", ""]);
    const { what, config, options } = started[0]!;
    deepStrictEqual([what, options], ["stdio", { host, port }]);
    deepStrictEqual([config.serviceRole, config.logLevel], ["requester", "warning"]);
  }
  const loud = await cli(["--log-level=info", "stdio", "h:1"]);
  strictEqual(loud.started[0]?.config.logLevel, "info");
  match((await cli(["stdio", "--help"])).stdout, /^Usage: natsway stdio \[options\] HOST:PORT\n/);
});

Deno.test("natsway stdio has a SERVICE_ID of its own beside a service of the same environment", async () => {
  const env = { SERVICE_ID: "x".repeat(64) };
  const ids = new Set<string>();
  for (let i = 0; i < 2; i++) {
    const id = (await cli(["stdio", "h:1"], { env })).started[0]?.config.serviceId ?? "";
    match(id, /^x{55}-[0-9a-f]{8}$/);
    ids.add(id);
  }
  strictEqual(ids.size, 2);
});

Deno.test("a target that cannot be used is told with the other mistakes, and nothing starts", async () => {
  const refused = [
    "db.internal",
    ":22",
    "h:",
    "h:0",
    "h:65536",
    "::1:22",
    "[::1]",
    "a b:1",
    "u@h:1",
  ];
  for (const word of refused) {
    const { code, stdout, stderr, started } = await cli(["stdio", word, "--port", "x"]);
    deepStrictEqual([code, stdout, started], [2, "", []]);
    const lines = linesOf(stderr);
    strictEqual(
      lines[0],
      `${JSON.stringify(word)} is no target: accepted: HOST:PORT, an IPv6 address in brackets, ` +
        "port from 1 to 65535",
    );
    match(lines[1] ?? "", /^--port \(PORT\) "x": /);
  }
  const none = await cli(["stdio"]);
  deepStrictEqual([none.code, none.started], [2, []]);
  match(none.stderr, /^natsway stdio has no target: accepted: HOST:PORT, .*\n$/);
  const more = await cli(["stdio", "h:1", "h:2"]);
  deepStrictEqual([more.code, more.stderr], [2, '"h:2": unexpected argument of natsway stdio\n']);
});

Deno.test("a session that failed is one line with its code, and exit code 1", async () => {
  const failed = await cli(["stdio", "h:1"], {
    serve: () => Promise.reject(new FlowError("target_refused", "Connection refused")),
  });
  deepStrictEqual([failed.code, failed.stderr], [
    1,
    "natsway: Connection refused (target_refused)\n",
  ]);
});
