/**
 * A running example of `deploy/`, with an upstream in the place of its service.
 * @module
 */
import { type JetStreamManager, jetstreamManager } from "@nats-io/jetstream";
import type { NatsConnection } from "@nats-io/nats-core/internal";
import assert from "node:assert/strict";
import { RawClient, request, requestOctets } from "../helpers/client.ts";
import { natsServerBinary } from "../helpers/nats_server.ts";
import { type Natsway, type Settings, startNatsway } from "../helpers/natsway.ts";
import { startUpstream, type Upstream } from "../helpers/upstream.ts";
import { pause } from "../helpers/wait.ts";
import { startLink } from "../transport/support.ts";
import { type Command, type Example, openExample } from "./example.ts";
import { addStream } from "./nats_command.ts";
import { ServerProcess } from "./server_process.ts";

/** Where each example has its service. */
const SERVICE_PORT = 8080;
const READY_MS = 20_000;
/** From there on an answer may be waited for. */
const FIRST_ANSWER_MS = 15_000;
const POLL_MS = 50;

export interface TopologyOptions {
  /** In place of what the README says. */
  readonly mode?: "core" | "jetstream";
  /** Sections of the README behind "Plain commands". */
  readonly sections?: readonly string[];
  /** For every natsway, besides what the README says. */
  readonly settings?: Settings;
}

/** Processes by the names that the README gives them. */
export class Topology implements AsyncDisposable {
  readonly #parts = new Map<string, Natsway | ServerProcess>();
  readonly #stack = new AsyncDisposableStack();
  #natsUrls: readonly string[] = [];

  private constructor(readonly upstream: Upstream, readonly example: Example) {
    this.#stack.use(upstream);
    this.#stack.use(example);
  }

  /** Starts everything in the order of the README and waits until a request has been answered. */
  static async start(name: string, options: TopologyOptions = {}): Promise<Topology> {
    const upstream = await startUpstream();
    const example = await openExample(name, new Map([[SERVICE_PORT, upstream.port]]));
    const topology = new Topology(upstream, example);
    try {
      await topology.#startAll(options);
      return topology;
    } catch (error) {
      await topology[Symbol.asyncDispose]();
      throw error;
    }
  }

  /** Port of the requester. */
  get port(): number {
    return this.natsway("requester").port;
  }

  natsway(name: string): Natsway {
    const part = this.#parts.get(name);
    assert.ok(part !== undefined && !(part instanceof ServerProcess), `no natsway ${name}`);
    return part;
  }

  server(name: string): ServerProcess {
    const part = this.#parts.get(name);
    assert.ok(part instanceof ServerProcess, `no nats-server ${name}`);
    return part;
  }

  /** Client ports of the nats-servers in NATS_URL of the requester, in its order. */
  natsPorts(): number[] {
    return this.#natsUrls.map((url) => Number(new URL(url).port));
  }

  /** Asks JetStream's API at a server, in a domain if need be. */
  async manager(port: number, domain?: string): Promise<JetStreamManager> {
    const test = this.#stack.use(await startLink(`nats://127.0.0.1:${port}`));
    return await jetstreamManager(test.link.connection as unknown as NatsConnection, {
      checkAPI: false,
      ...(domain === undefined ? {} : { domain }),
    });
  }

  /** What `/observability/nats` of a process says. */
  async nats(name: string): Promise<Record<string, unknown>> {
    const { body } = await request(this.natsway(name).port, "/observability/nats");
    return JSON.parse(new TextDecoder().decode(body));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#stack.disposeAsync();
  }

  async #startAll(options: TopologyOptions): Promise<void> {
    for (const section of ["Plain commands", ...options.sections ?? []]) {
      for (const command of await this.example.commands(section)) {
        await this.#start(command, options);
      }
    }
    for (const part of this.#parts.values()) {
      if (!(part instanceof ServerProcess)) await part.event("ready", { ms: READY_MS });
    }
    await this.#answered();
  }

  async #start(
    { name, program, args, settings }: Command,
    options: TopologyOptions,
  ): Promise<void> {
    if (program === "nats") return await addStream(args, this.example.folder);
    if (program === "nats-server") {
      this.#parts.set(name, this.#stack.use(await ServerProcess.start(name, args)));
      return;
    }
    const [role, ...more] = args;
    assert.ok(role === "requester" || role === "receiver", `natsway ${args.join(" ")}`);
    assert.ok(settings["LISTEN_HOST"] === "127.0.0.1", "an example is for this machine alone");
    const binary = Deno.env.get("NATSWAY_EXECUTABLE") ? "" : await natsServerBinary();
    const natsway = await startNatsway(role, {
      ...settings,
      ...(options.mode === undefined ? {} : { NATS_MODE: options.mode }),
      ...(settings["EMBEDDED_NATS_ENABLED"] ? { EMBEDDED_NATS_BINARY: binary } : {}),
      ...options.settings,
    }, { args: more, waitFor: "listening" });
    this.#parts.set(name, this.#stack.use(natsway));
    this.#natsUrls = settings["NATS_URL"]?.split(",") ?? [];
  }

  /** Interest needs a moment to cross servers. */
  async #answered(): Promise<void> {
    const until = performance.now() + FIRST_ANSWER_MS;
    for (;;) {
      await using client = await RawClient.connect(this.port);
      const { status } = await client.exchange(requestOctets("/first"), { ms: FIRST_ANSWER_MS });
      if (status === 200) return;
      if (performance.now() > until) {
        throw new Error(this.natsway("requester").described(`the first answers were ${status}`));
      }
      await pause(POLL_MS);
    }
  }
}
