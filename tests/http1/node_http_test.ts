/**
 * node:http through its public interface, over loopback, as the oracle: its server for requests, its
 * client for responses. It also shows that the parser that `llhttp.ts` calls is the one of node:http.
 * @module
 */

import assert from "node:assert/strict";
import process from "node:process";
import { latin1 } from "../../lib/http1/encode.ts";
import { fuzzSlowly } from "../helpers/unit_fuzz.ts";
import { requireAlike, showInput } from "./compare.ts";
import { everySample } from "./inputs.ts";
import { HTTPParser, readWithLlhttp, UNNAMED } from "./llhttp.ts";
import { mutateMessage } from "./mutate.ts";
import { NodeClient, NodeServer } from "./node_http.ts";
import { everyOctet, type Heard, type Input, type Reading, type Side } from "./reading.ts";

/** What the public interface lets see. */
interface View {
  readonly messages: unknown[];
  readonly open: unknown;
  readonly refused: boolean;
}

Deno.test("node:http is llhttp here", async () => {
  assert.match(process.versions["llhttp"] ?? "", /^9\./);
  await using server = await NodeServer.start();
  await using client = await NodeClient.start();
  const request: Input = {
    side: "request",
    bytes: latin1("GET / HTTP/1.1\r\nHost: a\r\n\r\n"),
  };
  const response: Input = {
    side: "response",
    bytes: latin1("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
  };
  for (const { parsers } of [await server.read(request), await client.read(response)]) {
    assert.equal(parsers.length, 1);
    assert.ok(parsers[0] instanceof HTTPParser, "node:http has another parser");
  }
});

for (const side of ["request", "response"] as const) {
  const partner = side === "request" ? "server" : "client";

  Deno.test(`A ${side} is read as the node:http ${partner} reads it, whole and octet by octet`, async () => {
    await using node = await startNode(side);
    for (const { text } of everySample(side)) {
      const bytes = latin1(text);
      for (const cuts of [[], everyOctet(bytes)]) {
        await requireAsNode(node, { side, bytes, cuts });
      }
    }
  });

  Deno.test(`A mutated ${side} is read as the node:http ${partner} reads it`, async () => {
    await using node = await startNode(side);
    const samples = everySample(side);
    await fuzzSlowly(side === "request" ? 8_000_003 : 9_000_003, 20, async (random) => {
      const text = mutateMessage(random.pick(samples).text, random, samples);
      const requestMethod = side === "request" ? "GET" : random.pick(["GET", "GET", "HEAD"]);
      const bytes = latin1(text);
      const cut = random.below(bytes.length + 1);
      await requireAsNode(node, { side, bytes, requestMethod, cuts: random.pick([[], [cut]]) });
    });
  });
}

/** node:http reads as its parser does when called alone; natsway reads as both, or as the table says. */
async function requireAsNode(node: NodeServer | NodeClient, input: Input): Promise<void> {
  const reading = await node.read(input);
  const alone = readWithLlhttp(input);
  requireAlike(input, alone);
  const heads = alone.open === null ? alone.messages : [...alone.messages, alone.open];
  const refusedAt = input.side === "response" ? -1 : heads.findIndex(isWithoutHost);
  if (refusedAt < 0) {
    const seen = viewOf(input.side, reading);
    const expected = viewOf(input.side, alone);
    // Of such an error the server tells nobody; and who closes behind an interim answer leaves the client
    // without the final one.
    const isInterimLast = alone.end === "clean" &&
      /^1(?!01)\d\d$/.test(alone.messages.at(-1)?.start[0] ?? "");
    if (alone.fault.startsWith(UNNAMED) || isInterimLast) {
      assert.deepEqual(seen.messages, expected.messages, showInput(input));
    } else {
      assert.deepEqual(seen, expected, showInput(input));
    }
    return;
  }
  // The server's own rule above its parser, and natsway's as well: such a request is not handed out.
  assert.ok(!reading.messages.some(isWithoutHost), showInput(input));
  const before = (messages: readonly Heard[]) => messages.slice(0, refusedAt).map(shown);
  assert.deepEqual(before(reading.messages), before(alone.messages), showInput(input));
}

/** The server hands a CONNECT over as it is. */
function isWithoutHost({ start, version, fields }: Heard): boolean {
  return version === "1.1" && start[0] !== "CONNECT" &&
    !fields.some(([name]) => name.toLowerCase() === "host");
}

function startNode(side: Side): Promise<NodeServer | NodeClient> {
  return side === "request" ? NodeServer.start() : NodeClient.start();
}

/**
 * The server tells whether the connection goes on, and reads on behind a request for an upgrade that it
 * does not serve; the client takes one final response. A head that does not end is no event at all.
 */
function viewOf(side: Side, reading: Reading): View {
  const messages: unknown[] = [];
  for (const message of reading.messages) {
    messages.push(shown(message));
    const isLast = side === "request" ? message.leavesHttp : !/^1\d\d$/.test(message.start[0]);
    if (isLast) return { messages, open: null, refused: false };
  }
  const open = reading.open === null ? null : shown(reading.open);
  return { messages, open, refused: reading.end === "refused" };
}

function shown({ start, version, fields, body, trailers }: Heard): unknown {
  return { start, version, fields, body, trailers };
}
