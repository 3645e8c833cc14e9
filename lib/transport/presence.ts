/**
 * Who is there (extensions.md section 6): answers the NATS service protocol, keeps a SERVICE_ID to one
 * process, and pings peers.
 * @module
 */
import { createInbox, type Msg } from "@nats-io/nats-core/internal";
import { StartError } from "../errors.ts";
import type { Logger } from "../logger.ts";
import type { NatsLink } from "./link.ts";
import { PresenceChannel } from "./presence_channel.ts";
import { ServiceClaim, UNIQUE_WINDOW_MS } from "./presence_claim.ts";
import {
  encodeClaim,
  type Identity,
  instanceSubject,
  parseClaim,
  PresenceAnswers,
  type PresenceEndpoint,
  type PresenceLoad,
  SERVICE_NAME,
  type Verb,
  VERBS,
  verbSubjects,
} from "./presence_messages.ts";

export type { PresenceEndpoint, PresenceLoad } from "./presence_messages.ts";

/** Another process that has the SERVICE_ID and stays. */
export type Duplicate = Identity;

export interface PresenceOptions {
  readonly link: NatsLink;
  readonly logger: Logger;
  /** Version of the program, as semver. */
  readonly version: string;
  readonly role: "requester" | "receiver";
  readonly serviceId: string;
  /** Drawn anew at each start. */
  readonly instance: string;
  /** Start of the process: `Date.now()`. */
  readonly startedAtMs: number;
  /** Name of the machine. @default what the system says */
  readonly host?: string;
  /** What it listens on: shown by INFO, with the load by STATS. */
  readonly endpoints: readonly PresenceEndpoint[];
  /** Called for each STATS, never otherwise. */
  readonly load: () => PresenceLoad;
}

const NOTHING = new Uint8Array(0);

/**
 * One for each process. Without permission for `$SRV.>` and `_INBOX.>` it is off, which is no failure:
 * nothing is answered, asked or pinged; the next connection is a new try.
 */
export class Presence {
  readonly #identity: Identity;
  readonly #load: () => PresenceLoad;
  readonly #answers: PresenceAnswers;
  readonly #channel: PresenceChannel;
  readonly #claim: ServiceClaim;
  /** Answers come to `<inbox>.info` and `<inbox>.pong.<instance>`. */
  readonly #inbox = createInbox();
  readonly #pong = `${this.#inbox}.pong.`;
  #stopped = false;

  /**
   * Another process was heard after `checkUnique` had resolved with null. This one has fallen silent and
   * must end with {@linkcode duplicateError}.
   */
  onDuplicate: (duplicate: Duplicate) => void = () => {};
  /** An instance has answered a ping. */
  onPong: (instance: string) => void = () => {};

  constructor(options: PresenceOptions) {
    const { link, logger, version, endpoints, load } = options;
    const { role, serviceId, instance, startedAtMs, host = hostName() } = options;
    this.#identity = { role, serviceId, instance, host, startedAtMs };
    this.#load = load;
    this.#answers = new PresenceAnswers(this.#identity, version, endpoints);
    this.#channel = new PresenceChannel({
      link,
      logger,
      subjects: this.#subjects(),
      onConnected: (again) => {
        if (again) this.#claim.reconnected();
      },
    });
    const inbox = `${this.#inbox}.info`;
    this.#claim = new ServiceClaim({
      identity: this.#identity,
      logger,
      channel: this.#channel,
      isConnected: () => link.connected,
      flush: () => link.flush(),
      ask: (claim) => this.#channel.ask(`$SRV.INFO.${SERVICE_NAME}`, encodeClaim(claim), inbox),
      onLost: (duplicate, late) => {
        this.stop();
        if (late) this.onDuplicate(duplicate);
      },
    });
  }

  /** Answers from now on, whenever the link is up. */
  start(): void {
    this.#channel.start();
  }

  /**
   * Asks at the first connection whether another live process has the SERVICE_ID; for one call, after
   * `start`. Resolves with null `windowMs` after that connection, or with the other process as soon as this
   * one has to give way: it has fallen silent then and must end with {@linkcode duplicateError}. A later
   * answer comes to `onDuplicate`. Null, too, when presence is off or was stopped.
   */
  checkUnique(windowMs: number = UNIQUE_WINDOW_MS): Promise<Duplicate | null> {
    return this.#claim.check(windowMs);
  }

  /** Asks an instance whether it is there; `onPong` tells. Does nothing while nothing can be asked. */
  ping(instance: string): void {
    if (!this.#stopped) {
      this.#channel.ask(instanceSubject("PING", instance), NOTHING, this.#pong + instance);
    }
  }

  /**
   * The process finishes its work: it is off the lists and its SERVICE_ID may be had by another, but its
   * peers still get answers to their pings.
   */
  drain(): void {
    this.#claim.stop();
    this.#channel.drain();
  }

  /** Falls silent. */
  stop(): void {
    this.#stopped = true;
    this.#claim.stop();
    this.#channel.stop();
  }

  #subjects(): { subject: string; kept: boolean; handler: (message: Msg) => void }[] {
    const answers = (message: Msg) => this.#answered(message);
    const subjects = [{ subject: `${this.#inbox}.>`, kept: true, handler: answers }];
    const own = instanceSubject("PING", this.#identity.instance);
    for (const verb of VERBS) {
      const handler = (message: Msg) => this.#asked(verb, message);
      for (const subject of verbSubjects(verb, this.#identity.instance)) {
        subjects.push({ subject, kept: subject === own, handler });
      }
    }
    return subjects;
  }

  #asked(verb: Verb, message: Msg): void {
    switch (verb) {
      case "PING":
        return this.#channel.answer(message, this.#answers.ping);
      case "STATS":
        return this.#channel.answer(message, this.#answers.stats(this.#load()));
      case "INFO":
        return this.#askedForInfo(message);
    }
  }

  /** A question with a claim concerns those with the same SERVICE_ID: a thousand others stay silent. */
  #askedForInfo(message: Msg): void {
    const claim = parseClaim(message.data);
    if (claim === null) return this.#channel.answer(message, this.#answers.info);
    if (!this.#claim.rivals(claim)) return;
    this.#claim.heard(claim);
    if (!this.#stopped) this.#channel.answer(message, this.#answers.infoWith(this.#claim.claim));
  }

  /** The status that nobody listens has no payload. */
  #answered(message: Msg): void {
    const { subject, data } = message;
    if (data.length === 0) return;
    if (subject.startsWith(this.#pong)) return this.onPong(subject.slice(this.#pong.length));
    const claim = parseClaim(data);
    if (claim !== null) this.#claim.heard(claim);
  }
}

/** What a process ends with that has to give way. */
export function duplicateError(
  own: { readonly role: string; readonly serviceId: string; readonly instance: string },
  other: Duplicate,
): StartError {
  const since = new Date(other.startedAtMs).toISOString();
  return new StartError(
    `SERVICE_ID ${own.serviceId} is in use: this ${own.role} (instance ${own.instance} on ` +
      `${hostName()}) gives way to the ${other.role} (instance ${other.instance} on ` +
      `${other.host || "an unknown host"}, started ${since}); give each process its own SERVICE_ID`,
  );
}

function hostName(): string {
  try {
    return Deno.hostname();
  } catch {
    // Not permitted, or it has none.
    return "";
  }
}
