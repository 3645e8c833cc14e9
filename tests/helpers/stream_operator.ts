/**
 * Whoever runs the stream: makes it and its consumers, deletes them, and looks at them. Each question
 * has a connection of its own, so that a restart of the server does not matter.
 * @module
 */
import { jsonOf, NatsClient, type NatsLogin } from "./nats_client.ts";
import type { NatsServer } from "./nats_server.ts";

/** NATS_STREAM and NATS_CONSUMER_NAME unless a test says otherwise. */
export const STREAM = "proxy";
export const DURABLE = "nats-proxy";
/** Subjects of a stream for the default roots. */
export const SUBJECTS: readonly string[] = ["to.proxy.>", "from.proxy.>"];

const NS_PER_MS = 1_000_000;
const ANSWER_MS = 10_000;

/** The server answered with an error. */
export class StreamApiError extends Error {
  override readonly name = "StreamApiError";
}

/** What the tests read of a consumer. */
export interface ConsumerState {
  readonly num_ack_pending: number;
  readonly num_redelivered: number;
  readonly num_pending: number;
  readonly num_waiting: number;
  readonly created: string;
  readonly delivered: { readonly consumer_seq: number; readonly stream_seq: number };
}

export interface StreamState {
  readonly messages: number;
  readonly bytes: number;
  readonly first_seq: number;
  readonly last_seq: number;
}

/** See the module. */
export class StreamOperator {
  readonly #nats: Pick<NatsServer, "port">;
  readonly #login: NatsLogin;

  constructor(nats: Pick<NatsServer, "port">, login: NatsLogin = {}) {
    this.#nats = nats;
    this.#login = login;
  }

  /** @param more config in the server's form */
  async addStream(
    subjects: readonly string[] = SUBJECTS,
    more: Record<string, unknown> = {},
  ): Promise<void> {
    const config = { name: STREAM, subjects, storage: "file", retention: "limits", ...more };
    await this.#ask(`STREAM.CREATE.${STREAM}`, config);
  }

  async updateStream(subjects: readonly string[]): Promise<void> {
    const config = { name: STREAM, subjects, storage: "file", retention: "limits" };
    await this.#ask(`STREAM.UPDATE.${STREAM}`, config);
  }

  async deleteStream(): Promise<void> {
    await this.#ask(`STREAM.DELETE.${STREAM}`);
  }

  async stream(): Promise<StreamState> {
    return (await this.#ask(`STREAM.INFO.${STREAM}`))["state"] as StreamState;
  }

  /** @throws {StreamApiError} it is not there */
  async message(seq: number): Promise<Record<string, unknown>> {
    return await this.#ask(`STREAM.MSG.GET.${STREAM}`, { seq });
  }

  /** Place of the newest request. */
  async lastRequest(): Promise<number> {
    const question = { last_by_subj: "to.proxy.requests.>" };
    const { message } = await this.#ask(`STREAM.MSG.GET.${STREAM}`, question);
    return (message as { seq: number }).seq;
  }

  /** The pool's durable as an operator makes it, with an `ack_wait` of his own. */
  async addDurable(ackWaitMs: number, more: Record<string, unknown> = {}): Promise<void> {
    const config = {
      durable_name: DURABLE,
      ack_policy: "explicit",
      deliver_policy: "new",
      filter_subject: "to.proxy.requests.>",
      max_ack_pending: 200,
      max_waiting: 20,
      max_deliver: 3,
      ack_wait: ackWaitMs * NS_PER_MS,
      ...more,
    };
    const question = { stream_name: STREAM, config, action: "create" };
    await this.#ask(`CONSUMER.DURABLE.CREATE.${STREAM}.${DURABLE}`, question);
  }

  async deleteConsumer(name = DURABLE): Promise<void> {
    await this.#ask(`CONSUMER.DELETE.${STREAM}.${name}`);
  }

  /** @throws {StreamApiError} there is none */
  async consumer(name = DURABLE): Promise<ConsumerState> {
    return await this.#ask(`CONSUMER.INFO.${STREAM}.${name}`) as unknown as ConsumerState;
  }

  /** Names of all consumers of the stream. */
  async consumers(): Promise<string[]> {
    return (await this.#ask(`CONSUMER.NAMES.${STREAM}`))["consumers"] as string[] ?? [];
  }

  async #ask(what: string, question: unknown = null): Promise<Record<string, unknown>> {
    await using nats = await NatsClient.connect(this.#nats.port, this.#login);
    const inbox = `_INBOX.${crypto.randomUUID()}`;
    const answers = await nats.subscribe(inbox);
    const data = question === null ? "" : JSON.stringify(question);
    await nats.publish(`$JS.API.${what}`, data, { reply: inbox });
    const message = await answers.find(() => true, { ms: ANSWER_MS, what: `answer to ${what}` });
    if (message.headers.includes(" 503")) throw new StreamApiError(`${what}: nobody answers`);
    const answer = jsonOf(message);
    const error = answer["error"] as { description?: string } | undefined;
    if (error !== undefined) throw new StreamApiError(`${what}: ${error.description}`);
    return answer;
  }
}
