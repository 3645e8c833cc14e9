/**
 * docs/configuration.md, written from the table.
 * @module
 */
import { defaultText, EXIT_CODES, rows } from "./describe.ts";
import { NOT_SERVED } from "./names.ts";
import { flagsOf, GROUPS, type Setting } from "./settings.ts";

/** The whole text of docs/configuration.md. */
export function configurationMarkdown(): string {
  return `${
    [
      introduction(),
      ...GROUPS.map(groupSection),
      EMBEDDED,
      TARGETS,
      notServed(),
      ERRORS,
      exitCodes(),
    ].join("\n\n")
  }\n`;
}

function introduction(): string {
  return `<!-- Written by tools/generate_docs.ts from lib/config/settings.ts. Do not edit. -->

# Configuration

Every setting is an environment variable and a flag of the same name: lower case, \`-\` for \`_\`.
\`NATS_URL=nats://a:4222\` and \`--nats-url nats://a:4222\` say the same. A switch may stand alone on the
command line: \`--embedded-nats-enabled\`.

Precedence, highest first:

1. the flag; a flag that is given twice counts as given last, but ${addingFlags()} add up;
2. the environment;
3. the file that \`--env-file FILE\` names: \`NAME=value\` lines, \`#\` for remarks, quotes as in a shell,
   nothing is expanded. No file is read unless the flag is given;
4. the default.

Empty means unset, everywhere. The commands \`natsway requester\` and \`natsway receiver\` set the role as
a flag would. \`natsway settings\` prints every value and where it came from (\`--json\` for machines).

Flags can be seen in the process list. Give secrets through the environment, or let \`…_FILE\` name a
file that holds the secret: one line feed at its end does not count. natsway shows a secret only as
set or unset, and a URL without its user part.

Times are in seconds and may have decimals. Sizes are in bytes.`;
}

/** The flags that may be given several times. */
function addingFlags(): string {
  const flags = rows().filter((row) => row.kind.repeatable).map((row) =>
    `\`--${flagsOf(row)[0]}\``
  );
  return `${flags.slice(0, -1).join(", ")} and ${flags.at(-1)}`;
}

const EMBEDDED = `## How the embedded nats-server runs

EMBEDDED_NATS_ENABLED alone is a mistake, as it is for nats-proxy: EMBEDDED_NATS_CONFIG names a
configuration, which goes first, or EMBEDDED_NATS_GENERATE_CONFIG has one written. A generated one has a
client listener without users on EMBEDDED_NATS_LISTEN, JetStream where it is asked for, a leafnode
listener with user and password, and a requester's connection to LEAF_REMOTE_HOST. Values are escaped,
and the file is for this user alone. With a given one natsway asks the server for its client port;
NATS_URL says it where the server wants TLS, and the NATS settings hold the credentials.

The server's log lines are part of natsway's, with \`component\` \`nats-server\`. It ends with natsway,
however that ends. A server that dies is started again; at the sixth end within a minute natsway exits with
3, and so it does when the server cannot start at all: an address is in use, or the store cannot be used
or has another server of natsway on it.

A receiver with NATS_MODE=jetstream and EMBEDDED_NATS_ENABLED makes the stream NATS_STREAM: subjects
\`<request root>.>\` and \`<response root>.>\`, the oldest messages go first, limits by STREAM_\*. If there
is one, changed limits are set, and a start with other subjects, or with a change that the server refuses,
fails with 3. Nobody else makes a stream, \`auto\` neither.`;

const TARGETS = `## Which targets a receiver connects to

Tunnels and proxy requests pass these rules, in this order; UPSTREAM_URL does not:

1. natsway's own listeners and its NATS servers are denied, always;
2. what matches TARGET_DENY is denied;
3. what matches TARGET_ALLOW is allowed, also what 4 would deny. If TARGET_ALLOW is set, everything else
   is denied;
4. loopback, link-local, multicast, broadcast and unspecified addresses and the metadata services of
   clouds are denied, everything else is allowed.

A rule is a name (\`db.internal\`), all names below one (\`*.example.org\`, any depth, not \`example.org\`
itself), an address (\`10.0.0.5\`, \`fd00::5\`) or a network (\`10.0.0.0/8\`, \`fd00::/8\`). Ports may follow:
\`db.internal:5432\`, \`*.example.org:80|443|8000-8100\`, \`[fd00::/8]:443\`. Quote the \`|\` in a shell.

The receiver looks up a name once, checks the name and each address, and connects to an address that
passed. A rule with a name matches that name only: a client can still name the address, so deny networks,
not names. A name that is allowed may lead to any address but those that 1 and a network in TARGET_DENY
deny. An IPv6 address that holds an IPv4 address (mapped, compatible, translated, NAT64, 6to4, Teredo) is
checked as both; 64:ff9b:1::/48, local NAT64, is denied by 4. An address with a zone (\`fe80::1%eth0\`) is
never a target. natsway cannot see its own port behind a load balancer or address translation: deny such
addresses with TARGET_DENY.`;

function groupSection(group: (typeof GROUPS)[number]): string {
  const lines = rows().filter((row) => row.group === group).map(tableRow);
  return [
    `## ${group}`,
    "",
    "| Setting | Flag | Default | Role | Meaning |",
    "| --- | --- | --- | --- | --- |",
    ...lines,
  ].join("\n");
}

function tableRow(row: Setting<unknown>): string {
  const notes = [
    `Accepted: ${row.kind.accepted}.`,
    row.fileTwin ? `Or \`${row.env}_FILE\`.` : "",
    row.secret ? "Secret." : "",
  ].filter(Boolean).join(" ");
  const cells = [
    `\`${row.env}\``,
    flagsOf(row).map((flag) => `\`--${flag}\``).join(", "),
    defaultText(row),
    row.role,
    `${row.help}. ${notes}`,
  ];
  return `| ${cells.map(escapeCell).join(" | ")} |`;
}

function escapeCell(text: string): string {
  return text.replaceAll("|", "\\|").replaceAll("<", "&lt;").replaceAll("*", "\\*");
}

function notServed(): string {
  const names = NOT_SERVED.map((name) => `\`${name}\``).join(", ");
  return `## Not served yet

These names belong to the contract, but this version does nothing with them. Setting one in the
environment gives a warning; as a flag it is a mistake.

${names}`;
}

const ERRORS = `## Mistakes and warnings

All settings are checked before anything is opened. Every mistake is one line on standard error that
names the setting, the value (never that of a secret) and what is accepted; then natsway exits with 2.
An unknown flag or command is a mistake, and the line names the nearest known one.

These are warnings, and natsway starts: a variable whose name is close to that of a setting, a setting
that has no effect in this role, a setting that is not served yet, a secret in a flag.`;

function exitCodes(): string {
  const lines = EXIT_CODES.map(([code, meaning]) => `| ${code} | ${meaning} |`);
  return ["## Exit codes", "", "| Code | Meaning |", "| --- | --- |", ...lines].join("\n");
}
