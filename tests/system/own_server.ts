/**
 * Settings of a natsway that brings its own nats-server.
 * @module
 */
import { natsServerBinary } from "../helpers/nats_server.ts";
import type { Natsway, Settings } from "../helpers/natsway.ts";

/** A folder that is gone after the test. */
export async function tempFolder(): Promise<{ path: string } & AsyncDisposable> {
  const path = await Deno.makeTempDir({ prefix: "natsway-test-" });
  return { path, [Symbol.asyncDispose]: () => Deno.remove(path, { recursive: true }) };
}

/**
 * A generated configuration on free ports of loopback, with its file and its store in `folder`. The
 * executable has a nats-server inside; natsway from source gets that of the tests.
 */
export async function ownServer(folder: string): Promise<Settings> {
  return {
    EMBEDDED_NATS_ENABLED: "true",
    EMBEDDED_NATS_GENERATE_CONFIG: "true",
    EMBEDDED_NATS_LISTEN: "127.0.0.1:0",
    EMBEDDED_NATS_LEAF_LISTEN_HOST: "127.0.0.1",
    EMBEDDED_NATS_LEAF_LISTEN_PORT: "0",
    EMBEDDED_NATS_BINARY: Deno.env.get("NATSWAY_EXECUTABLE") ? "" : await natsServerBinary(),
    XDG_STATE_HOME: folder,
    EMBEDDED_NATS_GENERATED_CONFIG_PATH: `${folder}/nats.conf`,
    EMBEDDED_NATS_JETSTREAM_STORE_DIR: `${folder}/store`,
  };
}

/** URL of the embedded server of a natsway that runs. */
export async function ownServerUrl(natsway: Natsway): Promise<string> {
  const { address } = await natsway.event("embedded nats-server runs");
  return `nats://${address}`;
}

/** The number that a line of the embedded server's log has in the first group of `pattern`. */
export async function loggedNumber(natsway: Natsway, pattern: RegExp): Promise<number> {
  const { message } = await natsway.event((event) =>
    event["component"] === "nats-server" && pattern.test(event.message)
  );
  return Number(pattern.exec(message)![1]);
}
