/**
 * Rows of the settings table: HTTP, what else clients may ask for, and where a receiver may go.
 * @module
 */
import { host } from "./addresses.ts";
import { type ForwardRule, forwardRules } from "./forward_rules.ts";
import { choice, onlyTrue, onOff, onUnlessFalse, wholeNumber } from "./kinds.ts";
import { setting } from "./setting.ts";
import { type TargetRule, targetRules } from "./target_rules.ts";

/** "HTTP". */
export const HTTP_SETTINGS = {
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
};

/** "Proxy ingress". */
export const INGRESS_SETTINGS = {
  proxyAuthEnabled: setting("PROXY_AUTH_ENABLED", onUnlessFalse, true, {
    group: "Proxy ingress",
    help: "Guard proxy traffic and SOCKS5; this version knows no users yet, so on means shut",
  }),
  socks5Enabled: setting("SOCKS5_ENABLED", onlyTrue, false, {
    group: "Proxy ingress",
    role: "requester",
    help: "Serve SOCKS5 on SOCKS5_LISTEN_PORT",
  }),
  socks5ListenHost: setting("SOCKS5_LISTEN_HOST", host, "0.0.0.0", {
    group: "Proxy ingress",
    role: "requester",
    help: "Address that SOCKS5_LISTEN_PORT is opened on",
  }),
  socks5ListenPort: setting(
    "SOCKS5_LISTEN_PORT",
    wholeNumber({ min: 0, max: 65535, zero: "any free port" }),
    1080,
    { group: "Proxy ingress", role: "requester", help: "Port of the SOCKS5 listener" },
  ),
  forwards: setting<readonly ForwardRule[]>("FORWARDS", forwardRules, Object.freeze([]), {
    group: "Proxy ingress",
    role: "requester",
    alsoFlag: "forward",
    help:
      "Static TCP forwards: a local port and the target that receivers connect it to. The bind " +
      "host is 127.0.0.1 unless given",
  }),
  forwardsPublic: setting("FORWARDS_PUBLIC", onOff("true", "false"), false, {
    group: "Proxy ingress",
    role: "requester",
    help: "Let FORWARDS listen beyond loopback; forwards know no users",
  }),
};

/** "Targets". */
export const TARGET_SETTINGS = {
  targetAllow: setting<readonly TargetRule[]>("TARGET_ALLOW", targetRules, Object.freeze([]), {
    group: "Targets",
    role: "receiver",
    help: "Targets that tunnels and proxy requests may reach. If set, they reach nothing else",
  }),
  targetDeny: setting<readonly TargetRule[]>("TARGET_DENY", targetRules, Object.freeze([]), {
    group: "Targets",
    role: "receiver",
    help: "Targets that tunnels and proxy requests may not reach; goes before TARGET_ALLOW",
  }),
};
