/**
 * What carries the messages of a test's bridge: a nats-server, and in JetStream mode a stream in it.
 * @module
 */
import { MODE, type Mode } from "./mode.ts";
import type { NatsLogin } from "./nats_client.ts";
import { type NatsOptions, type NatsServer, startNats } from "./nats_server.ts";
import type { Settings } from "./natsway.ts";
import { StreamOperator, SUBJECTS } from "./stream_operator.ts";

export interface BackendOptions extends Omit<NatsOptions, "jetstream"> {
  /** @default the run's, see `mode.ts` */
  readonly mode?: Mode;
  /** Subjects of the stream; null for none. @default {SUBJECTS} */
  readonly subjects?: readonly string[] | null;
  /** Who makes the stream, where the server asks. */
  readonly login?: NatsLogin;
}

/** Starts the server; in JetStream mode it has the stream when this resolves. */
export async function startBackend(options: BackendOptions = {}): Promise<NatsServer> {
  const { mode = MODE, subjects = SUBJECTS } = options;
  const nats = await startNats({ ...options, jetstream: mode === "jetstream" });
  try {
    if (mode === "jetstream" && subjects !== null) {
      await new StreamOperator(nats, options.login).addStream(subjects);
    }
    return nats;
  } catch (error) {
    await nats[Symbol.asyncDispose]();
    throw error;
  }
}

/** What both roles have to be told of the mode. */
export function backendSettings(mode: Mode = MODE): Settings {
  return mode === "jetstream" ? { NATS_MODE: "jetstream" } : {};
}
