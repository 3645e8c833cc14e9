/**
 * The system tests run over both backends: `NATSWAY_TEST_MODE=jetstream` (`deno task
 * test:jetstream`) puts a stream into every bridge that they start. What holds for Core alone is
 * named here with its reason, or at the test itself by {@linkcode coreTest}.
 * @module
 */

export type Mode = "core" | "jetstream";

/** The backend of this run. */
export const MODE: Mode = modeOf(Deno.env.get("NATSWAY_TEST_MODE"));

function modeOf(text: string | undefined): Mode {
  if (text === undefined || text === "" || text === "core") return "core";
  if (text === "jetstream") return text;
  throw new Error(`NATSWAY_TEST_MODE is core or jetstream, not ${text}`);
}

/** System tests that `test:jetstream` leaves out, and why. */
export const CORE_ONLY: Readonly<Record<string, string>> = {
  "embedded_config_test.ts": "starts its own server, which its settings are about",
  "embedded_stream_test.ts": "makes the stream itself, in every mode that it is about",
  "embedded_test.ts": "starts its own server, which its settings are about",
  "jetstream_execution_test.ts": "is over JetStream in every run",
  "jetstream_healing_test.ts": "is over JetStream in every run",
  "jetstream_pool_test.ts": "is over JetStream in every run",
  "jetstream_settlement_test.ts": "is over JetStream in every run",
  "leaf_link_test.ts": "no domain crosses its leaf; tests/topologies has the leaf with a stream",
  "overload_test.ts": "a full receiver leaves its queue group; a stream keeps what nobody takes",
  "presence_test.ts": "asks over Core whatever carries the messages",
};

/** A test of something that only Core has. `why` is for the reader. */
export function coreTest(_why: string, name: string, test: () => Promise<void>): void {
  if (MODE === "core") Deno.test(name, test);
}
