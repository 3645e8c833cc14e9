/**
 * The ways in which a flow can end, each as a function that makes it end so and checks that it did.
 * @module
 */
import assert from "node:assert/strict";
import { pattern } from "../helpers/bytes.ts";
import { RawClient, requestOctets } from "../helpers/client.ts";
import { json, text } from "../helpers/http_message.ts";
import type { Rig } from "../helpers/rig.ts";
import type { Settings } from "../helpers/natsway.ts";
import { answer, type UpstreamConnection } from "../helpers/upstream.ts";

/** What the endings rely on. */
export const ENDING_SETTINGS: { requester: Settings; receiver: Settings } = {
  requester: {
    HEADER_TIMEOUT: "2",
    NATS_RESPONSE_TIMEOUT: "3",
    MAX_HEADER_BYTES: "16384",
    MAX_BODY_BYTES: "100000",
  },
  receiver: { MAX_HEADER_BYTES: "16384" },
};

/** One way to end. */
export interface Ending {
  readonly name: string;
  readonly run: (rig: Rig) => Promise<void>;
}

/** Larger than the first grant and than every socket buffer on the way together. */
const ENDLESS_PIECE = pattern(64 * 1024);
const LARGE_BYTES = 300_000;
const HALF_A_BODY = "POST /never HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nhello";
const CHUNKED = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
const DECLARED = "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n0123456789";

/** Sets the upstream's routes up for {@linkcode ENDINGS}. */
export function prepareUpstream(rig: Rig): void {
  const { upstream } = rig;
  const untilEnd = async (connection: UpstreamConnection): Promise<"close"> => {
    await connection.waitEnd(60_000);
    return "close";
  };
  upstream.route("/large", (_, connection) => connection.write(answer(pattern(LARGE_BYTES))));
  upstream.route(
    "/chunked",
    (_, connection) => connection.write(`${CHUNKED}5\r\nhello\r\n3\r\n...\r\n0\r\n\r\n`),
  );
  upstream.route("/empty", (_, connection) => connection.write("HTTP/1.1 204 No Content\r\n\r\n"));
  upstream.route("/silent", (_, connection) => untilEnd(connection));
  upstream.route("/begun", async (_, connection) => {
    await connection.write(`${CHUNKED}5\r\nhello\r\n`);
    return await untilEnd(connection);
  });
  upstream.route("/endless", async (_, connection) => {
    await connection.write("HTTP/1.1 200 OK\r\n\r\n");
    for (;;) await connection.write(ENDLESS_PIECE); // until the receiver breaks it off
  });
  upstream.route("/closes", () => "close");
  upstream.route("/resets", async (_, connection) => {
    await connection.reset();
    return "close";
  });
  upstream.route("/garbage", async (_, connection) => {
    await connection.write("\x00\x01 no HTTP at all\r\n\r\n");
    return "close";
  });
  upstream.route("/long-head", async (_, connection) => {
    await connection.write(answer("ok", { fields: [`X-Long: ${"0".repeat(20_000)}`] }));
    return "close";
  });
  upstream.route("/short", async (_, connection) => {
    await connection.write(DECLARED);
    return "close";
  });
  upstream.route("/cut", async (_, connection) => {
    await connection.write(DECLARED);
    await connection.closeWrite();
    await connection.reset();
    return "close";
  });
  upstream.route("/bad-chunk", async (_, connection) => {
    await connection.write(`${CHUNKED}5\r\nhello\r\nZZ\r\n`);
    return "close";
  });
}

/** A request that is answered with `status`, and `code` in its body where there is one. */
function answered(
  name: string,
  target: string,
  status: number,
  options: Parameters<typeof requestOctets>[1] & { code?: string; body?: Uint8Array } = {},
): Ending {
  return {
    name,
    run: async (rig) => {
      const response = await rig.request(target, options);
      assert.equal(response.status, status, `${name}: ${text(response)}`);
      assert.equal(response.complete, true, name);
      if (options.code !== undefined) assert.equal(json(response)["code"], options.code, name);
    },
  };
}

let serial = 0;

/** A client that leaves in the middle of a message of its own. */
function leavesWithin(name: string, how: "FIN" | "RST", sent: string): Ending {
  return { name: `${name} (${how})`, run: (rig) => leave(rig, how, sent, () => {}) };
}

/** A client that asks for `path` and leaves: at once, or when something has happened. */
function leaves(
  name: string,
  how: "FIN" | "RST",
  path: string,
  when: "at once" | "the upstream has it" | { read: string },
): Ending {
  return {
    name: `${name} (${how})`,
    run: async (rig) => {
      const target = `${path}/${serial++}`;
      const from = rig.upstream.requests.length;
      await leave(rig, how, requestOctets(target), async (client) => {
        if (when === "the upstream has it") await rig.upstream.request(target, { from });
        else if (when !== "at once") await client.socket.readUntil(when.read);
      });
    },
  };
}

async function leave(
  rig: Rig,
  how: "FIN" | "RST",
  sent: Uint8Array | string,
  until: (client: RawClient) => unknown,
): Promise<void> {
  const client = await rig.connect();
  await client.send(sent);
  await until(client);
  await (how === "FIN" ? client.close() : client.socket.reset());
}

/** An answer that begins and then breaks off. */
function broken(name: string, target: string): Ending {
  return {
    name,
    run: async (rig) => {
      const response = await rig.request(target);
      // What comes with the head in one piece may be refused as a whole.
      if (response.status === 200) assert.equal(response.complete, false, name);
      else assert.equal(response.status, 502, `${name}: ${text(response)}`);
    },
  };
}

const bothWays = (make: (how: "FIN" | "RST") => Ending): Ending[] => [make("FIN"), make("RST")];

/** Every way to end that needs no change of the set-up. */
export const ENDINGS: readonly Ending[] = [
  answered("a whole exchange", "/plain", 200),
  answered("a large answer", "/large", 200),
  answered("a chunked answer", "/chunked", 200),
  answered("an answer without a body", "/empty", 204),
  answered("HEAD", "/plain", 200, { method: "HEAD" }),
  answered("a request with a body", "/plain", 200, { method: "POST", body: pattern(40_000) }),
  answered("a request that asks for close", "/plain", 200, { fields: ["Connection: close"] }),
  {
    name: "three exchanges on one connection, left with RST",
    run: async (rig) => {
      const client = await rig.connect();
      for (let i = 0; i < 3; i++) await client.exchange(requestOctets("/plain"));
      await client.socket.reset();
    },
  },
  ...bothWays((how) => leaves("left before the head", how, "/silent", "the upstream has it")),
  ...bothWays((how) => leaves("left as soon as sent", how, "/silent", "at once")),
  ...bothWays((how) => leaves("left in the body", how, "/begun", { read: "hello" })),
  ...bothWays((how) => leaves("left in an unread endless body", how, "/endless", { read: "\r\n" })),
  ...bothWays((how) => leavesWithin("left within its head", how, "GET /never HTTP/1.1\r\nHo")),
  ...bothWays((how) => leavesWithin("left within its body", how, HALF_A_BODY)),
  ...bothWays((how) => leavesWithin("left without a word", how, "")),
  answered("no head in time", "/silent", 504),
  answered("the upstream closes before a head", "/closes", 502, { code: "target_broken" }),
  answered("the upstream resets before a head", "/resets", 502, { code: "target_broken" }),
  answered("the upstream sends garbage", "/garbage", 502, { code: "target_broken" }),
  answered("the upstream's head is too large", "/long-head", 502, { code: "head_too_large" }),
  broken("the upstream closes in the body", "/short"),
  broken("the upstream resets in the body", "/cut"),
  broken("the upstream sends a bad chunk", "/bad-chunk"),
  answered("a body over the limit", "/plain", 413, { method: "POST", body: pattern(100_001) }),
  answered("a head over the limit", "/plain", 431, { fields: [`X: ${"0".repeat(17_000)}`] }),
  answered("a target over the limit", `/${"0".repeat(17_000)}`, 414),
  answered("no HTTP", "/bad target", 400),
  answered("proxy traffic", "http://127.0.0.1:1/", 404),
  answered("a local route", "/observability/ready", 200),
  {
    name: "a head that is not finished in time",
    run: async (rig) => {
      await using client = await RawClient.connect(rig.port);
      const response = await client.exchange("GET /never HTTP/1.1\r\nHo", { method: "GET" });
      assert.equal(response.status, 408);
    },
  },
];
