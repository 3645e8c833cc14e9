/**
 * natsway between real programs: nats-server, receiver and requester as processes.
 * @module
 */
import { type NatsServer, startNats } from "../../helpers/nats_server.ts";
import {
  type LogEvent,
  type Natsway,
  natswayCommand,
  natswayEnvironment,
  startNatsway,
} from "../../helpers/natsway.ts";

/** The host that the servers of these tests listen on. */
const LOCAL = "127.0.0.1";
/** Loopback is no target unless a rule allows it. */
const TARGET_ALLOW = `${LOCAL},localhost,[::1]`;

export interface BridgeOptions {
  /** Ports of 127.0.0.1 that forwards lead to. */
  readonly forwardTo?: readonly number[];
}

/** See {@link startBridge}. */
export class Bridge implements AsyncDisposable {
  constructor(
    readonly nats: NatsServer,
    readonly receiver: Natsway,
    readonly requester: Natsway,
  ) {}

  /** `host:port` of the HTTP listener, which takes CONNECT. */
  get http(): string {
    return `${LOCAL}:${this.requester.port}`;
  }

  /** `host:port` of the SOCKS5 listener. */
  get socks(): string {
    return `${LOCAL}:${this.#port((event) => event.message === "listening for SOCKS5")}`;
  }

  /** Port of the forward that leads to this port of 127.0.0.1. */
  forward(port: number): number {
    return this.#port((event) =>
      event.message === "listening for a forward" &&
      event["target"] === `${LOCAL}:${port}`
    );
  }

  /** `natsway stdio` as ssh's ProxyCommand, and the environment that ssh must have for it. */
  get stdio(): { proxyCommand: string; env: Record<string, string> } {
    const { command, args } = natswayCommand(["stdio", "%h:%p"]);
    return {
      proxyCommand: [command, ...args].map((word) => `'${word}'`).join(" "),
      env: natswayEnvironment({ NATS_URL: this.nats.url }),
    };
  }

  /** Runs `work`; when it fails the error also tells what both processes have logged. */
  async explained<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      const text = error instanceof Error ? error.stack ?? error.message : String(error);
      throw new Error(this.receiver.described(this.requester.described(text)));
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([this.requester, this.receiver].map((role) => role[Symbol.asyncDispose]()));
    await this.nats[Symbol.asyncDispose]();
  }

  /** Port in the log line that `test` accepts. */
  #port(test: (event: LogEvent) => boolean): number {
    const line = this.requester.log.events.find(test);
    const port = /:(\d+)$/.exec(String(line?.["address"] ?? ""))?.[1];
    if (port === undefined) throw new Error("the requester does not listen there");
    return Number(port);
  }
}

/** Starts a bridge whose every way in is open, and waits until both roles are in service. */
export async function startBridge(options: BridgeOptions = {}): Promise<Bridge> {
  const nats = await startNats();
  try {
    const forwards = (options.forwardTo ?? []).map((port) => `${LOCAL}:0=${LOCAL}:${port}`);
    const started = await Promise.allSettled([
      startNatsway("receiver", { NATS_URL: nats.url, TARGET_ALLOW }),
      startNatsway("requester", {
        NATS_URL: nats.url,
        PROXY_AUTH_ENABLED: "false",
        SOCKS5_ENABLED: "true",
        SOCKS5_LISTEN_HOST: LOCAL,
        SOCKS5_LISTEN_PORT: "0",
      }, { args: forwards.flatMap((forward) => ["--forward", forward]) }),
    ]);
    const [receiver, requester] = started.map((one) =>
      one.status === "fulfilled" ? one.value : null
    );
    if (receiver && requester) return new Bridge(nats, receiver, requester);
    for (const role of [receiver, requester]) await role?.[Symbol.asyncDispose]();
    throw started.find((one) => one.status === "rejected")?.reason;
  } catch (error) {
    await nats[Symbol.asyncDispose]();
    throw error;
  }
}
