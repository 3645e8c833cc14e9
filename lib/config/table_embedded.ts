/**
 * Rows of the settings table: the embedded nats-server (configuration.md section 5).
 * @module
 */
import { downloadUrl, host, hostPort } from "./addresses.ts";
import {
  filePath,
  type Kind,
  matching,
  natsName,
  seconds,
  truthyWord,
  wholeNumber,
} from "./kinds.ts";
import { type About, Derived, optional, type Setting, setting } from "./setting.ts";

const group = "Embedded nats-server";
const GENERATED = "In the generated configuration";
const anyText: Kind<string> = matching("text", "any text");
const port: Kind<number> = wholeNumber({ min: 1, max: 65535 });

/** A path whose default is looked for when the server starts; null until then. */
function place(env: string, name: string, help: string): Setting<string | null> {
  const text = `${name}; $XDG_STATE_HOME/natsway where /data cannot be written`;
  return { ...optional(env, filePath, { group, help }), default: new Derived(text) };
}

/** A secret that may also come from a file. */
function credential(
  env: string,
  kind: Kind<string>,
  about: Omit<About, "group">,
): Setting<string | null> {
  return optional(env, kind, { group, secret: true, fileTwin: true, ...about });
}

/** "Embedded nats-server". */
export const EMBEDDED_SETTINGS = {
  embeddedNatsEnabled: setting("EMBEDDED_NATS_ENABLED", truthyWord, false, {
    group,
    help: "Run a nats-server with this process; EMBEDDED_NATS_CONFIG or " +
      "EMBEDDED_NATS_GENERATE_CONFIG says with which configuration",
  }),
  embeddedNatsConfig: optional("EMBEDDED_NATS_CONFIG", filePath, {
    group,
    help: "A ready nats-server configuration, used as it is; nothing is generated then",
  }),
  embeddedNatsGenerateConfig: setting("EMBEDDED_NATS_GENERATE_CONFIG", truthyWord, false, {
    group,
    help: "Write a configuration from the settings below at each start; SERVICE_ROLE must be set",
  }),
  embeddedNatsGeneratedConfigPath: place(
    "EMBEDDED_NATS_GENERATED_CONFIG_PATH",
    "/data/nats.conf",
    "Where it is written, readable for this user alone. Leaf credentials in it are kept",
  ),
  embeddedNatsListen: setting(
    "EMBEDDED_NATS_LISTEN",
    hostPort,
    Object.freeze({ hostname: "127.0.0.1", port: 4222, authority: "127.0.0.1:4222" }),
    { group, help: `${GENERATED}: client listener, and the default of NATS_URL` },
  ),
  embeddedNatsJetstreamEnabled: setting(
    "EMBEDDED_NATS_JETSTREAM_ENABLED",
    truthyWord,
    new Derived("true for a receiver, false for a requester"),
    { group, help: `${GENERATED}: JetStream` },
  ),
  embeddedNatsJetstreamStoreDir: place(
    "EMBEDDED_NATS_JETSTREAM_STORE_DIR",
    "/data",
    `${GENERATED}: folder of JetStream's store`,
  ),
  embeddedNatsJsDomain: optional("EMBEDDED_NATS_JS_DOMAIN", natsName, {
    group,
    help: `${GENERATED}: JetStream domain. NATS_JS_API_PREFIX follows it`,
  }),
  embeddedNatsLeafListenHost: setting("EMBEDDED_NATS_LEAF_LISTEN_HOST", host, "0.0.0.0", {
    group,
    help: `${GENERATED}: address of the leafnode listener`,
  }),
  embeddedNatsLeafListenPort: setting(
    "EMBEDDED_NATS_LEAF_LISTEN_PORT",
    wholeNumber({ min: 0, max: 65535, zero: "any free port" }),
    7422,
    { group, help: `${GENERATED}: port of the leafnode listener` },
  ),
  embeddedNatsLeafUser: optional("EMBEDDED_NATS_LEAF_USER", anyText, {
    group,
    help: `${GENERATED}: user of the leafnode listener; goes with EMBEDDED_NATS_LEAF_PASSWORD. ` +
      "Without both: those of the last start, else new ones that are logged once",
  }),
  embeddedNatsLeafPassword: credential("EMBEDDED_NATS_LEAF_PASSWORD", anyText, {
    help: "Password of EMBEDDED_NATS_LEAF_USER",
  }),
  leafRemoteHost: optional("LEAF_REMOTE_HOST", host, {
    group,
    role: "requester",
    help: `${GENERATED}: host of the receiver's leafnode listener; a requester needs it`,
  }),
  leafRemotePort: setting("LEAF_REMOTE_PORT", port, 7422, {
    group,
    role: "requester",
    help: "Port of LEAF_REMOTE_HOST",
  }),
  leafRemoteUser: optional("LEAF_REMOTE_USER", anyText, {
    group,
    role: "requester",
    help: "User for LEAF_REMOTE_HOST; goes with LEAF_REMOTE_PASSWORD",
  }),
  leafRemotePassword: credential("LEAF_REMOTE_PASSWORD", anyText, {
    role: "requester",
    help: "Password of LEAF_REMOTE_USER",
  }),
  leafRemoteNkey: credential(
    "LEAF_REMOTE_NKEY",
    matching(
      "seed",
      "the seed of a user NKey: SU and 56 characters of A-Z 2-7",
      /^SU[A-Z2-7]{56}$/,
    ),
    {
      role: "requester",
      help: "Seed of a user NKey for LEAF_REMOTE_HOST, in place of user and password",
    },
  ),
  embeddedNatsReadyRetries: setting(
    "EMBEDDED_NATS_READY_RETRIES",
    wholeNumber({ min: 1, max: 100_000 }),
    40,
    {
      group,
      help: "Attempts to reach the server and JetStream before a receiver makes the stream. The " +
        "server itself has as long to come up, and 10 s at least",
    },
  ),
  embeddedNatsReadySleepMs: setting("EMBEDDED_NATS_READY_SLEEP_SEC", seconds(), 1000, {
    group,
    help: "Pause between two of EMBEDDED_NATS_READY_RETRIES",
  }),
  embeddedNatsBinary: optional("EMBEDDED_NATS_BINARY", filePath, {
    group,
    help: "The nats-server to run. Unset: the one inside the executable, PATH, cache, download",
  }),
  embeddedNatsDownloadUrl: optional("EMBEDDED_NATS_DOWNLOAD_URL", downloadUrl, {
    group,
    help: "Mirror of the pinned nats-server release. Unset: the official release",
  }),
};
