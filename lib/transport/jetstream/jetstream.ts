/**
 * The roles' {@link Transport} over JetStream: everything goes through one stream, requests wait there
 * for a receiver.
 * @module
 */

import { errorText, MessageTooLargeError, StartError } from "../../errors.ts";
import type { Logger } from "../../logger.ts";
import type { CoreSubjects } from "../core.ts";
import { HIGH_MARK_BYTES, type NatsLink } from "../link.ts";
import type { LinkSubscription } from "../link_subscription.ts";
import { sleep } from "../sleep.ts";
import type {
  Delivery,
  Inbound,
  Plane,
  PublishOptions,
  RequestConsumer,
  RequestOptions,
  Transport,
  TransportStatus,
} from "../types.ts";
import { type Clock, MACHINE_CLOCK } from "./clock.ts";
import {
  adoptDurable,
  type ConsumerSettings,
  planeConsumerConfig,
  planeConsumerName,
  poolCancelConsumerName,
  requestConsumerConfig,
} from "./consumer_configs.ts";
import { ConsumerKeeper } from "./consumer_keeper.ts";
import { DeliveryKeeper } from "./delivery_keeper.ts";
import { ADVISORY_LABEL, Exhausted } from "./exhausted.ts";
import { crossesAccounts, Management } from "./management.ts";
import { PlanePuller } from "./plane_puller.ts";
import { Publisher } from "./publisher.ts";
import { RequestPlane } from "./request_plane.ts";
import { ServerClock } from "./server_clock.ts";
import { SinglePuller } from "./single_puller.ts";
import { StreamWatch } from "./stream_watch.ts";

export interface JetStreamOptions extends ConsumerSettings {
  /** Closed with the transport. */
  readonly link: NatsLink;
  readonly logger: Logger;
  /** The first form of each is the subject as it is published. */
  readonly subjects: Omit<CoreSubjects, "queueGroup">;
  /** NATS_JS_API_PREFIX; null when it is not set. */
  readonly apiPrefix: string | null;
  /** Why JetStream was chosen, for the pages. @default {"NATS_MODE=jetstream"} */
  readonly backendReason?: string;
  /** @default the machine's */
  readonly clock?: Clock;
}

/** What went wrong, for metrics; all from 0 at start. */
export interface JetStreamCounts {
  /** Messages that the stream took. */
  readonly published: number;
  /** Messages that the stream did not take, or did not say so in time. */
  readonly lost: number;
  /** Claims that could not be confirmed within their lease. */
  readonly leasesLost: number;
  /** Requests that were removed after all their deliveries. */
  readonly exhausted: number;
  /** Requests that are held and not settled now. */
  readonly unsettled: number;
}

const CLOSE_TIMEOUT_MS = 2000;

/** It begins at once, in the background, and heals by itself: consumers, streams and servers come and go. */
export class JetStreamTransport implements Transport {
  readonly #options: JetStreamOptions;
  readonly #link: NatsLink;
  readonly #management: Management;
  readonly #streamWatch: StreamWatch;
  readonly #publisher: Publisher;
  readonly #deliveries: DeliveryKeeper;
  readonly #serverClock: ServerClock;
  readonly #single: boolean;
  readonly #keepers: ConsumerKeeper[] = [];
  readonly #advisories: LinkSubscription[] = [];
  readonly #failed = Promise.withResolvers<StartError>();
  readonly #readiness: ((notReady: string | null) => void)[] = [];
  #told: string | null = null;
  #exhausted: Exhausted | null = null;
  #takesRequests = false;
  #closing: Promise<void> | null = null;

  constructor(options: JetStreamOptions) {
    this.#options = options;
    const { link, logger, stream, apiPrefix, clock = MACHINE_CLOCK, subjects } = options;
    this.#link = link;
    this.#single = crossesAccounts(apiPrefix);
    this.#management = new Management({ link, stream, apiPrefix });
    this.#streamWatch = new StreamWatch(this.#management);
    this.#publisher = new Publisher({ link });
    this.#serverClock = new ServerClock({
      link,
      management: this.#management,
      clock,
      logger,
      subjects: [...subjects.responses, ...subjects.control].map((one) =>
        one.replace(/>$/, "clock")
      ),
    });
    this.#deliveries = new DeliveryKeeper({
      link,
      clock,
      ageMs: (timeMs) => this.#serverClock.ageMs(timeMs),
    });
    link.onConnection((connected) => this.#connectionChanged(connected));
  }

  /** The link itself, for what is not a plane: presence, probes. */
  get link(): NatsLink {
    return this.#link;
  }

  /** Resolves when this process may not go on: the pool's consumer takes other requests. */
  get failed(): Promise<StartError> {
    return this.#failed.promise;
  }

  get connected(): boolean {
    return this.#link.connected;
  }

  /** The smaller of the server's and the stream's limit. */
  get maxPayload(): number {
    const ofStream = this.#streamWatch.maxMessageBytes;
    const ofServer = this.#link.maxPayload;
    return ofStream > 0 ? Math.min(ofStream, ofServer) : ofServer;
  }

  get pendingBytes(): number {
    return this.#link.pendingBytes;
  }

  get congested(): boolean {
    return this.#publisher.congested || this.#link.pendingBytes >= HIGH_MARK_BYTES;
  }

  get counts(): JetStreamCounts {
    const { accepted, lost } = this.#publisher.counts;
    return {
      published: accepted,
      lost,
      leasesLost: this.#deliveries.leasesLost,
      exhausted: this.#exhausted?.count ?? 0,
      unsettled: this.#deliveries.open,
    };
  }

  publish(subject: string, parts: readonly Uint8Array[], options?: PublishOptions): boolean {
    const ofStream = this.#streamWatch.maxMessageBytes;
    if (ofStream > 0) {
      let bytes = options?.headers?.length ?? 0;
      for (const part of parts) bytes += part.length;
      if (bytes > ofStream) throw new MessageTooLargeError(bytes, ofStream);
    }
    return this.#publisher.publish(subject, parts, options);
  }

  async drained(): Promise<void> {
    await Promise.all([this.#publisher.drained(), this.#link.drained()]);
  }

  async flush(): Promise<void> {
    await this.#link.flush();
    await this.#publisher.settled();
    if (!this.#link.connected) await this.#link.flush();
  }

  consumeRequests(
    handler: (delivery: Delivery) => void,
    options: RequestOptions = {},
  ): RequestConsumer {
    const { link, logger, stream, base, subjects, clock = MACHINE_CLOCK } = this.#options;
    const { onExhausted } = options;
    this.#takesRequests = true;
    const plane = new RequestPlane({
      link,
      clock,
      deliveries: this.#deliveries,
      handler,
      free: options.free ?? (() => 1),
      pullSubject: this.#management.pullSubject(base),
      maxPayload: () => this.maxPayload,
      single: this.#single,
    });
    this.#keep({
      consumer: base,
      subject: subjects.requests,
      config: (filter) => requestConsumerConfig(this.#options, filter),
      adopt: (found) => adoptDurable(this.#options, subjects.requests, found),
      open: (info, _filter, gone) => {
        this.#serverClock.measure();
        return plane.open(info, gone);
      },
    });
    if (onExhausted !== undefined) {
      const management = this.#management;
      this.#exhausted = new Exhausted({
        link,
        management,
        logger,
        stream,
        consumer: base,
        onExhausted,
      });
    }
    this.#advisories.push(link.subscribe({
      subject: `$JS.EVENT.ADVISORY.STREAM.LEADER_ELECTED.${stream}`,
      label: ADVISORY_LABEL,
      deliver: () => this.#serverClock.measure(),
    }));
    return plane;
  }

  consumePlane(plane: Plane, handler: (message: Inbound) => void): void {
    this.#consume(
      planeConsumerName(this.#options, plane),
      plane,
      this.#planeSubject(plane),
      handler,
    );
  }

  consumePoolCancels(handler: (message: Inbound) => void): void {
    const { subjects } = this.#options;
    const name = poolCancelConsumerName(this.#options);
    this.#consume(name, "cancel._pool", subjects.poolCancel, handler);
  }

  onConnection(listener: (connected: boolean) => void): void {
    this.#link.onConnection(listener);
  }

  onReadiness(listener: (notReady: string | null) => void): void {
    this.#readiness.push(listener);
  }

  status(): TransportStatus {
    const status = this.#link.status();
    return {
      ...status,
      // Without advisories the work goes on, only exhausted requests stay in the stream.
      planesDenied: status.planesDenied.filter((plane) => plane !== ADVISORY_LABEL),
      backend: "jetstream",
      backendReason: this.#options.backendReason ?? "NATS_MODE=jetstream",
      notReady: this.#notReady,
    };
  }

  async inspect(): Promise<Readonly<Record<string, unknown>>> {
    const { stream, base, apiPrefix, subjects: _ } = this.#options;
    const consumer = this.#takesRequests ? base : planeConsumerName(this.#options, "responses");
    const names = { stream, consumer, js_api_prefix: apiPrefix };
    try {
      const [streamInfo, consumerInfo] = await Promise.all([
        this.#management.streamInfo(),
        this.#management.consumerInfo(consumer),
      ]);
      const { messages, bytes, first_seq, last_seq } = streamInfo.state;
      return {
        ...names,
        jetstream_available: true,
        stream_messages: messages,
        stream_bytes: bytes,
        stream_first_seq: first_seq,
        stream_last_seq: last_seq,
        consumer_num_pending: consumerInfo.num_pending,
        stream_info: streamInfo,
        consumer_info: consumerInfo,
      };
    } catch (error) {
      const name = error instanceof Error ? error.name : "Error";
      return {
        ...names,
        jetstream_available: false,
        inspection_error: `error: ${name}: ${errorText(error)}`,
      };
    }
  }

  close(): Promise<void> {
    return this.#closing ??= this.#close();
  }

  async #close(): Promise<void> {
    if (this.#link.connected) {
      await sleep(CLOSE_TIMEOUT_MS, this.#publisher.settled());
    }
    await Promise.all([
      ...this.#keepers.map((keeper) => keeper.close()),
      ...this.#advisories.map((one) => one.drain()),
      this.#exhausted?.close(),
      this.#serverClock.close(),
      this.#deliveries.close(),
      this.#publisher.close(),
    ]);
    await this.#link.close();
  }

  get #notReady(): string | null {
    return this.#keepers.find((keeper) => keeper.notReady !== null)?.notReady ?? null;
  }

  #consume(
    name: string,
    label: string,
    subject: string,
    handler: (message: Inbound) => void,
  ): void {
    this.#keep({
      consumer: name,
      subject,
      config: (filter) => planeConsumerConfig(this.#options, name, filter),
      adopt: null,
      open: (_info, filter, onGone) => {
        const Puller = this.#single ? SinglePuller : PlanePuller;
        return new Puller({
          link: this.#link,
          label,
          pullSubject: this.#management.pullSubject(name),
          filter,
          maxPayload: this.maxPayload,
          handler,
          onGone,
        });
      },
    });
  }

  #keep(
    part: Pick<
      ConstructorParameters<typeof ConsumerKeeper>[0],
      "consumer" | "subject" | "config" | "adopt" | "open"
    >,
  ): void {
    const keeper = new ConsumerKeeper({
      ...part,
      management: this.#management,
      streamWatch: this.#streamWatch,
      logger: this.#options.logger,
      stream: this.#options.stream,
      onRefused: (reason) => this.#failed.resolve(new StartError(reason)),
      onChange: () => this.#tell(),
    });
    this.#keepers.push(keeper);
    this.#tell();
    if (this.#link.connected) keeper.connected();
  }

  #connectionChanged(connected: boolean): void {
    if (this.#closing !== null) return;
    if (connected) {
      this.#deliveries.connected();
      for (const keeper of this.#keepers) keeper.connected();
    } else {
      this.#publisher.disconnected();
      this.#deliveries.disconnected();
      this.#serverClock.forget();
      for (const keeper of this.#keepers) keeper.disconnected();
    }
  }

  #tell(): void {
    const now = this.#notReady;
    if (now === this.#told) return;
    this.#told = now;
    for (const listener of this.#readiness) listener(now);
  }

  #planeSubject(plane: Plane): string {
    const { responses, sessionsDownstream, sessionsUpstream, control, cancel } =
      this.#options.subjects;
    const forms = {
      "responses": responses,
      "sessions.downstream": sessionsDownstream,
      "sessions.upstream": sessionsUpstream,
      "control": control,
      "cancel": cancel,
    }[plane];
    const [first] = forms;
    if (first === undefined) throw new TypeError(`there is no subject for ${plane}`);
    return first;
  }
}
