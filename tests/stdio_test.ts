import assert from "node:assert/strict";
import { loadConfig } from "../lib/config/load.ts";
import type { Config } from "../lib/config/settings.ts";
import { FlowError } from "../lib/errors.ts";
import type { FlowEnd } from "../lib/flow/registry.ts";
import type { StdioStreams } from "../lib/net/stdio_socket.ts";
import { runStdio } from "../lib/stdio.ts";
import { latin1, octets } from "./helpers/bytes.ts";
import { FakeSessions, readTunnel, writeTunnel } from "./helpers/unit_open_session.ts";
import { MemoryLogger } from "./helpers/unit_transport.ts";
import { within } from "./helpers/wait.ts";

const { config } = loadConfig({
  flags: { "nats-response-timeout": "0.2" },
  env: {},
  isTerminal: false,
  readFile: () => "",
  command: "requester",
});

/** Standard input and output that a test feeds and reads. */
class Pipes implements StdioStreams {
  #input: (Uint8Array | null | Error)[] = [];
  #wake: (() => void) | null = null;
  output = "";
  outputEnded = false;
  /** What `endOutput` says. */
  canEnd = true;
  /** The reader of the output has gone. */
  broken = false;

  /** Null ends the input. */
  feed(piece: string | null | Error): void {
    this.#input.push(typeof piece === "string" ? octets(piece) : piece);
    this.#wake?.();
  }

  async read(into: Uint8Array): Promise<number | null> {
    while (this.#input.length === 0) await new Promise<void>((resolve) => this.#wake = resolve);
    const piece = this.#input[0]!;
    if (piece === null) return null;
    if (piece instanceof Error) throw piece;
    into.set(piece);
    this.#input.shift();
    return piece.length;
  }

  write(bytes: Uint8Array): Promise<number> {
    if (this.broken) return Promise.reject(new Error("Broken pipe"));
    this.output += latin1(bytes);
    return Promise.resolve(bytes.length);
  }

  endOutput(): boolean {
    this.outputEnded = this.canEnd;
    return this.canEnd;
  }
}

/** One `natsway stdio` whose session is the test's. */
class StdioRig {
  readonly pipes = new Pipes();
  readonly sessions = new FakeSessions();
  readonly ready = Promise.withResolvers<void>();
  readonly asked = Promise.withResolvers<void>();
  readonly logger = new MemoryLogger();
  closes = 0;
  end: FlowEnd | null = null;
  readonly exit: Promise<number>;

  constructor(settings: Partial<Config> = {}) {
    this.exit = runStdio({
      target: { host: "db.internal", port: 22 },
      config: { ...config, ...settings },
      logger: this.logger,
      streams: this.pipes,
      asked: this.asked.promise,
      connect: (_config, logger) => ({
        open: this.sessions.open,
        ready: this.ready.promise,
        end: () => {
          logger.warn("flow closed", { request_id: "1", code: this.end });
          logger.warn("not about the flow");
          return this.end;
        },
        close: () => {
          this.closes++;
          return Promise.resolve();
        },
      }),
    });
    this.exit.catch(() => {});
  }

  /** The exit code, or the failure as the command line shows it. */
  async ended(): Promise<number | string> {
    try {
      return await within(this.exit, 5_000, "the end");
    } catch (error) {
      if (!(error instanceof FlowError)) throw error;
      return `${error.message} (${error.code})`;
    } finally {
      assert.equal(this.closes, 1, "NATS is left once");
    }
  }
}

Deno.test("stdio carries bytes both ways and ends with 0 when both directions have ended", async () => {
  const rig = new StdioRig();
  rig.ready.resolve();
  const session = await rig.sessions.at(0);
  assert.deepEqual(session.target, { host: "db.internal", port: 22, ingressKind: "stdio" });
  rig.pipes.feed("early ");
  const tunnel = session.establish();
  assert.equal(await readTunnel(tunnel, 6), "early ");
  await writeTunnel(tunnel, "banner");
  assert.equal(rig.pipes.output, "banner", "nothing but the target's bytes");
  rig.pipes.feed(null);
  assert.equal(await tunnel.reader.more(), false);
  assert.equal(rig.pipes.outputEnded, false, "the end of input is no end of the tunnel");
  await writeTunnel(tunnel, " late");
  await tunnel.closeWrite();
  assert.equal(rig.pipes.outputEnded, true);
  tunnel.close();
  assert.equal(await rig.ended(), 0);
  assert.equal(rig.pipes.output, "banner late");
});

Deno.test("stdio opens its session only when NATS is reached, and says nats_down when it is not", async () => {
  const late = new StdioRig();
  const text = "no connection to NATS within 0.2 s (nats_down)";
  assert.equal(await late.ended(), text);
  assert.deepEqual(late.sessions.opened.events, []);
  late.ready.resolve();
  const denied = new StdioRig();
  denied.ready.reject(new FlowError("internal", "no permission"));
  assert.equal(await denied.ended(), "no permission (internal)");
});

Deno.test("a session that fails ends stdio with its message and code, and nothing on the output", async () => {
  const rig = new StdioRig();
  rig.ready.resolve();
  rig.pipes.feed("SSH-2.0-client\r\n");
  rig.pipes.feed(null); // no reason to give up
  (await rig.sessions.at(0)).fail("target_refused", "db.internal:22: connection refused");
  assert.equal(await rig.ended(), "db.internal:22: connection refused (target_refused)");
  assert.deepEqual([rig.pipes.output, rig.pipes.outputEnded], ["", false]);
});

Deno.test("a tunnel that is broken off ends stdio with the code of its end", async () => {
  const ends: [end: FlowEnd | null, code: string][] = [
    ["peer_lost", "peer_lost"],
    ["idle_timeout", "idle_timeout"],
    [null, "reset"],
    ["ok", "reset"],
  ];
  for (const [end, code] of ends) {
    const rig = new StdioRig();
    rig.ready.resolve();
    const tunnel = (await rig.sessions.at(0)).establish();
    rig.end = end;
    tunnel.reset();
    assert.equal(await rig.ended(), `the tunnel to db.internal:22 was broken off (${code})`);
    // What is said about the flow is said by the end.
    assert.deepEqual(rig.logger.lines.map(({ level, message }) => [level, message]), [
      ["debug", "flow closed"],
      ["warning", "not about the flow"],
    ]);
  }
});

Deno.test("the tunnel is told when the reader of the output has gone, or the input breaks", async () => {
  const rig = new StdioRig();
  rig.ready.resolve();
  const tunnel = (await rig.sessions.at(0)).establish();
  const told = new Promise<void>((resolve) => tunnel.onError = resolve);
  rig.pipes.broken = true;
  await assert.rejects(writeTunnel(tunnel, "x"));
  await within(told, 1_000, "the error");
  rig.end = "reset";
  tunnel.reset();
  assert.equal(await rig.ended(), "the tunnel to db.internal:22 was broken off (reset)");

  const other = new StdioRig();
  other.ready.resolve();
  const session = await other.sessions.at(0);
  other.pipes.feed(new Error("Input/output error"));
  await within(session.abandoned, 1_000, "the session to be given up");
  other.end = "canceled";
  assert.match(String(await other.ended()), /broken off/);
});

Deno.test("where the output cannot be ended alone, the target's end ends stdio", async () => {
  const rig = new StdioRig();
  rig.ready.resolve();
  const tunnel = (await rig.sessions.at(0)).establish();
  rig.pipes.canEnd = false;
  await writeTunnel(tunnel, "all");
  await tunnel.closeWrite();
  assert.equal(await rig.ended(), 0);
  assert.equal(rig.pipes.output, "all");
});

Deno.test("a signal ends stdio at once, whatever is under way", async () => {
  const connecting = new StdioRig({ responseTimeoutMs: 60_000 });
  connecting.asked.resolve();
  assert.equal(await connecting.ended(), 0);
  connecting.ready.resolve();
  const open = new StdioRig();
  open.ready.resolve();
  (await open.sessions.at(0)).establish();
  open.asked.resolve();
  assert.equal(await open.ended(), 0);
});
