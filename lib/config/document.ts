/**
 * docs/configuration.md, written from the table.
 * @module
 */
import { defaultText, EXIT_CODES, rows } from "./describe.ts";
import { NOT_SERVED } from "./names.ts";
import { flagOf, GROUPS, type Setting } from "./settings.ts";

/** The whole text of docs/configuration.md. */
export function configurationMarkdown(): string {
  return `${
    [INTRODUCTION, ...GROUPS.map(groupSection), notServed(), ERRORS, exitCodes()].join("\n\n")
  }\n`;
}

const INTRODUCTION =
  `<!-- Written by tools/generate_docs.ts from lib/config/settings.ts. Do not edit. -->

# Configuration

Every setting is an environment variable and a flag of the same name: lower case, \`-\` for \`_\`.
\`NATS_URL=nats://a:4222\` and \`--nats-url nats://a:4222\` say the same. A switch may stand alone on the
command line: \`--embedded-nats-enabled\`.

Precedence, highest first:

1. the flag; a flag that is given twice counts as given last, but \`--nats-url\` adds up;
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
    `\`--${flagOf(row.env)}\``,
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
