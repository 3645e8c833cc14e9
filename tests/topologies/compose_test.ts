import assert from "node:assert/strict";
import type { Settings } from "../helpers/natsway.ts";
import { openExample, readDeploy } from "./example.ts";

const EXAMPLES = ["leaf", "leaf-domain", "cluster", "accounts", "pool"];
/** Set where all processes are on one machine; a container has the defaults. */
const OF_ONE_MACHINE = [
  "PORT",
  "LISTEN_HOST",
  "EMBEDDED_NATS_LISTEN",
  "EMBEDDED_NATS_GENERATED_CONFIG_PATH",
  "EMBEDDED_NATS_JETSTREAM_STORE_DIR",
  "EMBEDDED_NATS_LEAF_LISTEN_HOST",
  "EMBEDDED_NATS_LEAF_LISTEN_PORT",
  "LEAF_REMOTE_PORT",
];

/** The environment of each service, from the part of YAML that the examples use. */
function environments(compose: string): Map<string, Settings> {
  const found = new Map<string, Settings>();
  const [, services = ""] = /^services:\n([^]*?)(?=^\S|$(?![^]))/m.exec(compose) ?? [];
  for (const part of services.split(/^ {2}(?=[\w-]+:$)/m)) {
    const name = /^([\w-]+):\n/.exec(part)?.[1];
    const [, lines] = /^ {4}environment:\n((?: {6}.*\n)+)/m.exec(part) ?? [];
    if (name === undefined || lines === undefined) continue;
    const rows = [...lines.matchAll(/^ {6}(\w+): (?:"(.*)"|(.*))$/gm)];
    const entries = rows.map(([, key = "", quoted, bare = ""]) =>
      [key, (quoted ?? bare).replaceAll("$$", "$")] as const
    );
    found.set(name, Object.fromEntries(entries));
  }
  return found;
}

/** Without what differs between one machine and containers: hosts and ports. */
function comparable(settings: Settings): Settings {
  const kept = Object.entries(settings).filter(([key]) => !OF_ONE_MACHINE.includes(key));
  const placed = ["NATS_URL", "UPSTREAM_URL", "TARGET_ALLOW", "LEAF_REMOTE_HOST"];
  return Object.fromEntries(
    kept.map(([key, value]) => [key, placed.includes(key) ? "(a place)" : value]),
  );
}

for (const name of EXAMPLES) {
  Deno.test(`the compose file of ${name} has the settings of its plain commands`, async () => {
    await using example = await openExample(name, new Map());
    const services = environments(readDeploy(`${name}/compose.yaml`));
    const commands = (await example.commands("Plain commands"))
      .filter(({ program }) => program === "natsway");
    assert.ok(commands.length >= 2);
    assert.deepEqual([...services.keys()], commands.map((command) => command.name));
    for (const command of commands) {
      assert.deepEqual(
        comparable(services.get(command.name) ?? {}),
        comparable(command.settings),
        command.name,
      );
    }
  });
}

Deno.test("every folder of deploy/ is tested and stands in its README", () => {
  const readme = readDeploy("README.md");
  const folders = [...Deno.readDirSync(new URL("../../deploy/", import.meta.url))]
    .filter((entry) => entry.isDirectory).map((entry) => entry.name);
  assert.deepEqual(folders.sort(), EXAMPLES.toSorted());
  for (const folder of folders) assert.ok(readme.includes(`[${folder}](${folder})`), folder);
});
