import { deepStrictEqual, match, strictEqual } from "node:assert/strict";
import { natsAddress } from "../../lib/config/addresses.ts";
import { effectiveSettings } from "../../lib/config/describe.ts";
import { loadConfig, type LoadInput, secretValues, SettingsError } from "../../lib/config/load.ts";

const NKEY = `SU${"B".repeat(56)}`;
const NOTHING: LoadInput = { flags: {}, env: {}, isTerminal: false, readFile: () => "port: 1" };
const ENABLED = { EMBEDDED_NATS_ENABLED: "true" };
const GENERATE = { ...ENABLED, EMBEDDED_NATS_GENERATE_CONFIG: "yes" };
const RECEIVER = { ...GENERATE, SERVICE_ROLE: "receiver" };
const REMOTE = { LEAF_REMOTE_HOST: "hub", LEAF_REMOTE_USER: "u", LEAF_REMOTE_PASSWORD: "p" };
const REQUESTER = { ...GENERATE, SERVICE_ROLE: "requester", ...REMOTE };

const load = (env: Record<string, string>, input: Partial<LoadInput> = {}) =>
  loadConfig({ ...NOTHING, env, ...input });

function linesOf(env: Record<string, string>, input: Partial<LoadInput> = {}): readonly string[] {
  try {
    load(env, input);
    return [];
  } catch (error) {
    if (error instanceof SettingsError) return error.lines;
    throw error;
  }
}

/** The mistakes, each by the names of settings in it. */
function namesOf(env: Record<string, string>, input: Partial<LoadInput> = {}): string[] {
  return linesOf(env, input).map((line) => (line.match(/[A-Z]+(_[A-Z]+)+/g) ?? []).join(" "));
}

Deno.test("an embedded server needs a configuration, given or generated, and the mistake names both", () => {
  const [line, ...more] = linesOf({ ...ENABLED, SERVICE_ROLE: "receiver" });
  deepStrictEqual(more, []);
  match(line ?? "", /EMBEDDED_NATS_CONFIG.*EMBEDDED_NATS_GENERATE_CONFIG/);
  deepStrictEqual(linesOf({ ...ENABLED, EMBEDDED_NATS_CONFIG: "/n.conf" }), []);
  deepStrictEqual(linesOf(RECEIVER), []);
  deepStrictEqual(linesOf(REQUESTER), []);
  // Off, nothing of it matters.
  deepStrictEqual(linesOf({ EMBEDDED_NATS_LEAF_USER: "u" }), []);
  deepStrictEqual(linesOf({ EMBEDDED_NATS_ENABLED: "True", EMBEDDED_NATS_CONFIG: "/n" }), []);
});

Deno.test("only the words of the container turn an embedded setting on", () => {
  for (const word of ["1", "true", "TRUE", "yes", "YES", "on", "ON"]) {
    strictEqual(
      load({ ...RECEIVER, EMBEDDED_NATS_ENABLED: word }).config.embeddedNatsEnabled,
      true,
    );
  }
  for (const word of ["0", "false", "True", "y", "enabled"]) {
    strictEqual(load({ EMBEDDED_NATS_ENABLED: word }).config.embeddedNatsEnabled, false);
  }
});

Deno.test("a generated configuration needs the role, and the command is as good as the variable", () => {
  deepStrictEqual(namesOf({ ...GENERATE, UPSTREAM_URL: "http://h" }), [
    "SERVICE_ROLE EMBEDDED_NATS_GENERATE_CONFIG",
  ]);
  deepStrictEqual(linesOf(GENERATE, { command: "receiver" }), []);
  deepStrictEqual(linesOf({ ...GENERATE, SERVICE_ROLE: "both" }).length, 1);
  // A given one may serve any role.
  deepStrictEqual(linesOf({ ...GENERATE, EMBEDDED_NATS_CONFIG: "/n.conf" }), []);
});

Deno.test("leaf credentials are both or neither, and the mistake names the missing one", () => {
  match(
    linesOf({ ...RECEIVER, EMBEDDED_NATS_LEAF_USER: "u" }).join(),
    /^EMBEDDED_NATS_LEAF_PASSWORD is not set, but EMBEDDED_NATS_LEAF_USER is: /,
  );
  match(
    linesOf({ ...RECEIVER, EMBEDDED_NATS_LEAF_PASSWORD: "secret1" }).join(),
    /^EMBEDDED_NATS_LEAF_USER is not set, but EMBEDDED_NATS_LEAF_PASSWORD is: /,
  );
});

Deno.test("a requester needs the receiver's host and one kind of credentials", () => {
  const bare = { ...GENERATE, SERVICE_ROLE: "requester" };
  const host = { ...bare, LEAF_REMOTE_HOST: "h" };
  deepStrictEqual(namesOf(bare), [
    "LEAF_REMOTE_HOST EMBEDDED_NATS_GENERATE_CONFIG",
    "LEAF_REMOTE_USER LEAF_REMOTE_PASSWORD LEAF_REMOTE_NKEY",
  ]);
  deepStrictEqual(namesOf({ ...host, LEAF_REMOTE_NKEY: NKEY }), []);
  deepStrictEqual(namesOf({ ...host, LEAF_REMOTE_USER: "u" }), [
    "LEAF_REMOTE_PASSWORD LEAF_REMOTE_USER",
  ]);
  deepStrictEqual(namesOf({ ...host, LEAF_REMOTE_PASSWORD: "p" }), [
    "LEAF_REMOTE_USER LEAF_REMOTE_PASSWORD",
  ]);
  deepStrictEqual(namesOf({ ...host, LEAF_REMOTE_NKEY: NKEY, LEAF_REMOTE_USER: "u" }), [
    "LEAF_REMOTE_NKEY LEAF_REMOTE_USER",
  ]);
  deepStrictEqual(namesOf({ ...REQUESTER, LEAF_REMOTE_NKEY: NKEY }), [
    "LEAF_REMOTE_NKEY LEAF_REMOTE_USER LEAF_REMOTE_PASSWORD",
  ]);
});

Deno.test("mistakes of the embedded server come in the order of the contract", () => {
  deepStrictEqual(
    namesOf({
      ...GENERATE,
      SERVICE_ROLE: "requester",
      EMBEDDED_NATS_LEAF_USER: "u",
      LEAF_REMOTE_NKEY: NKEY,
      LEAF_REMOTE_USER: "u",
    }),
    [
      "EMBEDDED_NATS_LEAF_PASSWORD EMBEDDED_NATS_LEAF_USER",
      "LEAF_REMOTE_HOST EMBEDDED_NATS_GENERATE_CONFIG",
      "LEAF_REMOTE_NKEY LEAF_REMOTE_USER",
    ],
  );
});

Deno.test("the demo brings its own server, so those settings are no mistakes there", () => {
  deepStrictEqual(linesOf(ENABLED, { command: "both" }), []);
});

Deno.test("a given configuration that cannot be read is a mistake, when it is to be used", () => {
  const readFile = () => {
    throw new Error("no such file");
  };
  const env = { EMBEDDED_NATS_CONFIG: "/none" };
  match(linesOf({ ...env, ...ENABLED }, { readFile }).join(), /^EMBEDDED_NATS_CONFIG "\/none": /);
  deepStrictEqual(linesOf(env, { readFile }), []);
});

Deno.test("JetStream of the embedded server is on for a receiver, unless the setting says otherwise", () => {
  const on = (env: Record<string, string>) => load(env).config.embeddedNatsJetstreamEnabled;
  strictEqual(on(RECEIVER), true);
  strictEqual(on(REQUESTER), false);
  strictEqual(on({ ...RECEIVER, EMBEDDED_NATS_JETSTREAM_ENABLED: "false" }), false);
  strictEqual(on({ ...REQUESTER, EMBEDDED_NATS_JETSTREAM_ENABLED: "on" }), true);
});

Deno.test("the API prefix is the given one, else that of the domain with the embedded server", () => {
  const prefix = (env: Record<string, string>) => load(env).config.natsJsApiPrefix;
  strictEqual(prefix({}), "$JS.API");
  strictEqual(prefix({ EMBEDDED_NATS_JS_DOMAIN: "hub" }), "$JS.API");
  strictEqual(prefix({ ...RECEIVER, EMBEDDED_NATS_JS_DOMAIN: "hub" }), "$JS.hub.API");
  strictEqual(
    prefix({ ...RECEIVER, EMBEDDED_NATS_JS_DOMAIN: "hub", NATS_JS_API_PREFIX: "JS.PROXY.API.." }),
    "JS.PROXY.API",
  );
  for (const text of ["...", "a b", "a.*", ".a"]) {
    match(linesOf({ NATS_JS_API_PREFIX: text }).join(), /^NATS_JS_API_PREFIX /);
  }
});

Deno.test("NATS_URL is the embedded server's address when that runs and no other is given", () => {
  const env = { ...RECEIVER, EMBEDDED_NATS_LISTEN: "0.0.0.0:4333" };
  const { config, sources } = load(env);
  deepStrictEqual(config.natsUrls, [{ ...natsAddress("127.0.0.1", 4333), embedded: true }]);
  strictEqual(sources.natsUrls, "derived");
  const given = load({ ...env, NATS_URL: "nats://other" }).config.natsUrls;
  deepStrictEqual(given, [natsAddress("other", 4222)]);
});

Deno.test("NATS_MODE takes its three words in any case", () => {
  for (const mode of ["core", "jetstream", "auto"]) {
    strictEqual(load({ NATS_MODE: mode.toUpperCase() }).config.natsMode, mode);
  }
});

Deno.test("limits of the stream have a size and an age", () => {
  const { config } = load({
    ...RECEIVER,
    STREAM_MAX_AGE: "60",
    STREAM_MAX_BYTES: "1000000",
    STREAM_REPLICAS: "3",
    STREAM_STORAGE: "memory",
    NATS_STREAM: "orders",
  });
  deepStrictEqual(
    [config.streamMaxAgeMs, config.streamMaxBytes, config.streamReplicas, config.streamStorage],
    [60_000, 1_000_000, 3, "memory"],
  );
  strictEqual(config.natsStream, "orders");
  deepStrictEqual(
    namesOf({
      STREAM_MAX_AGE: "0",
      STREAM_MAX_BYTES: "0",
      STREAM_REPLICAS: "6",
      STREAM_STORAGE: "disk",
      NATS_STREAM: "a.b",
    }),
    ["NATS_STREAM", "STREAM_MAX_AGE", "STREAM_MAX_BYTES", "STREAM_REPLICAS", "STREAM_STORAGE"],
  );
});

Deno.test("F63: leaf passwords and seeds are secrets, also from a file, and as a URL has them", () => {
  const loaded = load({
    ...REQUESTER,
    LEAF_REMOTE_PASSWORD: "",
    LEAF_REMOTE_PASSWORD_FILE: "/p",
    EMBEDDED_NATS_LEAF_USER: "u",
    EMBEDDED_NATS_LEAF_PASSWORD: "leafpw",
  }, { readFile: () => "p@ss word\n" });
  deepStrictEqual(secretValues(loaded.config).toSorted(), ["leafpw", "p%40ss%20word", "p@ss word"]);
  const shown = JSON.stringify(effectiveSettings(loaded));
  for (const secret of ["leafpw", "p@ss word"]) strictEqual(shown.includes(secret), false);
  const refused = linesOf({ ...REQUESTER, LEAF_REMOTE_NKEY: "hunter2" }).join("\n");
  match(refused, /LEAF_REMOTE_NKEY \(value not shown\)/);
  strictEqual(refused.includes("hunter2"), false);
});
