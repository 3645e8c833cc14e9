import { deepStrictEqual, match, ok, strictEqual } from "node:assert/strict";
import type { LogFields, Logger } from "../../lib/logger.ts";
import { createLogger, type LoggerOptions, withFields } from "../../lib/observe/log.ts";
import { createMasker } from "../../lib/observe/mask.ts";

function collect(options: Partial<LoggerOptions> = {}): { logger: Logger; lines: string[] } {
  const lines: string[] = [];
  const write = (line: string) => void lines.push(line);
  return { lines, logger: createLogger({ level: "debug", format: "json", write, ...options }) };
}

function fieldsOf(line: string | undefined): Record<string, unknown> {
  return JSON.parse(line ?? "null");
}

Deno.test("a JSON line has time, level and message before the fields", () => {
  const { logger, lines } = collect();
  logger.warn("flow closed", {
    request_id: "r",
    status: 200,
    ok: true,
    code: null,
    peer: undefined,
  });
  strictEqual(lines.length, 1);
  const line = fieldsOf(lines[0]);
  deepStrictEqual(Object.keys(line), [
    "time",
    "level",
    "message",
    "request_id",
    "status",
    "ok",
    "code",
  ]);
  match(String(line["time"]), /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
  deepStrictEqual([line["level"], line["message"], line["status"], line["code"]], [
    "warning",
    "flow closed",
    200,
    null,
  ]);
});

Deno.test("a text line has the clock, the level, the message and key=value", () => {
  const { logger, lines } = collect({ format: "text" });
  logger.info("listening", {
    role: "requester",
    address: "127.0.0.1:80",
    why: "a b",
    empty: "",
    n: 1,
  });
  match(
    lines[0] ?? "",
    /^\d\d:\d\d:\d\d info {4}listening role=requester address=127\.0\.0\.1:80 why="a b" empty="" n=1$/,
  );
});

Deno.test("levels below the chosen one write nothing and say so beforehand", () => {
  const { logger, lines } = collect({ level: "warning" });
  const child = withFields(logger, { role: "receiver" });
  for (const each of [logger, child]) {
    each.debug("d");
    each.info("i");
    each.warn("w");
    each.error("e");
    deepStrictEqual(
      (["debug", "info", "warning", "error"] as const).map((it) => each.enabled(it)),
      [
        false,
        false,
        true,
        true,
      ],
    );
  }
  deepStrictEqual(lines.map((line) => fieldsOf(line)["message"]), ["w", "e", "w", "e"]);
});

Deno.test("loggers of one process keep their level, form and output to themselves", () => {
  const first = collect({ level: "info" });
  const second = collect({ level: "debug", format: "text" });
  first.logger.debug("no");
  second.logger.debug("yes");
  first.logger.info("one");
  strictEqual(first.lines.length, 1);
  strictEqual(second.lines.length, 1);
  match(second.lines[0] ?? "", /debug {3}yes$/);
});

Deno.test("withFields adds fields to each line, nested, and those of the line go first", () => {
  const { logger, lines } = collect();
  const child = withFields(withFields(logger, { role: "receiver", service_id: "a" }), {
    kind: "http",
  });
  child.info("x", { service_id: "b" });
  logger.info("y");
  const { time: _, ...fields } = fieldsOf(lines[0]);
  deepStrictEqual(fields, {
    level: "info",
    message: "x",
    role: "receiver",
    service_id: "b",
    kind: "http",
  });
  strictEqual("role" in fieldsOf(lines[1]), false);
});

Deno.test("withFields works on a logger of another make", () => {
  const seen: [string, LogFields | undefined][] = [];
  const note = (message: string, fields?: LogFields) => void seen.push([message, fields]);
  const other: Logger = {
    debug: note,
    info: note,
    warn: note,
    error: note,
    enabled: (it) => it !== "debug",
  };
  const child = withFields(other, { role: "requester" });
  child.debug("d");
  child.info("i", { n: 1 });
  deepStrictEqual(seen, [["i", { role: "requester", n: 1 }]]);
});

Deno.test("braces in a message are no template, and fields cannot take the line's own names", () => {
  const { logger, lines } = collect();
  logger.info("GET /{level}", { level: "evil", message: "m", time: "t" });
  const line = fieldsOf(lines[0]);
  deepStrictEqual(
    [line["message"], line["level"], line["level_"], line["message_"], line["time_"]],
    [
      "GET /{level}",
      "info",
      "evil",
      "m",
      "t",
    ],
  );
});

Deno.test("nobody can forge a line or steer a terminal through a value", () => {
  const evil = "a\r\n12:00:00 error forged\u001b[2J\u009b\u2028\u202e\u0000\u007f";
  for (const format of ["json", "text"] as const) {
    const { logger, lines } = collect({ format });
    logger.info(`m ${evil}`, { peer: evil });
    strictEqual(lines.length, 1);
    // deno-lint-ignore no-control-regex -- control characters are what must not be there
    strictEqual(/[\x00-\x1f\x7f-\x9f\u2028\u202e]/.test(lines[0] ?? ""), false, lines[0]);
    match(lines[0] ?? "", /\\u001b\[2J/);
    if (format === "json") strictEqual(fieldsOf(lines[0])["peer"], evil);
  }
});

Deno.test("F63: a known secret is masked in messages and values, in each form", () => {
  const secret = 'hunter"2/é';
  for (const format of ["json", "text"] as const) {
    const { logger, lines } = collect({ format, secrets: [secret, "tok-1", "", "abc"] });
    const base64 = btoa(String.fromCharCode(...new TextEncoder().encode(secret)));
    logger.error(`got ${secret}!`, {
      url: `nats://bob:${secret}@h`,
      query: encodeURIComponent(secret),
      json: JSON.stringify({ secret }),
      header: `Bearer ${base64}`,
      twice: "tok-1tok-1",
      short: "abc",
    });
    withFields(logger, { bound: secret }).error("x");
    const all = lines.join("\n");
    for (const trace of ["hunter", base64.slice(0, 8), "tok-1"]) {
      strictEqual(all.includes(trace), false, all);
    }
    ok(all.includes("abc"), "three characters are no secret that can be masked");
    ok(all.includes("nats://bob:***@h"));
  }
});

Deno.test("the longest secret is masked whole", () => {
  strictEqual(createMasker(["pass", "password"])("password pass"), "*** ***");
});

Deno.test("a value has a bounded length", () => {
  const { logger, lines } = collect();
  logger.info("x", { target: "a".repeat(100_000) });
  ok((lines[0] ?? "").length < 2300);
});

Deno.test("a log that cannot be written ends nothing", () => {
  const { logger } = collect({
    write: () => {
      throw new Error("closed");
    },
  });
  logger.error("x");
  withFields(logger, { a: 1 }).error("y");
});
