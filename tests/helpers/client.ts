/**
 * A client that sends exact octets and sees exact octets.
 * @module
 */
import { latin1, octets } from "./bytes.ts";
import { readResponse, type ReadResponseOptions, type TestResponse } from "./http_message.ts";
import { type End, TestSocket } from "./socket.ts";

/**
 * How long a connection is watched after its last expected octet: surplus octets and a missing close
 * are failures too (tests/cases/README.md asks for 2 s).
 */
export const SURPLUS_MS = 2_000;

/** An open client connection. */
export class RawClient implements AsyncDisposable {
  readonly socket: TestSocket;

  constructor(socket: TestSocket) {
    this.socket = socket;
  }

  static async connect(port: number): Promise<RawClient> {
    return new RawClient(await TestSocket.connect(port));
  }

  /** Sends these octets. */
  send(data: Uint8Array | string): Promise<void> {
    return this.socket.write(data);
  }

  /** Reads the next response. */
  response(options: ReadResponseOptions = {}): Promise<TestResponse> {
    return readResponse(this.socket, options);
  }

  /** Sends a request and reads its response; the method is taken from the request line. */
  async exchange(
    data: Uint8Array | string,
    options: ReadResponseOptions = {},
  ): Promise<TestResponse> {
    await this.send(data);
    const start = typeof data === "string" ? data.slice(0, 40) : latin1(data.subarray(0, 40));
    return await this.response({ method: start.split(" ")[0] as string, ...options });
  }

  /** Watches for {@linkcode SURPLUS_MS}: fails on any octet; the connection must end within that time. */
  async mustClose(): Promise<void> {
    const end = await this.socket.nothingFollows(SURPLUS_MS);
    if (end === "open") throw new Error("the connection was not closed");
  }

  /** Watches for {@linkcode SURPLUS_MS}: fails on any octet and when the connection ends. */
  async mustStayOpen(): Promise<void> {
    const end = await this.socket.nothingFollows(SURPLUS_MS);
    if (end !== "open") throw new Error(`the connection ended: ${end}`);
  }

  /** Watches for {@linkcode SURPLUS_MS}: fails on any octet. */
  nothingFollows(): Promise<End> {
    return this.socket.nothingFollows(SURPLUS_MS);
  }

  close(): Promise<void> {
    return this.socket.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}

/** Parts of a request. */
export interface RequestParts {
  method?: string;
  version?: string;
  fields?: readonly string[];
  /** Sent with Content-Length unless `fields` frame it. */
  body?: Uint8Array | string;
}

/** Octets of a request for the reverse endpoint, host `app.example`. */
export function requestOctets(target: string, parts: RequestParts = {}): Uint8Array {
  const body = parts.body === undefined
    ? null
    : typeof parts.body === "string"
    ? new TextEncoder().encode(parts.body)
    : parts.body;
  const fields = [...parts.fields ?? []];
  if (!fields.some((line) => /^host:/i.test(line))) fields.unshift("Host: app.example");
  if (body !== null && !fields.some((line) => /^(content-length|transfer-encoding):/i.test(line))) {
    fields.push(`Content-Length: ${body.length}`);
  }
  const head = octets(
    `${parts.method ?? "GET"} ${target} ${parts.version ?? "HTTP/1.1"}\r\n` +
      `${fields.join("\r\n")}\r\n\r\n`,
  );
  if (body === null) return head;
  const whole = new Uint8Array(head.length + body.length);
  whole.set(head);
  whole.set(body, head.length);
  return whole;
}

/** One request on a connection of its own, closed afterwards. */
export async function request(
  port: number,
  target: string,
  parts: RequestParts & ReadResponseOptions = {},
): Promise<TestResponse> {
  await using client = await RawClient.connect(port);
  // A server may answer and close before it has taken the whole body: the answer counts.
  const sending = client.send(requestOctets(target, parts)).catch(() => {});
  const response = await client.response({ method: parts.method ?? "GET", ...parts });
  await Promise.race([sending, Promise.resolve()]);
  return response;
}
