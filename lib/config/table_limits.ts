/**
 * Rows of the settings table: how long, how many, how large.
 * @module
 */
import { type Kind, seconds, wholeNumber } from "./kinds.ts";
import { setting } from "./setting.ts";

const count = (max = 1_000_000): Kind<number> => wholeNumber({ min: 1, max });
const GIB = 2 ** 30;

/** "Timeouts" and "Limits". */
export const LIMIT_SETTINGS = {
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
  handshakeTimeoutMs: setting("HANDSHAKE_TIMEOUT", seconds(), 10_000, {
    group: "Timeouts",
    role: "requester",
    help: "Longest time for the handshake of a SOCKS5 client",
  }),
  connectTimeoutMs: setting("CONNECT_TIMEOUT", seconds(), 10_000, {
    group: "Timeouts",
    help: "Longest time to connect to an upstream or target",
  }),
  idleTimeoutMs: setting("IDLE_TIMEOUT", seconds({ zero: "never" }), 0, {
    group: "Timeouts",
    help: "A tunnel that carries nothing for this long ends",
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
  flowMemoryBytes: setting(
    "FLOW_MEMORY_BYTES",
    wholeNumber({ min: 1, max: Number.MAX_SAFE_INTEGER, unit: "bytes" }),
    268_435_456,
    {
      group: "Limits",
      help: "What all flows together may have in the air; 16 KiB of it for each of MAX_FLOWS",
    },
  ),
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
};
