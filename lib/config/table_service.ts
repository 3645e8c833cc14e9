/**
 * Rows of the settings table: the process itself, its upstream, observation.
 * @module
 */
import { host, hostPort, upstreamUrl } from "./addresses.ts";
import { choice, matching, seconds, serviceIdKind, wholeNumber } from "./kinds.ts";
import { Derived, optional, setting } from "./setting.ts";

/** "Role and listening" and "Upstream". */
export const SERVICE_SETTINGS = {
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
};

/** "Observation". */
export const OBSERVATION_SETTINGS = {
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
