/**
 * The table of all settings. It feeds environment, flags, validation, help, `natsway settings` and
 * docs/configuration.md; `Config` is inferred from it. Names and defaults: configuration.md.
 * @module
 */
import {
  downloadUrl,
  host,
  hostPort,
  type NatsAddress,
  natsAddress,
  natsUrls,
  upstreamUrl,
} from "./addresses.ts";
import {
  choice,
  filePath,
  type Kind,
  matching,
  natsName,
  onOff,
  onUnlessFalse,
  seconds,
  serviceIdKind,
  subjectFilter,
  subjectRoot,
  truthyWord,
  wholeNumber,
} from "./kinds.ts";

/** The two sides of a bridge. */
export type Role = "requester" | "receiver";

/** A default that depends on other settings or on the machine; `load.ts` works it out. */
export class Derived {
  /** @param text the rule, for help and documentation */
  constructor(readonly text: string) {}
}

/** Headings under which settings stand in help and documentation, in this order. */
export const GROUPS = [
  "Role and listening",
  "Upstream",
  "NATS connection",
  "NATS subjects",
  "Timeouts",
  "Limits",
  "HTTP",
  "Embedded nats-server",
  "Observation",
] as const;

/** Everything about one setting. */
export interface Setting<T> {
  readonly env: string;
  readonly kind: Kind<NonNullable<T>>;
  readonly default: T | Derived;
  readonly group: (typeof GROUPS)[number];
  readonly role: Role | "both";
  /** What it does, in one or two sentences without a final stop. */
  readonly help: string;
  /** The value is never shown. */
  readonly secret: boolean;
  /** `<env>_FILE` names a file that holds the value. */
  readonly fileTwin: boolean;
}

interface About {
  group: (typeof GROUPS)[number];
  role?: Role;
  help: string;
}

/** A setting that always has a value. */
function setting<T extends NonNullable<unknown>>(
  env: string,
  kind: Kind<T>,
  fallback: NoInfer<T> | Derived,
  about: About,
): Setting<T> {
  return { env, kind, default: fallback, secret: false, fileTwin: false, role: "both", ...about };
}

/** A setting that may be unset; the value is null then. */
function optional<T extends NonNullable<unknown>>(
  env: string,
  kind: Kind<T>,
  about: About & { secret?: boolean; fileTwin?: boolean },
): Setting<T | null> {
  return { env, kind, default: null, secret: false, fileTwin: false, role: "both", ...about };
}

/** A secret that may also come from a file. */
function credential(env: string, kind: Kind<string>, help: string): Setting<string | null> {
  return optional(env, kind, { group: "NATS connection", help, secret: true, fileTwin: true });
}

const count = (max = 1_000_000): Kind<number> => wholeNumber({ min: 1, max });
const GIB = 2 ** 30;

/** All settings of this version by the key that `Config` has for them. */
export const SETTINGS = {
  serviceRole: setting(
    "SERVICE_ROLE",
    choice(["requester", "receiver"]),
    new Derived("receiver if UPSTREAM_URL is set, else requester"),
    { group: "Role and listening", help: "The role; a command of that name sets it too" },
  ),
  serviceId: setting("SERVICE_ID", serviceIdKind, new Derived("srv- and 8 random hex digits"), {
    group: "Role and listening",
    help: "Name of this process in subjects and on pages; unique among live processes",
  }),
  port: setting("PORT", wholeNumber({ min: 0, max: 65535, zero: "any free port" }), 7000, {
    group: "Role and listening",
    help: "HTTP port. A receiver serves nothing there but its local routes",
  }),
  listenHost: setting("LISTEN_HOST", host, "0.0.0.0", {
    group: "Role and listening",
    help: "Address that PORT is opened on",
  }),
  adminListen: optional("ADMIN_LISTEN", hostPort, {
    group: "Role and listening",
    help: "Address for the local routes alone; PORT then serves none of them",
  }),
  shutdownGraceMs: setting("SHUTDOWN_GRACE", seconds({ zero: "do not wait" }), 20_000, {
    group: "Role and listening",
    help: "Time for running work after the first SIGTERM or SIGINT; a second one ends at once",
  }),

  upstreamUrl: optional("UPSTREAM_URL", upstreamUrl, {
    group: "Upstream",
    role: "receiver",
    help: "Where requests go. Its path is put before the path of every request",
  }),
  upstreamHost: setting("UPSTREAM_HOST", choice(["upstream", "client"]), "upstream", {
    group: "Upstream",
    role: "receiver",
    help: "Host field that the upstream sees: that of UPSTREAM_URL, or the client's",
  }),
  upstreamTimeoutMs: setting(
    "UPSTREAM_TIMEOUT",
    seconds({ zero: "the requester's timeout decides" }),
    0,
    {
      group: "Upstream",
      role: "receiver",
      help: "Longest wait for the head of an upstream's response",
    },
  ),

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
    choice(["auto", "core"], {
      anyCase: true,
      later: { jetstream: "this version carries Core NATS only" },
    }),
    "auto",
    {
      group: "NATS connection",
      help: "How messages are carried; in this version both mean Core NATS",
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

  responseTimeoutMs: setting("NATS_RESPONSE_TIMEOUT", seconds({ zero: "at once" }), 30_000, {
    group: "Timeouts",
    help: "Longest wait of a requester for the head of a response",
  }),
  streamTimeoutMs: setting("STREAM_RESPONSE_TIMEOUT", seconds({ zero: "no limit" }), 30_000, {
    group: "Timeouts",
    help: "Longest wait for each later event of a nats-proxy peer",
  }),
  headerTimeoutMs: setting("HEADER_TIMEOUT", seconds(), 10_000, {
    group: "Timeouts",
    help: "Longest time for a head, from its first octet; also for each wait within a body",
  }),
  keepaliveTimeoutMs: setting("KEEPALIVE_TIMEOUT", seconds(), 75_000, {
    group: "Timeouts",
    help: "How long a client connection may be idle",
  }),
  connectTimeoutMs: setting("CONNECT_TIMEOUT", seconds(), 10_000, {
    group: "Timeouts",
    help: "Longest time to connect to an upstream or target",
  }),
  peerTimeoutMs: setting("PEER_TIMEOUT", seconds(), 15_000, {
    group: "Timeouts",
    help: "A peer that is silent for this long is lost, and its flows end",
  }),

  receiverMaxInflight: setting("RECEIVER_MAX_INFLIGHT", count(), 256, {
    group: "Limits",
    role: "receiver",
    help: "Requests that may wait for the head of their response at one time",
  }),
  maxConnections: setting("MAX_CONNECTIONS", count(), 20_000, {
    group: "Limits",
    role: "requester",
    help: "Client connections in all",
  }),
  maxFlows: setting("MAX_FLOWS", count(), 10_000, {
    group: "Limits",
    help: "Live flows; over it a request is answered with 503 and Retry-After",
  }),
  maxHeaderBytes: setting(
    "MAX_HEADER_BYTES",
    wholeNumber({ min: 1, max: 16 * 2 ** 20, unit: "bytes" }),
    65_536,
    { group: "Limits", help: "Size of a head, both ways; over it: 431, 414 or 502" },
  ),
  maxBodyBytes: setting(
    "MAX_BODY_BYTES",
    wholeNumber({ min: 0, max: Number.MAX_SAFE_INTEGER, unit: "bytes", zero: "no limit" }),
    0,
    { group: "Limits", role: "requester", help: "Size of a request body; over it: 413" },
  ),
  inlineBodyBytes: setting(
    "INLINE_BODY_BYTES",
    wholeNumber({ min: 0, max: GIB, unit: "bytes", zero: "none" }),
    32_768,
    {
      group: "Limits",
      role: "requester",
      help: "Largest request body that travels as text, as nats-proxy receivers want it; with " +
        "PEERS=natsway larger ones use natsway's own operation",
    },
  ),
  frameBytes: setting("FRAME_BYTES", wholeNumber({ min: 1, max: GIB, unit: "bytes" }), 131_072, {
    group: "Limits",
    help: "Largest data frame to a natsway peer; a nats-proxy peer gets 32 KiB at most",
  }),

  forwardedHeaders: setting(
    "FORWARDED_HEADERS",
    choice(["append", "replace", "off"], {
      later: { "append-always": "append-always comes with proxy traffic, not yet in this version" },
    }),
    "append",
    {
      group: "HTTP",
      role: "requester",
      help: "X-Forwarded-For, -Proto, -Host and Forwarded: keep what the client sent and add its " +
        "address, replace it, or send none",
    },
  ),
  via: setting("VIA", onOff("on", "off"), true, {
    group: "HTTP",
    help: "Send a Via field, which also finds loops",
  }),
  proxyAuthEnabled: setting("PROXY_AUTH_ENABLED", onUnlessFalse, true, {
    group: "HTTP",
    help: "Guard proxy traffic",
  }),

  embeddedNatsEnabled: setting("EMBEDDED_NATS_ENABLED", truthyWord, false, {
    group: "Embedded nats-server",
    help: "Run a nats-server with this process",
  }),
  embeddedNatsListen: setting(
    "EMBEDDED_NATS_LISTEN",
    hostPort,
    Object.freeze({ hostname: "127.0.0.1", port: 4222, authority: "127.0.0.1:4222" }),
    {
      group: "Embedded nats-server",
      help: "Its client listener, and the default of NATS_URL while it is enabled",
    },
  ),
  embeddedNatsBinary: optional("EMBEDDED_NATS_BINARY", filePath, {
    group: "Embedded nats-server",
    help: "The nats-server to run. Unset: the one inside the executable, PATH, cache, download",
  }),
  embeddedNatsDownloadUrl: optional("EMBEDDED_NATS_DOWNLOAD_URL", downloadUrl, {
    group: "Embedded nats-server",
    help: "Mirror of the pinned nats-server release. Unset: the official release",
  }),

  observabilityAccess: setting("OBSERVABILITY_ACCESS", choice(["local", "open", "off"]), "local", {
    group: "Observation",
    help: "Who may read the pages: this machine, everybody, nobody",
  }),
  observabilityToken: optional(
    "OBSERVABILITY_TOKEN",
    matching("token", "letters, digits and - . _ ~ + /, then = at the end", /^[\w.~+/-]+=*$/),
    { group: "Observation", help: "Bearer token that opens the pages", secret: true },
  ),
  logLevel: setting("LOG_LEVEL", choice(["debug", "info", "warning", "error"]), "info", {
    group: "Observation",
    help: "Lowest level that is logged, to standard error",
  }),
  logFormat: setting(
    "LOG_FORMAT",
    choice(["text", "json"]),
    new Derived("text on a terminal, else json"),
    { group: "Observation", help: "Form of a log line" },
  ),
};

type Table = typeof SETTINGS;
/** Key of a setting in `Config`. */
export type SettingKey = keyof Table;
/** All settings with their values: read once, checked as a whole, frozen. */
export type Config = {
  readonly [K in SettingKey]: Table[K] extends Setting<infer T> ? T : never;
};

/** The keys of the table, in its order. */
export const SETTING_KEYS = Object.keys(SETTINGS) as SettingKey[];

/** The row of a key, for code that treats all rows alike. */
export function settingOf(key: SettingKey): Setting<unknown> {
  return SETTINGS[key] as Setting<unknown>;
}

/** The flag of a variable, without the dashes: `NATS_URL` gives `nats-url`. */
export function flagOf(env: string): string {
  return env.toLowerCase().replaceAll("_", "-");
}
