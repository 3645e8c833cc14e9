/**
 * What two settings together must hold. Each check gives its mistakes, one line each.
 * @module
 */
import { formatHostPort } from "./addresses.ts";
import { embeddedMistakes } from "./embedded_checks.ts";
import { isLoopbackHost } from "./forward_rules.ts";
import type { Draft, IsGiven } from "./draft.ts";

/** What MAX_FLOWS sets aside for each flow, whatever it carries (extensions.md section 5). */
const FLOW_RESERVE_BYTES = 16 * 1024;

/**
 * All mistakes that no setting has alone.
 * @param bringsOwn the command runs a nats-server of its own: those of the settings do not matter
 */
export function mistakesTogether(draft: Draft, isGiven: IsGiven, bringsOwn = false): string[] {
  return [
    ...credentialMistakes(draft, isGiven),
    ...tlsMistakes(draft, isGiven),
    ...memoryMistakes(draft),
    ...peerMistakes(draft),
    ...forwardMistakes(draft),
    ...(bringsOwn ? [] : embeddedMistakes(draft, isGiven)),
  ];
}

/** Shorter than this a peer would be given up between two probes. */
const SHORTEST_PEER_TIMEOUT_MS = 100;

function peerMistakes({ peerTimeoutMs }: Draft): string[] {
  if (peerTimeoutMs === undefined || peerTimeoutMs >= SHORTEST_PEER_TIMEOUT_MS) return [];
  const accepted = `at least ${SHORTEST_PEER_TIMEOUT_MS / 1000} s`;
  return [`PEER_TIMEOUT ${peerTimeoutMs / 1000}: accepted: ${accepted}`];
}

/** At most one kind of credentials, and each kind whole. */
function credentialMistakes({ natsUrls = [] }: Draft, isGiven: IsGiven): string[] {
  const mistakes: string[] = [];
  const user = isGiven("natsUser");
  const password = isGiven("natsPassword");
  const kinds = [
    natsUrls.some((url) => url.user ?? url.token) ? "the user part of NATS_URL" : "",
    user || password ? "NATS_USER with NATS_PASSWORD" : "",
    isGiven("natsToken") ? "NATS_TOKEN" : "",
    isGiven("natsCreds") ? "NATS_CREDS" : "",
    isGiven("natsNkeySeed") ? "NATS_NKEY_SEED" : "",
  ].filter(Boolean);
  if (kinds.length > 1) {
    mistakes.push(`${kinds.join(", ")}: accepted: one kind of NATS credentials at a time`);
  }
  if (user !== password) {
    const [set, other] = user ? ["NATS_USER", "NATS_PASSWORD"] : ["NATS_PASSWORD", "NATS_USER"];
    mistakes.push(`${other} is not set, but ${set} is: accepted: both or neither`);
  }
  return mistakes;
}

/** A certificate with its key, and TLS settings only where the URL asks for TLS. */
function tlsMistakes(draft: Draft, isGiven: IsGiven): string[] {
  const mistakes: string[] = [];
  const { natsUrls = [] } = draft;
  const cert = isGiven("natsTlsCert");
  if (cert !== isGiven("natsTlsKey")) {
    const [set, other] = cert ? ["CERT", "KEY"] : ["KEY", "CERT"];
    mistakes.push(
      `NATS_TLS_${other} is not set, but NATS_TLS_${set} is: accepted: both or neither`,
    );
  }
  const tls = cert || isGiven("natsTlsCa") || draft.natsTlsFirst === true;
  if (tls && natsUrls.some(({ scheme }) => scheme === "ws")) {
    mistakes.push("NATS_URL has a ws:// URL, but NATS_TLS_* asks for TLS: accepted: wss://");
  }
  if (cert && natsUrls.some(({ scheme }) => scheme === "wss")) {
    mistakes.push("NATS_URL has a wss:// URL, but NATS_TLS_CERT is set: accepted: tls://");
  }
  return mistakes;
}

/** Each flow that may exist has its part of the memory. */
function memoryMistakes({ maxFlows, flowMemoryBytes }: Draft): string[] {
  if (maxFlows === undefined || flowMemoryBytes === undefined) return [];
  const neededBytes = maxFlows * FLOW_RESERVE_BYTES;
  if (neededBytes <= flowMemoryBytes) return [];
  const most = Math.floor(flowMemoryBytes / FLOW_RESERVE_BYTES);
  return [
    `MAX_FLOWS ${maxFlows} sets aside 16 KiB for each flow, which is over FLOW_MEMORY_BYTES ` +
    `${flowMemoryBytes}: accepted: FLOW_MEMORY_BYTES of at least ${neededBytes}` +
    (most < 1 ? "" : `, or MAX_FLOWS up to ${most}`),
  ];
}

/** Forwards know no users: beyond loopback they need a word of the operator. */
function forwardMistakes({ forwards = [], forwardsPublic }: Draft): string[] {
  const open = forwards.filter(({ bindHost }) => !isLoopbackHost(bindHost))
    .map(({ bindHost, port }) => formatHostPort(bindHost, port));
  if (forwardsPublic !== false || open.length === 0) return [];
  return [
    `FORWARDS listens on ${
      open.join(", ")
    }, beyond loopback: accepted: FORWARDS_PUBLIC=true, or a ` +
    "bind host of localhost, 127.0.0.0/8 or ::1",
  ];
}
