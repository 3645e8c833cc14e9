/**
 * Rows of the settings table: the connection to NATS, the subjects on it, JetStream.
 * @module
 */
import { type NatsAddress, natsAddress, natsUrls } from "./addresses.ts";
import {
  choice,
  filePath,
  type Kind,
  matching,
  natsName,
  onOff,
  RefusedError,
  seconds,
  subjectFilter,
  subjectRoot,
  wholeNumber,
} from "./kinds.ts";
import { Derived, optional, type Setting, setting } from "./setting.ts";

/** A secret that may also come from a file. */
function credential(env: string, kind: Kind<string>, help: string): Setting<string | null> {
  return optional(env, kind, { group: "NATS connection", help, secret: true, fileTwin: true });
}

/** Begins the help of what only the start with an embedded server reads. */
const BOOTSTRAPPED =
  "Of the stream that a receiver with its own server and NATS_MODE=jetstream makes";

/** "NATS connection" and "NATS subjects". */
export const NATS_SETTINGS = {
  natsUrls: setting<readonly NatsAddress[]>(
    "NATS_URL",
    natsUrls,
    Object.freeze([natsAddress("localhost", 4222)]),
    {
      group: "NATS connection",
      help: "NATS servers to try in turn. A user part is taken as it stands, without decoding",
    },
  ),
  natsMode: setting(
    "NATS_MODE",
    choice(["auto", "core", "jetstream"], { anyCase: true }),
    "auto",
    {
      group: "NATS connection",
      help:
        "How messages are carried; the same on both sides. auto: JetStream where NATS_STREAM is " +
        "to be had when the process starts, else Core",
    },
  ),
  natsUser: credential("NATS_USER", matching("text", "any text"), "User; goes with NATS_PASSWORD"),
  natsPassword: credential("NATS_PASSWORD", matching("text", "any text"), "Password of NATS_USER"),
  natsToken: credential("NATS_TOKEN", matching("text", "any text"), "Token"),
  natsCreds: credential(
    "NATS_CREDS",
    matching(
      "text",
      "the text of a credentials file: a user JWT and an NKey seed between BEGIN and END lines",
      /-BEGIN NATS USER JWT-[^]*-BEGIN USER NKEY SEED-/,
    ),
    "Text of a credentials file (JWT and seed)",
  ),
  natsNkeySeed: credential(
    "NATS_NKEY_SEED",
    matching(
      "seed",
      "the seed of a user NKey: SU and 56 characters of A-Z 2-7",
      /^SU[A-Z2-7]{56}$/,
    ),
    "Seed of a user NKey",
  ),
  natsTlsCa: optional("NATS_TLS_CA", filePath, {
    group: "NATS connection",
    help: "PEM file with the authorities that may vouch for the server",
  }),
  natsTlsCert: optional("NATS_TLS_CERT", filePath, {
    group: "NATS connection",
    help: "PEM file with the client certificate; goes with NATS_TLS_KEY",
  }),
  natsTlsKey: optional("NATS_TLS_KEY", filePath, {
    group: "NATS connection",
    help: "PEM file with the key of NATS_TLS_CERT",
  }),
  natsTlsFirst: setting("NATS_TLS_FIRST", onOff("true", "false"), false, {
    group: "NATS connection",
    help: "Start TLS before the server's first line, as handshake_first asks for",
  }),

  natsConsumerName: setting("NATS_CONSUMER_NAME", natsName, "nats-proxy", {
    group: "NATS subjects",
    help: "Name that all receivers of one pool share",
  }),
  natsQueueGroup: setting("NATS_QUEUE_GROUP", natsName, new Derived("NATS_CONSUMER_NAME"), {
    group: "NATS subjects",
    role: "receiver",
    help: "Queue group that the receivers of one pool join",
  }),
  requestRoot: setting("NATS_REQUEST_SUBJECT_ROOT", subjectRoot, "to.proxy", {
    group: "NATS subjects",
    help: "Root of the subjects that lead to receivers; the same on both sides",
  }),
  responseRoot: setting("NATS_RESPONSE_SUBJECT_ROOT", subjectRoot, "from.proxy", {
    group: "NATS subjects",
    help: "Root of the subjects that lead to requesters; the same on both sides",
  }),
  listenSubject: setting(
    "LISTEN_SUBJECT",
    subjectFilter,
    new Derived("<NATS_REQUEST_SUBJECT_ROOT>.requests.>"),
    {
      group: "NATS subjects",
      role: "receiver",
      help: "Subject that requests are taken from, used as it stands",
    },
  ),
  peers: setting("PEERS", choice(["natsway", "mixed"]), "natsway", {
    group: "NATS subjects",
    role: "requester",
    help: "Receivers in the pool: natsway only, or nats-proxy too",
  }),
};

/** Subjects of the JetStream API begin with it; dots at the end do not count. */
const apiPrefix: Kind<string> = {
  ...subjectRoot,
  placeholder: "prefix",
  parse(text) {
    const prefix = text.replace(/\.+$/, "");
    if (prefix === "") throw new RefusedError("");
    return subjectRoot.parse(prefix);
  },
};

/** "JetStream". */
export const JETSTREAM_SETTINGS = {
  natsStream: setting("NATS_STREAM", natsName, "proxy", {
    group: "JetStream",
    help: "Stream that holds the messages",
  }),
  natsJsApiPrefix: setting(
    "NATS_JS_API_PREFIX",
    apiPrefix,
    new Derived(
      "$JS.API; with the embedded server, and if it is set: $JS.<EMBEDDED_NATS_JS_DOMAIN>.API",
    ),
    {
      group: "JetStream",
      help: "Prefix of the JetStream API's subjects; another account or domain may have its own",
    },
  ),
  streamMaxAgeMs: setting("STREAM_MAX_AGE", seconds(), 300_000, {
    group: "JetStream",
    role: "receiver",
    help: `${BOOTSTRAPPED}: how long a message is kept`,
  }),
  streamMaxBytes: setting(
    "STREAM_MAX_BYTES",
    wholeNumber({ min: 1, max: Number.MAX_SAFE_INTEGER, unit: "bytes" }),
    1_073_741_824,
    {
      group: "JetStream",
      role: "receiver",
      help:
        `${BOOTSTRAPPED}: its size; over it the oldest messages go. The store removes files of ` +
        "up to 8 MiB as a whole, so it may be that much larger on disk",
    },
  ),
  streamReplicas: setting("STREAM_REPLICAS", wholeNumber({ min: 1, max: 5 }), 1, {
    group: "JetStream",
    role: "receiver",
    help: `${BOOTSTRAPPED}: on how many servers of a cluster it lives`,
  }),
  streamStorage: setting("STREAM_STORAGE", choice(["file", "memory"]), "file", {
    group: "JetStream",
    role: "receiver",
    help: `${BOOTSTRAPPED}: where its messages are kept`,
  }),
};
