/**
 * The whole bridge with real processes: nats-server, receivers, requester and a scripted upstream.
 * @module
 */
import { type BackendOptions, backendSettings, startBackend } from "./backend.ts";
import { RawClient, request, type RequestParts } from "./client.ts";
import type { ReadResponseOptions, TestResponse } from "./http_message.ts";
import { MODE, type Mode } from "./mode.ts";
import type { NatsLogin } from "./nats_client.ts";
import type { NatsServer } from "./nats_server.ts";
import { type Natsway, type Settings, startNatsway } from "./natsway.ts";
import { StreamOperator } from "./stream_operator.ts";
import { type Script, startUpstream, type Upstream } from "./upstream.ts";

export interface RigOptions {
  /** @default {1} */
  receivers?: 0 | 1 | 2;
  /** Script of the upstream; without it the upstream is an HTTP server with routes. */
  upstream?: Script;
  /** Path prefix of UPSTREAM_URL. @default {""} */
  upstreamPath?: string;
  /** Settings of all roles. */
  settings?: Settings;
  requesterSettings?: Settings;
  receiverSettings?: Settings;
  natsConfig?: string;
  /** Who makes the stream, where that asks. */
  natsUser?: NatsLogin;
  /** What to wait for at each role. @default {"ready"} */
  waitFor?: "ready" | "listening";
  /** @default the run's, see `mode.ts` */
  mode?: Mode;
  /** Called when NATS is there and no role is yet. */
  prepare?: (operator: StreamOperator) => Promise<void>;
  /** Of the stream, in JetStream mode; null: there is none. */
  streamSubjects?: readonly string[] | null;
}

/** Targets of tests are on loopback, which a receiver denies unless told otherwise. */
const TARGETS = "127.0.0.0/8,::1,localhost,*.invalid";

/** A running bridge. Parts are started in order and ended in reverse. */
export class Rig implements AsyncDisposable {
  constructor(
    readonly nats: NatsServer,
    readonly upstream: Upstream,
    readonly receivers: Natsway[],
    readonly requester: Natsway,
    readonly receiverSettings: Settings,
    readonly requesterSettings: Settings,
  ) {}

  /** The first receiver. */
  get receiver(): Natsway {
    const receiver = this.receivers[0];
    if (receiver === undefined) throw new Error("this rig has no receiver");
    return receiver;
  }

  /** Whoever runs the stream, in JetStream mode. */
  get operator(): StreamOperator {
    return new StreamOperator(this.nats);
  }

  /** The reverse endpoint. */
  get port(): number {
    return this.requester.port;
  }

  connect(): Promise<RawClient> {
    return RawClient.connect(this.port);
  }

  /** One request on a connection of its own. */
  request(
    target: string,
    parts: RequestParts & ReadResponseOptions = {},
  ): Promise<TestResponse> {
    return request(this.port, target, parts);
  }

  /** Starts one more receiver like the others. */
  async addReceiver(settings: Settings = {}): Promise<Natsway> {
    const receiver = await startNatsway("receiver", { ...this.receiverSettings, ...settings });
    this.receivers.push(receiver);
    return receiver;
  }

  /** `text` with the log of every process, for errors. */
  described(text: string): string {
    return [this.requester, ...this.receivers].reduce((all, role) => role.described(all), text);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([this.requester, ...this.receivers].map((p) => p[Symbol.asyncDispose]()));
    try {
      await this.upstream.stop();
    } finally {
      await this.nats[Symbol.asyncDispose]();
    }
  }
}

/** Starts a bridge and waits until every role is in service. */
export async function startRig(options: RigOptions = {}): Promise<Rig> {
  const cleanup: (() => Promise<unknown>)[] = [];
  try {
    const { mode = MODE, streamSubjects, prepare } = options;
    const { natsConfig: config = "", natsUser: login = {} } = options;
    const backend: BackendOptions = { config, mode, login };
    const nats = await startBackend(
      streamSubjects === undefined ? backend : { ...backend, subjects: streamSubjects },
    );
    cleanup.push(() => nats[Symbol.asyncDispose]());
    await prepare?.(new StreamOperator(nats, login));
    const upstream = await startUpstream(options.upstream);
    cleanup.push(() => upstream.stop());
    const common = { NATS_URL: nats.url, ...backendSettings(mode), ...options.settings };
    const receiverSettings = {
      ...common,
      UPSTREAM_URL: `${upstream.url}${options.upstreamPath ?? ""}`,
      TARGET_ALLOW: TARGETS,
      ...options.receiverSettings,
    };
    const requesterSettings = { ...common, ...options.requesterSettings };
    const { waitFor = "ready" } = options;
    const starting = [
      startNatsway("requester", requesterSettings, { waitFor }),
      ...Array.from(
        { length: options.receivers ?? 1 },
        () => startNatsway("receiver", receiverSettings, { waitFor }),
      ),
    ];
    const started = await Promise.allSettled(starting);
    for (const result of started) {
      if (result.status === "fulfilled") {
        cleanup.push(() => result.value[Symbol.asyncDispose]());
      }
    }
    const [requester, ...receivers] = started.map((result) => {
      if (result.status === "rejected") throw result.reason;
      return result.value;
    });
    return new Rig(
      nats,
      upstream,
      receivers,
      requester as Natsway,
      receiverSettings,
      requesterSettings,
    );
  } catch (error) {
    for (const step of cleanup.reverse()) await step();
    throw error;
  }
}
