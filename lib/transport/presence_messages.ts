/**
 * What presence says: the answers of the NATS service protocol (NATS ADR-32) and natsway's claim to a
 * SERVICE_ID. No I/O, no clock.
 * @module
 */
import { isObject, isText, jsonBytes, type JsonObject, parseJson } from "../protocol/json.ts";

/** Name of the service in subjects and on lists. */
export const SERVICE_NAME = "natsway";

/** What can be asked for. */
export const VERBS = ["PING", "INFO", "STATS"] as const;
export type Verb = (typeof VERBS)[number];

/** The three subjects of a verb: every service, every natsway, this instance. */
export function verbSubjects(verb: Verb, instance: string): readonly [string, string, string] {
  const all = `$SRV.${verb}`;
  return [all, `${all}.${SERVICE_NAME}`, instanceSubject(verb, instance)];
}

/** The subject on which one process alone answers. */
export function instanceSubject(verb: Verb, instance: string): string {
  return `$SRV.${verb}.${SERVICE_NAME}.${instance}`;
}

/** Who a process is. */
export interface Identity {
  readonly role: string;
  readonly serviceId: string;
  /** Drawn anew at each start. */
  readonly instance: string;
  /** Name of its machine. */
  readonly host: string;
  /** Start, in ms since 1970 by the clock of its machine. */
  readonly startedAtMs: number;
}

/** An identity that asks for its SERVICE_ID, or has it. */
export interface Claim extends Identity {
  /** It has had the SERVICE_ID for so long that it does not give way. */
  readonly settled: boolean;
}

/** A plane that a process listens on, for lists. */
export interface PresenceEndpoint {
  /** Letters, digits, `-` and `_`. */
  readonly name: string;
  readonly subject: string;
  /** `""` for none. */
  readonly queueGroup: string;
}

/** What a process carries; asked for at each STATS. */
export interface PresenceLoad {
  /** Live flows. */
  readonly flows: number;
  /** MAX_FLOWS. */
  readonly maxFlows: number;
  /** Flows since the start. */
  readonly requests: number;
  /** Those of them that failed. */
  readonly errors: number;
  /** @default {""} */
  readonly lastError?: string;
  /** Time that all ended flows took together. @default {0} */
  readonly processingMs?: number;
  /** More for people, for example bytes of buffers in use. */
  readonly more?: Readonly<Record<string, number | string | boolean>>;
}

/** The answers of one process. PING and INFO never change, so they are encoded once. */
export class PresenceAnswers {
  readonly #standard: JsonObject;
  readonly #endpoints: readonly PresenceEndpoint[];
  readonly #startedAt: string;
  readonly #info: JsonObject;
  readonly ping: Uint8Array;
  readonly info: Uint8Array;

  /** @param version of the program, as semver */
  constructor(identity: Identity, version: string, endpoints: readonly PresenceEndpoint[]) {
    const { role, serviceId, instance, host, startedAtMs } = identity;
    this.#endpoints = endpoints;
    this.#startedAt = new Date(startedAtMs).toISOString();
    this.#standard = {
      name: SERVICE_NAME,
      id: instance,
      version,
      metadata: { role, service_id: serviceId, host, started: this.#startedAt },
    };
    this.#info = {
      type: "io.nats.micro.v1.info_response",
      ...this.#standard,
      description: `HTTP and TCP over NATS: ${role}`,
      endpoints: endpoints.map((one) => ({ ...endpointFields(one), metadata: {} })),
    };
    this.info = jsonBytes(this.#info);
    this.ping = jsonBytes({ type: "io.nats.micro.v1.ping_response", ...this.#standard });
  }

  stats(load: PresenceLoad): Uint8Array {
    const { flows, maxFlows, requests, errors, lastError = "", processingMs = 0, more } = load;
    const counts = {
      num_requests: requests,
      num_errors: errors,
      last_error: lastError,
      processing_time: Math.round(processingMs * 1e6),
      average_processing_time: requests === 0 ? 0 : Math.round(processingMs * 1e6 / requests),
      data: { flows, max_flows: maxFlows, ...more },
    };
    return jsonBytes({
      type: "io.nats.micro.v1.stats_response",
      ...this.#standard,
      started: this.#startedAt,
      endpoints: this.#endpoints.map((one) => ({ ...endpointFields(one), ...counts })),
    });
  }

  /** INFO for a process that asked with a claim of its own. */
  infoWith(claim: Claim): Uint8Array {
    return jsonBytes({ ...this.#info, natsway: claimFields(claim) });
  }
}

function endpointFields({ name, subject, queueGroup }: PresenceEndpoint): JsonObject {
  return { name, subject, queue_group: queueGroup };
}

/** The question of a process whether its SERVICE_ID is free. */
export function encodeClaim(claim: Claim): Uint8Array {
  return jsonBytes({ natsway: claimFields(claim) });
}

function claimFields(claim: Claim): JsonObject {
  const { role, serviceId, instance, host, startedAtMs, settled } = claim;
  return { role, service_id: serviceId, instance, host, started_ms: startedAtMs, settled };
}

/** Larger messages are none of natsway's. */
const MOST_BYTES = 16 * 1024;

/**
 * The claim in a question or in an answer to one. An INFO without one is of a process that does not
 * know claims: it counts as settled.
 * @returns null when there is none that can be read
 */
export function parseClaim(data: Uint8Array): Claim | null {
  if (data.length === 0 || data.length > MOST_BYTES) return null;
  const message = parseJson(data);
  if (!isObject(message)) return null;
  const { natsway, metadata, id, name } = message;
  if (isObject(natsway)) {
    return claimOf(
      natsway,
      natsway["instance"],
      natsway["started_ms"],
      natsway["settled"] === true,
    );
  }
  if (name !== SERVICE_NAME || !isObject(metadata)) return null;
  return claimOf(metadata, id, Date.parse(String(metadata["started"])), true);
}

function claimOf(
  fields: JsonObject,
  instance: unknown,
  startedAtMs: unknown,
  settled: boolean,
): Claim | null {
  const { role, host, service_id: serviceId } = fields;
  if (!isToken(serviceId) || !isToken(instance)) return null;
  return {
    role: role === "requester" || role === "receiver" ? role : "process",
    serviceId,
    instance,
    host: isText(host) ? printable(host) : "",
    startedAtMs: isTime(startedAtMs) ? startedAtMs : 0,
    settled,
  };
}

/** Whether a `Date` can hold it. */
function isTime(value: unknown): value is number {
  return typeof value === "number" && value >= 0 && value <= 8.64e15;
}

function isToken(value: unknown): value is string {
  return typeof value === "string" && /^[A-Za-z0-9_-]{1,64}$/.test(value);
}

/** A peer's text goes into a line for the operator. */
function printable(text: string): string {
  return text.slice(0, 255).replace(/[^\x21-\x7e]/g, "?");
}

/**
 * Which of two claims to one SERVICE_ID has to give way. Both sides come to the same result, whatever
 * they hear first: a settled one stays, then the one that started first, then the smaller instance.
 */
export function givesWay(own: Claim, other: Claim): boolean {
  if (own.settled !== other.settled) return other.settled;
  if (own.startedAtMs !== other.startedAtMs) return other.startedAtMs < own.startedAtMs;
  return other.instance < own.instance;
}
