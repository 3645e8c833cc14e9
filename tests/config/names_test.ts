import { deepStrictEqual, ok, strictEqual } from "node:assert/strict";
import {
  editDistance,
  IGNORED,
  nearestTyped,
  nearMiss,
  NOT_SERVED,
  SERVED,
} from "../../lib/config/names.ts";

Deno.test("one slip of the pen is one step", () => {
  deepStrictEqual(
    [["URL", "URL"], ["URL", "ULR"], ["URL", "URLS"], ["URL", "UR"], ["URL", "URI"]].map(([a, b]) =>
      editDistance(a ?? "", b ?? "", 3)
    ),
    [0, 1, 1, 1, 1],
  );
  strictEqual(editDistance("kitten", "sitting", 9), 3);
  strictEqual(editDistance("kitten", "sitting", 2), 3);
  strictEqual(editDistance("a", "abcdef", 2), 3);
});

Deno.test("a variable that was probably meant for natsway names its nearest", () => {
  const slips = {
    NATS_ULR: "NATS_URL",
    NATS_URI: "NATS_URL",
    nats_url: "NATS_URL",
    UPSTREAM_UR: "UPSTREAM_URL",
    SERVICE_ROL: "SERVICE_ROLE",
    RECEIVER_MAX_IN_FLIGHT: "RECEIVER_MAX_INFLIGHT",
    NATS_RESPONCE_TIMOUT: "NATS_RESPONSE_TIMEOUT",
    PROT: "PORT",
    LOGLEVEL: "LOG_LEVEL",
    NATS_PASWORD_FILE: "NATS_PASSWORD_FILE",
    SOCKS_ENABLED: "SOCKS5_ENABLED",
  };
  for (const [slip, meant] of Object.entries(slips)) strictEqual(nearMiss(slip), meant, slip);
});

Deno.test("variables of other programs are left alone", () => {
  const others = [
    "PATH HOME PWD USER SHELL TERM LANG EDITOR PAGER HOSTNAME HOST SHLVL VIM LOGNAME DISPLAY MAIL TZ",
    "NATS_PORT NATS_SERVICE_HOST NATS_SERVICE_PORT NATS_PORT_4222_TCP NATS_PORT_4222_TCP_ADDR",
    "NATS_VERSION DENO_DIR NO_COLOR XDG_CACHE_HOME KUBERNETES_PORT VIRTUAL_ENV DATABASE_URL",
    [...IGNORED].join(" "),
    [...SERVED, ...NOT_SERVED].join(" "),
  ].join(" ").split(" ");
  for (const name of others) strictEqual(nearMiss(name), null, name);
});

Deno.test("no name is in two lists", () => {
  const all = [...SERVED, ...NOT_SERVED, ...IGNORED];
  deepStrictEqual(all.filter((name, index) => all.indexOf(name) !== index), []);
});

Deno.test("typed words find their nearest generously, but not at any price", () => {
  strictEqual(nearestTyped("requestor", ["requester", "receiver"]), "requester");
  strictEqual(nearestTyped("nats_url", ["nats-url", "nats-user"]), "nats-url");
  strictEqual(nearestTyped("xyzzy", ["requester", "receiver", "demo"]), null);
  ok(nearestTyped("Demo", ["demo"]));
});
