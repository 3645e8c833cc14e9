import assert from "node:assert/strict";
import { type Claim, encodeClaim, givesWay } from "../../lib/transport/presence_messages.ts";
import { jsonOf, NatsClient, type NatsMessage } from "../helpers/nats_client.ts";
import { freePort, type NatsServer, startNats } from "../helpers/nats_server.ts";
import { EventLog, pause, within } from "../helpers/wait.ts";
import { Member, type MemberOptions, STARTED_MS } from "./presence_member.ts";
import { restartUnder, TestLink } from "./support.ts";

const ID = { serviceId: "edge" };
const QUESTION = "$SRV.INFO.natsway";

function check(member: Member, windowMs?: number): ReturnType<Member["presence"]["checkUnique"]> {
  return within(member.presence.checkUnique(windowMs), 15_000, `the check of ${member.instance}`);
}

/** A member that has its SERVICE_ID. */
async function checked(
  server: NatsServer,
  instance: string,
  options: MemberOptions = {},
): Promise<Member> {
  const member = await Member.start(server.url, instance, { ...ID, ...options });
  assert.equal(await check(member), null);
  return member;
}

/** What a process that is no natsway of this version hears and says. */
class Peer implements AsyncDisposable {
  constructor(readonly client: NatsClient, readonly questions: EventLog<NatsMessage>) {}

  static async start(server: NatsServer): Promise<Peer> {
    const client = await NatsClient.connect(server.port);
    return new Peer(client, await client.subscribe(QUESTION));
  }

  /** The next question of a natsway with that instance. */
  question(instance: string, from = 0): Promise<NatsMessage> {
    const own = `"instance":"${instance}"`;
    return this.questions.find((message) => new TextDecoder().decode(message.data).includes(own), {
      ms: 10_000,
      what: `a question of ${instance}`,
      from,
    });
  }

  /** Answers in the form of ADR-32, without a claim. */
  answer(question: NatsMessage, serviceId: string, more: Record<string, unknown> = {}) {
    const metadata = { role: "requester", service_id: serviceId, host: "far\nhost" };
    const info = { name: "natsway", id: "peer", version: "9.0.0", metadata, ...more };
    return this.client.publish(question.reply, JSON.stringify(info));
  }

  /** Asks with a claim until the answer is of a settled one, and returns how often it asked. */
  async untilSettled(claim: Claim): Promise<number> {
    const answers = await this.client.subscribe("_INBOX.settled");
    for (let asked = 1;; asked++) {
      await this.client.publish(QUESTION, encodeClaim(claim), { reply: "_INBOX.settled" });
      const answer = await answers.find(() => true, {
        ms: 5_000,
        what: "an answer with a claim",
        from: asked - 1,
      });
      const answered = jsonOf(answer)["natsway"] as Record<string, unknown>;
      assert.equal(answered["service_id"], claim.serviceId);
      if (answered["settled"] === true) return asked;
      await pause(50);
    }
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.client[Symbol.asyncDispose]();
  }
}

function claim(changes: Partial<Claim> = {}): Claim {
  const identity = { role: "receiver", serviceId: "edge", instance: "c", host: "machine" };
  return { ...identity, startedAtMs: STARTED_MS, settled: false, ...changes };
}

Deno.test("the later of two with one SERVICE_ID gives way, whatever their roles; others do not", async () => {
  await using server = await startNats();
  await using first = await checked(server, "first");
  await using _other = await checked(server, "other", { serviceId: "other" });
  const late = { ...ID, role: "requester", startedAtMs: STARTED_MS + 1 } as const;
  await using second = await Member.start(server.url, "second", late);
  assert.deepEqual(await check(second), {
    role: "receiver",
    serviceId: "edge",
    instance: "first",
    host: "machine",
    startedAtMs: STARTED_MS,
    settled: false,
  });
  assert.deepEqual(first.duplicates.events, []);
  // The one that gave way is silent.
  second.presence.ping("first");
  first.presence.ping("second");
  await using third = await Member.start(server.url, "third", { serviceId: "third" });
  third.presence.ping("first");
  await third.pongs.find(() => true, { ms: 5_000, what: "a pong of the first" });
  await Promise.all([first.on.link.flush(), second.on.link.flush()]);
  assert.deepEqual([first.pongs.events, second.pongs.events], [[], []]);
});

for (const apartMs of [0, 1]) {
  Deno.test(`of two that start together, ${apartMs} ms apart, exactly one survives`, async () => {
    await using server = await startNats();
    for (let round = 0; round < 10; round++) {
      await using a = new Member(new TestLink(server.url), `a${round}`, ID);
      const startedAtMs = STARTED_MS - apartMs;
      await using b = new Member(new TestLink(server.url), `b${round}`, { ...ID, startedAtMs });
      a.presence.start();
      b.presence.start();
      const [ofA, ofB] = await Promise.all([check(a), check(b)]);
      const [survivor, other] = apartMs === 0 ? [ofA, ofB] : [ofB, ofA];
      assert.equal(survivor, null, `round ${round}`);
      assert.equal(other?.serviceId, "edge", `round ${round}`);
      assert.deepEqual([...a.duplicates.events, ...b.duplicates.events], []);
    }
  });
}

Deno.test("of eight that start together one survives", async () => {
  await using server = await startNats();
  await using stack = new AsyncDisposableStack();
  const members = Array.from({ length: 8 }, (_, i) => {
    return stack.use(new Member(new TestLink(server.url), `m${i}`, ID));
  });
  for (const member of members) member.presence.start();
  const results = await Promise.all(members.map((member) => check(member)));
  assert.deepEqual(results.map((result) => result === null), members.map((_, i) => i === 0));
});

Deno.test("a SERVICE_ID is free once its process drains, or has stopped", async () => {
  await using server = await startNats();
  await using first = await checked(server, "first");
  first.presence.drain();
  await first.on.link.flush();
  await using second = await checked(server, "second", { startedAtMs: STARTED_MS + 1 });
  second.presence.stop();
  await second.on.link.flush();
  await using _third = await checked(server, "third", { startedAtMs: STARTED_MS + 2 });
});

Deno.test("an answer after the window counts, and the process falls silent", async () => {
  await using server = await startNats();
  await using peer = await Peer.start(server);
  await using member = await Member.start(server.url, "one", ID);
  const result = check(member, 50);
  const question = await peer.question("one");
  assert.deepEqual(jsonOf(question)["natsway"], {
    role: "receiver",
    service_id: "edge",
    instance: "one",
    host: "machine",
    started_ms: STARTED_MS,
    settled: false,
  });
  assert.equal(await result, null);
  await peer.answer(question, "edge");
  const found = await member.duplicates.find(() => true, { ms: 2_000, what: "the duplicate" });
  assert.deepEqual([found.role, found.instance, found.host], ["requester", "peer", "far?host"]);
  await member.on.link.flush();
  const inbox = await peer.client.subscribe("_INBOX.ping");
  await peer.client.publish("$SRV.PING.natsway.one", "", { reply: "_INBOX.ping" });
  const { headers } = await inbox.find(() => true, { ms: 5_000, what: "the server's answer" });
  assert.match(headers, /^NATS\/1\.0 503/);
});

Deno.test("the question of one that started earlier counts like an answer", async () => {
  await using server = await startNats();
  await using peer = await Peer.start(server);
  await using member = await checked(server, "one");
  await peer.client.publish(QUESTION, encodeClaim(claim({ startedAtMs: STARTED_MS + 1 })));
  await peer.client.publish(QUESTION, encodeClaim(claim({ serviceId: "other", startedAtMs: 1 })));
  await peer.client.publish(QUESTION, encodeClaim(claim({ instance: "d", startedAtMs: 1 })));
  const found = await member.duplicates.find(() => true, { ms: 2_000, what: "the duplicate" });
  assert.equal(found.instance, "d");
});

Deno.test("answers of other services, other ids and of nobody do not count", async () => {
  await using server = await startNats();
  await using peer = await Peer.start(server);
  await using member = await Member.start(server.url, "one", ID);
  const result = check(member);
  const question = await peer.question("one");
  await peer.answer(question, "other");
  await peer.answer(question, "edge", { name: "else" });
  await peer.answer(question, "edge", { id: "one" });
  await peer.answer(question, "edge", { id: "no token" });
  await peer.answer(question, "edge", { metadata: null });
  for (const data of ["", "{", "null", "[]", '{"natsway":7}', `"${"x".repeat(100_000)}"`]) {
    await peer.client.publish(question.reply, data);
    await peer.client.publish(QUESTION, data, { reply: "_INBOX.none" });
  }
  assert.equal(await result, null);
  assert.deepEqual(member.duplicates.events, []);
});

Deno.test("who has the SERVICE_ID for three seconds stays, though a newcomer's clock is behind", async () => {
  await using server = await startNats();
  await using peer = await Peer.start(server);
  await using first = await checked(server, "first");
  assert.ok(await peer.untilSettled(claim({ startedAtMs: STARTED_MS + 1 })) > 1);
  await using second = await Member.start(server.url, "second", { ...ID, startedAtMs: 1 });
  assert.equal((await check(second))?.instance, "first");
  await first.on.logger.lines.find(
    (line) => line.level === "warning" && line.fields["rival"] === "second",
    { ms: 5_000, what: "a line about the newcomer" },
  );
  // Two that could not hear each other for long: neither gives way, and the log says so.
  await peer.client.publish(QUESTION, encodeClaim(claim({ instance: "d", settled: true })));
  await first.on.logger.lines.find(
    (line) => line.level === "error" && line.fields["rival"] === "d",
    { ms: 5_000, what: "a line about the other one" },
  );
  assert.deepEqual(first.duplicates.events, []);
  // Who started during an outage could not hear it: it asks again after each.
  const from = peer.questions.events.length;
  const changes = first.on.changes.events.length;
  void first.on.link.connection.close();
  await first.on.changes.find((up) => up, { ms: 10_000, what: "a new client", from: changes });
  const again = jsonOf(await peer.question("first", from))["natsway"] as Record<string, unknown>;
  assert.equal(again["settled"], true);
});

Deno.test("the check waits for the first connection, and a stop ends it", async () => {
  const port = freePort();
  await using link = new TestLink(`nats://127.0.0.1:${port}`);
  await using waiting = new Member(link, "one", ID);
  waiting.presence.start();
  const result = check(waiting);
  await using never = new Member(new TestLink(`nats://127.0.0.1:${freePort()}`), "two", ID);
  never.presence.start();
  const stopped = check(never);
  never.presence.stop();
  assert.equal(await stopped, null);
  await using server = await startNats({ port });
  await using peer = await Peer.start(server);
  await peer.answer(await peer.question("one"), "edge");
  assert.equal((await result)?.instance, "peer");
});

Deno.test("a connection that ends within the window is asked on again", async () => {
  await using server = await startNats();
  await using member = await Member.start(server.url, "one", ID);
  let over = false;
  const result = check(member, 3_000).then((duplicate) => {
    over = true;
    return duplicate;
  });
  {
    await using peer = await Peer.start(server);
    await peer.question("one");
  }
  await restartUnder(server, member.on);
  assert.equal(over, false);
  await using peer = await Peer.start(server);
  await peer.answer(await peer.question("one"), "edge");
  assert.equal((await result)?.instance, "peer");
});

Deno.test("exactly one of two claims gives way, and a settled one never to one that is not", () => {
  const claims = [false, true].flatMap((settled) =>
    [1, 2].flatMap((startedAtMs) =>
      ["a", "b"].map((instance) => claim({ settled, startedAtMs, instance }))
    )
  );
  for (const one of claims) {
    for (const other of claims) {
      if (one === other || one.instance === other.instance) continue;
      assert.notEqual(givesWay(one, other), givesWay(other, one));
      if (one.settled && !other.settled) assert.equal(givesWay(one, other), false);
    }
  }
});
