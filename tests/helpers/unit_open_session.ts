/**
 * Sessions that only a test knows of: it answers the opens of a way in by hand.
 * @module
 */
import type { FailureCode } from "../../lib/errors.ts";
import { resetConnection } from "../../lib/net/reset.ts";
import type { TunnelSocket } from "../../lib/net/tunnel_socket.ts";
import type {
  OpenSession,
  SessionBind,
  SessionClient,
  SessionTarget,
} from "../../lib/requester/session_types.ts";
import { latin1, octets } from "./bytes.ts";
import { EventLog } from "./wait.ts";

// Loads the C library, which stays loaded, before a test counts what it leaves open.
resetConnection({ close: () => {} });

/** One open, and what became of it. */
export class FakeSession {
  readonly #abandoned = Promise.withResolvers<void>();

  constructor(readonly target: SessionTarget, readonly client: SessionClient) {}

  /** Resolves when the client has left while it waited. */
  get abandoned(): Promise<void> {
    return this.#abandoned.promise;
  }

  abandon(): void {
    this.#abandoned.resolve();
  }

  /** The target is connected; the socket is the test's from now on. */
  establish(bind: SessionBind = { host: "10.1.2.3", port: 258 }): TunnelSocket {
    const socket = this.client.established(bind);
    if (socket === null) throw new Error("the client has left");
    return socket;
  }

  fail(code: FailureCode, message = `no session: ${code}`): void {
    this.client.failed(code, message);
  }
}

/** Takes opens and keeps them for the test. */
export class FakeSessions {
  readonly opened = new EventLog<FakeSession>();

  readonly open: OpenSession = (target, client) => {
    const session = new FakeSession(target, client);
    this.opened.add(session);
    return session;
  };

  /** The session with this number, from 0. */
  async at(index: number): Promise<FakeSession> {
    return await this.opened.find(() => true, { ms: 5_000, what: "an open", from: index });
  }
}

/** Exactly `count` octets from a tunnel, as text. */
export async function readTunnel(socket: TunnelSocket, count: number): Promise<string> {
  const { reader } = socket;
  while (reader.unread < count) {
    if (!await reader.more()) throw new Error(`the end after ${reader.unread} of ${count} octets`);
  }
  const text = latin1(reader.buffer.subarray(reader.start, reader.start + count));
  reader.start += count;
  return text;
}

/** Writes text to a tunnel; resolves when the socket has it. */
export async function writeTunnel(socket: TunnelSocket, text: string): Promise<void> {
  socket.writer.write(octets(text));
  await socket.writer.flushed();
}
