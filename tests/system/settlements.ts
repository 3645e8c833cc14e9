/**
 * What becomes of requests in the stream, as NATS sees it: every settlement that a receiver publishes.
 * @module
 */
import { latin1 } from "../helpers/bytes.ts";
import { jsonOf, type NatsClient, type NatsMessage } from "../helpers/nats_client.ts";
import type { PeerCall } from "../helpers/nats_peer.ts";
import { DURABLE, STREAM } from "../helpers/stream_operator.ts";
import type { EventLog } from "../helpers/wait.ts";

/** One `+ACK`, `-NAK`, `+TERM` or `+WPI`. */
export interface Settlement {
  /** The message's place in the stream. */
  readonly seq: number;
  /** Which delivery it settles: 1 and up. */
  readonly delivered: number;
  /** The first word of what was published. */
  readonly word: string;
}

/** stream, consumer, delivered, stream seq: the reply subject has more before and behind. */
const REPLY = new RegExp(`\\.${STREAM}\\.${DURABLE}\\.(\\d+)\\.(\\d+)\\.`);

/** Listens from `open` on. */
export class Settlements {
  readonly #messages: EventLog<NatsMessage>;

  private constructor(messages: EventLog<NatsMessage>) {
    this.#messages = messages;
  }

  static async open(nats: NatsClient): Promise<Settlements> {
    return new Settlements(await nats.subscribe("$JS.ACK.>"));
  }

  /** All settlements of one message so far; heartbeats only if asked for. */
  of(seq: number, heartbeats = false): string[] {
    return this.#messages.events.flatMap((message) => {
      const one = read(message);
      if (one?.seq !== seq || (one.word === "+WPI" && !heartbeats)) return [];
      return [`${one.word} ${one.delivered}`];
    });
  }

  /** Waits until a message is settled so, e.g. `+TERM 1`, or `+TERM` in any delivery; earlier ones count. */
  async settled(seq: number, how: string, ms = 10_000): Promise<void> {
    await this.#messages.find((message) => {
      const one = read(message);
      return one?.seq === seq && (one.word === how || `${one.word} ${one.delivered}` === how);
    }, {
      ms,
      what: `the settlement ${how} of message ${seq}`,
      describe: () => `it has ${JSON.stringify(this.of(seq, true))}`,
    });
  }
}

function read({ subject, data }: NatsMessage): Settlement | null {
  const found = REPLY.exec(subject);
  if (found === null) return null;
  const [word = ""] = latin1(data).split(" ");
  return { delivered: Number(found[1]), seq: Number(found[2]), word };
}

/** Publishes a peer's message and returns its place in the stream. */
export async function stored(
  nats: NatsClient,
  call: PeerCall,
  payload: unknown,
  headers?: string[],
): Promise<number> {
  const inbox = `_INBOX.${crypto.randomUUID()}`;
  const answers = await nats.subscribe(inbox);
  await call.send(payload, { reply: inbox, ...(headers === undefined ? {} : { headers }) });
  const answer = await answers.find(() => true, { ms: 10_000, what: "the stream's answer" });
  return Number(jsonOf(answer)["seq"]);
}
