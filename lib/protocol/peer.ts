/**
 * What two natsway processes tell each other about themselves (extensions.md section 1).
 * @module
 */
import { isIdToken } from "./subjects.ts";

/** Version of the natsway part of the protocol. */
export const PROTOCOL_VERSION = 1;

/** The peer understands binary response frames. */
export const FEATURE_RAW = "raw";

/** The `natsway` object of an envelope or of a first event. */
export interface PeerInfo {
  readonly instance: string;
  readonly features: readonly string[];
  /** Largest message that this peer's server takes, in bytes. */
  readonly maxMsg: number;
  /** How long the requester waits for the first event, in ms; 0 when not said. */
  readonly ttlMs: number;
  /** How many body bytes the first event may hold. */
  readonly window: number;
}

/** The object as it stands in JSON. */
export function peerInfoJson(peer: PeerInfo): Record<string, unknown> {
  return {
    v: PROTOCOL_VERSION,
    instance: peer.instance,
    features: peer.features,
    max_msg: peer.maxMsg,
    ttl_ms: peer.ttlMs,
    window: peer.window,
  };
}

/**
 * Reads a `natsway` object. Unknown members and features are ignored and a higher `v` is no error;
 * what is not such an object at all is null, as for a Ruby peer.
 */
export function readPeerInfo(value: unknown): PeerInfo | null {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return null;
  const raw = value as Record<string, unknown>;
  if (!(typeof raw.v === "number" && raw.v >= 1) || !isIdToken(raw.instance)) return null;
  const features = Array.isArray(raw.features) ? raw.features : [];
  return {
    instance: raw.instance,
    features: features.filter((feature) => typeof feature === "string"),
    maxMsg: count(raw.max_msg),
    ttlMs: count(raw.ttl_ms),
    window: count(raw.window),
  };
}

function count(value: unknown): number {
  return typeof value === "number" && Number.isSafeInteger(value) && value > 0 ? value : 0;
}
