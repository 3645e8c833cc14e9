/**
 * `natsway demo`: a whole bridge on this machine, to look at.
 * @module
 */
import { natsAddress } from "../config/addresses.ts";
import type { Config } from "../config/settings.ts";
import { type EmbeddedServer, startNatsServer } from "../embedded/server.ts";
import { findNatsServer } from "../embedded/find.ts";
import { ExitCode, StartError } from "../errors.ts";
import type { Logger } from "../logger.ts";
import { Service } from "../service/service.ts";
import { untilSignal } from "../signals.ts";
import { type SampleUpstream, startSampleUpstream } from "./sample_upstream.ts";
import { demoRequests, runSelfTest } from "./self_test.ts";

/** Where the demo writes. */
export interface DemoIo {
  stdout(text: string): void;
  stderr(text: string): void;
  /** Whether standard error is a terminal. */
  readonly isTerminal: boolean;
}

export interface DemoOptions {
  /** One line of JSON instead of text. */
  readonly json: boolean;
  /** Make the suggested requests, report each, and end. */
  readonly selfTest: boolean;
}

/** Running work is given so long when the demo ends. */
const DEMO_GRACE_MS = 500;
const READY_TIMEOUT_MS = 20_000;

/**
 * Runs the demo until a signal, or until its self-test is over.
 * @returns the exit code: 1 when a request of the self-test failed
 * @throws {StartError} something could not be started; all else has been stopped again
 */
export async function runDemo(
  options: DemoOptions,
  io: DemoIo,
  config: Config,
  logger: Logger,
): Promise<number> {
  const quiet = config.logLevel === "debug" ? logger : withoutInfo(logger);
  const parts = new DemoParts();
  const signal = untilSignal();
  try {
    const started = parts.start(config, io, quiet);
    // A signal while starting ends the demo as well; what was begun is stopped below.
    if (await Promise.race([started.then(() => false), signal.first.then(() => true)])) {
      await started.catch(() => {});
      return ExitCode.Ok;
    }
    const { base, embedded } = parts;
    const requests = demoRequests(base);
    if (options.selfTest) {
      const good = await runSelfTest(requests, options.json ? io.stderr : io.stdout);
      return good ? ExitCode.Ok : ExitCode.Failure;
    }
    io.stdout(options.json ? jsonLine(parts) : guide(parts));
    const died = embedded.died.then((message) => {
      io.stderr(`natsway: ${message}\n`);
      return ExitCode.CannotStart;
    });
    return await Promise.race([died, signal.first.then(() => ExitCode.Ok)]);
  } finally {
    await parts.stop();
    signal.release();
  }
}

/** What the demo consists of, in the order in which it starts. */
class DemoParts {
  #embedded: EmbeddedServer | null = null;
  #upstream: SampleUpstream | null = null;
  #receiver: Service | null = null;
  #requester: Service | null = null;
  /** Where the nats-server came from. */
  source = "";

  async start(config: Config, io: DemoIo, logger: Logger): Promise<void> {
    const found = await findNatsServer({
      binary: config.embeddedNatsBinary,
      downloadUrl: config.embeddedNatsDownloadUrl,
      isTerminal: io.isTerminal,
      onProgress: io.stderr,
      logger,
    });
    this.source = found.source;
    this.#embedded = await startNatsServer({ binary: found.path, listen: "127.0.0.1:0", logger });
    this.#upstream = await startSampleUpstream();
    const shared = {
      ...config,
      listenHost: "127.0.0.1",
      adminListen: null,
      natsUrls: [natsAddress("127.0.0.1", this.#embedded.port)],
      natsMode: "core" as const,
    };
    const url = new URL(this.#upstream.url);
    this.#receiver = new Service({
      ...shared,
      serviceRole: "receiver",
      serviceId: `${config.serviceId}-rec`,
      port: 0,
      upstreamUrl: {
        href: url.href,
        hostname: url.hostname,
        port: Number(url.port),
        authority: url.host,
        prefix: "",
      },
    }, logger);
    this.#requester = this.#startRequester(
      { ...shared, serviceRole: "requester", serviceId: `${config.serviceId}-req` },
      logger,
    );
    await this.#ready();
  }

  /** On PORT when it is free, else on any free port: the demo need not be the only one. */
  #startRequester(config: Config, logger: Logger): Service {
    try {
      return new Service(config, logger);
    } catch (error) {
      if (!(error instanceof StartError)) throw error;
      return new Service({ ...config, port: 0 }, logger);
    }
  }

  async #ready(): Promise<void> {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const late = new Promise<never>((_, reject) => {
      timer = setTimeout(
        () => reject(new StartError("the demo did not come into service within 20 s")),
        READY_TIMEOUT_MS,
      );
    });
    try {
      await Promise.race([Promise.all([this.#receiver!.ready(), this.#requester!.ready()]), late]);
    } finally {
      clearTimeout(timer);
    }
  }

  get embedded(): EmbeddedServer {
    return this.#embedded!;
  }

  get upstream(): SampleUpstream {
    return this.#upstream!;
  }

  /** URL of the requester, without a slash at the end. */
  get base(): string {
    return `http://127.0.0.1:${this.#requester!.address.port}`;
  }

  /** URL of the receiver's own routes. */
  get receiverBase(): string {
    return `http://127.0.0.1:${this.#receiver!.address.port}`;
  }

  /** Stops what was started, clients first. */
  async stop(): Promise<void> {
    await Promise.all([this.#requester?.stop(DEMO_GRACE_MS), this.#receiver?.stop(DEMO_GRACE_MS)]);
    await this.#upstream?.stop();
    await this.#embedded?.stop();
  }
}

function jsonLine(parts: DemoParts): string {
  return JSON.stringify({
    requester: parts.base,
    receiver: parts.receiverBase,
    upstream: parts.upstream.url,
    nats: parts.embedded.url,
    nats_server: { version: parts.embedded.version, source: parts.source, pid: parts.embedded.pid },
    curl: demoRequests(parts.base).map((request) => request.curl),
  }) + "\n";
}

function guide(parts: DemoParts): string {
  const lines = demoRequests(parts.base)
    .map((request) => `  # ${request.title}\n  ${request.curl}\n`);
  return `A bridge is running on this machine:

  your client -> requester ${parts.base}
              -> NATS      ${parts.embedded.url} (nats-server ${parts.embedded.version})
              -> receiver  ${parts.receiverBase}
              -> upstream  ${parts.upstream.url}

Try it from another terminal:

${lines.join("\n")}
State of the bridge: ${parts.base}/observability/nats
Ctrl-C ends everything.
`;
}

/** The demo's own text is enough: what the roles say goes without `info`. */
function withoutInfo(logger: Logger): Logger {
  return {
    debug: () => {},
    info: () => {},
    warn: (message, fields) => logger.warn(message, fields),
    error: (message, fields) => logger.error(message, fields),
    enabled: (level) => (level === "warning" || level === "error") && logger.enabled(level),
  };
}
