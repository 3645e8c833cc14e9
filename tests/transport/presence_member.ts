/**
 * A presence on a real link, for tests.
 * @module
 */
import { type Duplicate, Presence } from "../../lib/transport/presence.ts";
import { EventLog } from "../helpers/wait.ts";
import { startLink, type TestLink } from "./support.ts";

export const VERSION = "1.2.3-rc.1";
export const STARTED_MS = Date.UTC(2026, 5, 2, 8, 15, 30);

export interface MemberOptions {
  role?: "requester" | "receiver";
  serviceId?: string;
  startedAtMs?: number;
}

/** A presence on a link of its own, gone at the end of its scope. */
export class Member implements AsyncDisposable {
  readonly presence: Presence;
  readonly pongs = new EventLog<string>();
  readonly duplicates = new EventLog<Duplicate>();

  constructor(readonly on: TestLink, readonly instance: string, options: MemberOptions = {}) {
    this.presence = new Presence({
      link: on.link,
      logger: on.logger,
      version: VERSION,
      role: options.role ?? "receiver",
      serviceId: options.serviceId ?? `id-${instance}`,
      instance,
      startedAtMs: options.startedAtMs ?? STARTED_MS,
      host: "machine",
      endpoints: [{ name: "requests", subject: "to.proxy.requests.>", queueGroup: "pool" }],
      load: () => ({ flows: 3, maxFlows: 100, requests: 8, errors: 2, processingMs: 4 }),
    });
    this.presence.onPong = (from) => this.pongs.add(from);
    this.presence.onDuplicate = (duplicate) => this.duplicates.add(duplicate);
  }

  static async start(url: string, instance: string, options: MemberOptions = {}): Promise<Member> {
    const member = new Member(await startLink(url), instance, options);
    member.presence.start();
    await member.on.link.flush();
    return member;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.presence.stop();
    await this.on[Symbol.asyncDispose]();
  }
}
