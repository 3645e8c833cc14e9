/**
 * Rows of the settings table: the connection to NATS and the subjects on it.
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
  subjectFilter,
  subjectRoot,
} from "./kinds.ts";
import { Derived, optional, type Setting, setting } from "./setting.ts";

/** A secret that may also come from a file. */
function credential(env: string, kind: Kind<string>, help: string): Setting<string | null> {
  return optional(env, kind, { group: "NATS connection", help, secret: true, fileTwin: true });
}

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
};
