/**
 * `nats stream add` as the examples use it: by the tool itself where it is on the PATH, else by the
 * same question to the server.
 * @module
 */
import { DiscardPolicy, jetstreamManager, RetentionPolicy, StorageType } from "@nats-io/jetstream";
import type { NatsConnection } from "@nats-io/nats-core/internal";
import assert from "node:assert/strict";
import { parseArgs } from "node:util";
import { errorText } from "../../lib/errors.ts";
import { pause } from "../helpers/wait.ts";
import { startLink } from "../transport/support.ts";

/** A cluster elects its first leader meanwhile. */
const MOST_MS = 20_000;
const POLL_MS = 100;
const UNITS_NS: Readonly<Record<string, number>> = { s: 1e9, m: 60e9, h: 3600e9 };

/** Makes the stream, again and again until the server can. @throws {Error} what it said last */
export async function addStream(args: readonly string[], home: string): Promise<void> {
  const until = performance.now() + MOST_MS;
  for (;;) {
    const failure = await byTool(args, home);
    if (failure === null) return;
    if (performance.now() > until) throw new Error(`nats ${args.join(" ")}: ${failure}`);
    await pause(POLL_MS);
  }
}

/** What went wrong; null when nothing did. */
async function byTool(args: readonly string[], home: string): Promise<string | null> {
  const path = Deno.env.get("PATH") ?? "";
  try {
    const { success, stdout, stderr } = await new Deno.Command("nats", {
      args: [...args],
      clearEnv: true,
      // The contexts of whoever runs the tests are not theirs.
      env: { PATH: path, HOME: home, XDG_CONFIG_HOME: home, NO_COLOR: "1" },
      stdin: "null",
    }).output();
    const decoder = new TextDecoder();
    return success ? null : `${decoder.decode(stdout)}${decoder.decode(stderr)}`;
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
    return await byQuestion(args);
  }
}

/** As `byTool`. @throws {TypeError} an option that is not known here */
async function byQuestion(args: readonly string[]): Promise<string | null> {
  const { values, positionals } = parseArgs({
    args: [...args],
    allowPositionals: true,
    options: {
      server: { type: "string" },
      user: { type: "string" },
      password: { type: "string" },
      subjects: { type: "string" },
      replicas: { type: "string", default: "1" },
      "max-age": { type: "string", default: "0s" },
      "max-bytes": { type: "string", default: "-1" },
      defaults: { type: "boolean" },
    },
  });
  const [, , name = ""] = positionals;
  assert.deepEqual(positionals, ["stream", "add", name]);
  const [, amount, unit = ""] = /^(\d+)([smh])$/.exec(values["max-age"]) ?? [];
  const { user, password = "" } = values;
  await using test = await startLink(values.server ?? "", {
    ...(user === undefined ? {} : { auth: { kind: "user", user, password } as const }),
  });
  const connection = test.link.connection as unknown as NatsConnection;
  const manager = await jetstreamManager(connection, { checkAPI: false });
  try {
    await manager.streams.add({
      name,
      subjects: [values.subjects ?? ""],
      num_replicas: Number(values.replicas),
      max_age: Number(amount) * UNITS_NS[unit]!,
      max_bytes: Number(values["max-bytes"]),
      storage: StorageType.File,
      retention: RetentionPolicy.Limits,
      discard: DiscardPolicy.Old,
    });
    return null;
  } catch (error) {
    // Anything else, too, as long as the cluster has no leader.
    return errorText(error);
  }
}
