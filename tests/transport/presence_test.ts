import assert from "node:assert/strict";
import { StartError } from "../../lib/errors.ts";
import { duplicateError } from "../../lib/transport/presence.ts";
import { jsonOf, NatsClient, type NatsMessage } from "../helpers/nats_client.ts";
import { type NatsServer, startNats } from "../helpers/nats_server.ts";
import { within } from "../helpers/wait.ts";
import { Member, STARTED_MS, VERSION } from "./presence_member.ts";
import { restartUnder, startLink } from "./support.ts";

const SUBJECTS = (verb: string, instance: string) => [
  `$SRV.${verb}`,
  `$SRV.${verb}.natsway`,
  `$SRV.${verb}.natsway.${instance}`,
];

/** Asks on `subject` and returns the answers, which have come when those to the last question have. */
async function ask(client: NatsClient, subject: string, data = ""): Promise<NatsMessage[]> {
  const inbox = `_INBOX.test.${crypto.randomUUID()}`;
  const answers = await client.subscribe(inbox);
  await client.publish(subject, data, { reply: inbox });
  await answers.find(() => true, { ms: 5_000, what: `an answer to ${subject}` });
  return answers.events;
}

/** Whether nobody listens on `subject`: the server itself answers then. */
async function isSilent(client: NatsClient, subject: string): Promise<boolean> {
  const [answer] = await ask(client, subject);
  return answer?.headers.startsWith("NATS/1.0 503") === true;
}

/** A restart of the server, until it has the subscriptions of all again. */
async function restart(server: NatsServer, ...members: Member[]): Promise<void> {
  await restartUnder(server, ...members.map((member) => member.on));
  await Promise.all(members.map((member) => member.on.link.flush()));
}

function natsClient(server: NatsServer): Promise<NatsClient> {
  return NatsClient.connect(server.port);
}

Deno.test("each verb is answered to all, by name and by instance, in the form of ADR-32", async () => {
  await using server = await startNats();
  await using _member = await Member.start(server.url, "one", { serviceId: "worker-1" });
  await using client = await natsClient(server);
  const standard = {
    name: "natsway",
    id: "one",
    version: VERSION,
    metadata: {
      role: "receiver",
      service_id: "worker-1",
      host: "machine",
      started: "2026-06-02T08:15:30.000Z",
    },
  };
  const endpoint = { name: "requests", subject: "to.proxy.requests.>", queue_group: "pool" };
  const expected: Record<string, Record<string, unknown>> = {
    PING: { type: "io.nats.micro.v1.ping_response", ...standard },
    INFO: {
      type: "io.nats.micro.v1.info_response",
      ...standard,
      description: "HTTP and TCP over NATS: receiver",
      endpoints: [{ ...endpoint, metadata: {} }],
    },
    STATS: {
      type: "io.nats.micro.v1.stats_response",
      ...standard,
      started: "2026-06-02T08:15:30.000Z",
      endpoints: [{
        ...endpoint,
        num_requests: 8,
        num_errors: 2,
        last_error: "",
        processing_time: 4_000_000,
        average_processing_time: 500_000,
        data: { flows: 3, max_flows: 100 },
      }],
    },
  };
  for (const verb of ["PING", "INFO", "STATS"]) {
    for (const subject of SUBJECTS(verb, "one")) {
      const [answer] = await ask(client, subject);
      assert.deepEqual(jsonOf(answer as NatsMessage), expected[verb], subject);
    }
  }
});

Deno.test("every process answers, not one of a group", async () => {
  await using server = await startNats();
  await using _one = await Member.start(server.url, "one");
  await using _two = await Member.start(server.url, "two");
  await using client = await natsClient(server);
  const inbox = await client.subscribe("_INBOX.list");
  await client.publish("$SRV.PING.natsway", "", { reply: "_INBOX.list" });
  const ids = ["one", "two"].map((id) =>
    inbox.find((message) => jsonOf(message)["id"] === id, { ms: 5_000, what: `PING of ${id}` })
  );
  await Promise.all(ids);
});

Deno.test("nothing is published to a system subject, and without a reply nothing at all", async () => {
  await using server = await startNats();
  await using member = await Member.start(server.url, "one");
  await using client = await natsClient(server);
  const system = await client.subscribe("$JS.>");
  await client.publish("$SRV.PING.natsway", "", { reply: "$JS.API.STREAM.DELETE.x" });
  await client.publish("$SRV.PING.natsway", "");
  await client.publish("$SRV.INFO.natsway", "{", { reply: "a..b" });
  assert.equal((await ask(client, "$SRV.PING.natsway.one")).length, 1);
  await client.flush();
  assert.deepEqual(system.events, []);
  assert.deepEqual(member.on.logger.of("error"), []);
});

Deno.test("a ping of an instance is answered, one of nobody is not", async () => {
  await using server = await startNats();
  await using one = await Member.start(server.url, "one");
  await using _two = await Member.start(server.url, "two");
  one.presence.ping("nobody");
  one.presence.ping("not.. a token");
  one.presence.ping("two");
  await one.pongs.find(() => true, { ms: 5_000, what: "the pong" });
  one.presence.ping("two");
  await one.pongs.find(() => true, { ms: 5_000, what: "the second pong", from: 1 });
  assert.deepEqual(one.pongs.events, ["two", "two"]);
});

Deno.test("a draining process is off the lists and answers pings; a stopped one is silent", async () => {
  await using server = await startNats();
  await using one = await Member.start(server.url, "one");
  await using two = await Member.start(server.url, "two");
  await using client = await natsClient(server);
  one.presence.drain();
  await one.on.link.flush();
  for (const verb of ["PING", "INFO", "STATS"]) {
    for (const subject of SUBJECTS(verb, "one").slice(0, 2)) {
      const answers = await ask(client, subject);
      assert.deepEqual(answers.map((answer) => jsonOf(answer)["id"]), ["two"], subject);
    }
  }
  assert.ok(await isSilent(client, "$SRV.INFO.natsway.one"));
  two.presence.ping("one");
  await two.pongs.find((from) => from === "one", { ms: 5_000, what: "the pong while draining" });
  one.presence.ping("two");
  await one.pongs.find((from) => from === "two", { ms: 5_000, what: "a pong for the draining" });
  await restart(server, one, two);
  await using again = await natsClient(server);
  assert.ok(await isSilent(again, "$SRV.INFO.natsway.one"), "still off after a reconnect");
  assert.equal((await ask(again, "$SRV.PING.natsway.one")).length, 1);
  one.presence.stop();
  await one.on.link.flush();
  assert.ok(await isSilent(again, "$SRV.PING.natsway.one"));
});

Deno.test("answers and pings go on after a restart of the server, also with a new client", async () => {
  await using server = await startNats();
  await using one = await Member.start(server.url, "one");
  await using two = await Member.start(server.url, "two");
  await restart(server, one, two);
  one.presence.ping("two");
  await one.pongs.find(() => true, { ms: 5_000, what: "a pong after the restart" });
  // A client that closes by itself is replaced by another one.
  const before = two.on.link.connection;
  const changes = two.on.changes.events.length;
  void before.close();
  await two.on.changes.find((up) => up, { ms: 10_000, what: "a new client", from: changes });
  assert.notEqual(two.on.link.connection, before);
  await two.on.link.flush();
  one.presence.ping("two");
  await one.pongs.find(() => true, { ms: 5_000, what: "a pong of the new client", from: 1 });
  two.presence.ping("one");
  await two.pongs.find(() => true, { ms: 5_000, what: "a pong for the new client" });
});

const USERS = (permissions: string) =>
  `authorization { users = [ { user: u, password: p, permissions: ${permissions} } ] }`;

for (
  const [what, permissions] of [
    ["$SRV", `{ publish: { deny: "$SRV.>" }, subscribe: { deny: "$SRV.>" } }`],
    ["_INBOX", `{ subscribe: { deny: "_INBOX.>" } }`],
    ["questions", `{ publish: { deny: "$SRV.>" } }`],
  ] as const
) {
  Deno.test(`without permission for ${what} the link serves on, and one line says so`, async () => {
    await using server = await startNats({ config: USERS(permissions) });
    const link = await startLink(server.url.replace("//", "//u:p@"));
    await using member = new Member(link, "one");
    member.presence.start();
    const checked = within(member.presence.checkUnique(), 5_000, "the end of the check");
    assert.equal(await checked, null);
    member.presence.ping("two");
    await link.link.flush();
    member.presence.ping("two");
    await link.link.flush();
    const lines = link.logger.lines.events.filter((line) => line.message.startsWith("presence"));
    assert.deepEqual(lines.map((line) => line.level), ["info"]);
    assert.deepEqual(link.link.status().planesDenied, []);
    assert.equal(link.link.connected, true);
  });
}

Deno.test("a permission that comes with a restart of the server turns presence on", async () => {
  await using server = await startNats({ config: USERS(`{ subscribe: { deny: "$SRV.>" } }`) });
  const link = await startLink(server.url.replace("//", "//u:p@"));
  await using member = new Member(link, "one");
  member.presence.start();
  await link.link.flush();
  server.configure(USERS('{ publish: ">", subscribe: ">" }'));
  await restart(server, member);
  await using other = new Member(await startLink(server.url.replace("//", "//u:p@")), "two");
  other.presence.start();
  await link.link.flush();
  other.presence.ping("one");
  await other.pongs.find(() => true, { ms: 5_000, what: "a pong of the one that may answer now" });
});

Deno.test("the error of a duplicate names both and is one line", () => {
  const error = duplicateError({ role: "requester", serviceId: "edge", instance: "me" }, {
    role: "receiver",
    serviceId: "edge",
    instance: "other",
    host: "far",
    startedAtMs: STARTED_MS,
  });
  assert.ok(error instanceof StartError);
  assert.match(
    error.message,
    /^SERVICE_ID edge .*requester \(instance me .*receiver \(instance other on far.*own SERVICE_ID$/,
  );
});
