/**
 * The consumers of a process (wire-protocol.md section 3). The values are those of nats-proxy: it
 * deletes a consumer that differs in a key that it sets.
 * @module
 */

import type { ConsumerConfig } from "@nats-io/jetstream";
import type { Plane } from "../types.ts";
import { filterForms } from "./filters.ts";

/** What the consumers of a process are made from. */
export interface ConsumerSettings {
  /** NATS_STREAM. */
  readonly stream: string;
  /** NATS_CONSUMER_NAME. */
  readonly base: string;
  readonly serviceId: string;
  /** NATS_RESPONSE_TIMEOUT, in ms. */
  readonly responseTimeoutMs: number;
  /** STREAM_RESPONSE_TIMEOUT, in ms. */
  readonly streamResponseTimeoutMs: number;
}

/** A config as it goes to the server: with the keys that are set and no others. */
export type SentConfig = Partial<ConsumerConfig>;

const NS_PER_MS = 1_000_000;
const ACK_WAIT_EXTRA_MS = 30_000;
const INACTIVE_EXTRA_MS = 60_000;
const MAX_ACK_PENDING = 200;
const MAX_WAITING = 20;
const MAX_DELIVER = 3;

const NAMES: Readonly<Record<Plane, string>> = {
  "responses": "responses",
  "sessions.downstream": "sessions-downstream",
  "sessions.upstream": "sessions-upstream",
  "control": "control",
  "cancel": "cancel",
};

/** Name of the consumer of one plane of this process. */
export function planeConsumerName(settings: ConsumerSettings, plane: Plane): string {
  return `${settings.base}-${NAMES[plane]}-${settings.serviceId}`;
}

/** Name of the consumer of the cancel plane that all receivers share; each has one of its own. */
export function poolCancelConsumerName(settings: ConsumerSettings): string {
  return `${settings.base}-cancel-pool-${settings.serviceId}`;
}

/** Config of the durable that the receivers of a pool share. */
export function requestConsumerConfig(settings: ConsumerSettings, filter: string): SentConfig {
  const waitMs = Math.max(settings.responseTimeoutMs, settings.streamResponseTimeoutMs);
  return {
    durable_name: settings.base,
    ...pulled(filter),
    max_ack_pending: MAX_ACK_PENDING,
    max_waiting: MAX_WAITING,
    ack_wait: toNs(waitMs + ACK_WAIT_EXTRA_MS),
    max_deliver: MAX_DELIVER,
  };
}

/** Config of a consumer of this process alone. */
export function planeConsumerConfig(
  settings: ConsumerSettings,
  name: string,
  filter: string,
): SentConfig {
  return {
    name,
    ...pulled(filter),
    inactive_threshold: toNs(settings.streamResponseTimeoutMs + INACTIVE_EXTRA_MS),
  };
}

/** What is common to all. */
function pulled(filter: string): SentConfig {
  return { ack_policy: "explicit", deliver_policy: "new", filter_subject: filter } as SentConfig;
}

function toNs(ms: number): number {
  return Math.round(ms * NS_PER_MS);
}

/** The only filter of a consumer, `""` for none, null for several. */
export function filterOf(config: SentConfig): string | null {
  const many = config.filter_subjects ?? [];
  if (many.length > 1) return null;
  return many[0] ?? config.filter_subject ?? "";
}

/** What is to be done with a durable that is already there. */
export type Adoption =
  | { readonly kind: "adopt"; readonly differences: readonly string[] }
  | { readonly kind: "refuse"; readonly reason: string };

/**
 * Looks at an existing request consumer. It is adopted whatever its limits are, if it takes the same
 * requests; never deleted.
 * @param listenSubject LISTEN_SUBJECT
 */
export function adoptDurable(
  settings: ConsumerSettings,
  listenSubject: string,
  found: SentConfig,
): Adoption {
  const name = `consumer ${settings.base} of stream ${settings.stream}`;
  const forms = filterForms(listenSubject);
  const filter = filterOf(found);
  if (filter === null || !forms.includes(filter)) {
    const has = filter === null ? (found.filter_subjects ?? []).join(", ") : filter || "none";
    return {
      kind: "refuse",
      reason: `${name} has the filter ${has}, LISTEN_SUBJECT is ${listenSubject}: ` +
        "set another NATS_CONSUMER_NAME or change LISTEN_SUBJECT",
    };
  }
  if (found.deliver_subject) {
    return { kind: "refuse", reason: `${name} is a push consumer: set another NATS_CONSUMER_NAME` };
  }
  if (found.ack_policy !== undefined && found.ack_policy !== "explicit") {
    return {
      kind: "refuse",
      reason: `${name} has ack policy ${found.ack_policy}, explicit is needed: ` +
        "set another NATS_CONSUMER_NAME",
    };
  }
  const wanted = requestConsumerConfig(settings, filter);
  const differences = (["ack_wait", "max_ack_pending", "max_deliver", "max_waiting"] as const)
    .filter((key) => found[key] !== undefined && found[key] !== wanted[key])
    .map((key) => `${key} ${found[key]} instead of ${wanted[key]}`);
  return { kind: "adopt", differences };
}
