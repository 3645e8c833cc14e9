/**
 * Commands, flags and help, as commander needs them.
 * @module
 */
import { Command, Help, Option } from "commander";
import { EXIT_CODES, helpText } from "./describe.ts";
import { ENV_FILE_FLAG, VALUE_FLAGS, type ValueFlag } from "./flags.ts";
import type { Role } from "./settings.ts";
import { VERSION } from "./version.ts";

/** The name of the command that ran; null when none was given. */
export type CommandName = "requester" | "receiver" | "stdio" | "demo" | "settings" | null;

/** Called when a command is to run. */
export type RunCommand = (
  name: CommandName,
  /** Options of that command alone, by commander's key. */
  own: Readonly<Record<string, unknown>>,
  /** Arguments that commander did not know. */
  rest: readonly string[],
) => Promise<void>;

const WIDTH = 80;

/** Builds the program. Unknown flags and words do not stop it: they are reported with the rest. */
export function createProgram(
  output: { stdout(text: string): void; stderr(text: string): void },
  run: RunCommand,
): Command {
  const program = new NatswayCommand("natsway")
    .description(
      "Carries HTTP requests over NATS. A requester faces clients, a receiver faces the upstream. " +
        "Without a command the role comes from the settings.",
    )
    .version(`natsway ${VERSION}`, "-V, --version", "Print the version")
    .helpOption("-h, --help", "Print this help; `natsway COMMAND --help` for one command")
    .helpCommand(false)
    .exitOverride()
    .configureOutput({
      writeOut: (text) => output.stdout(text),
      writeErr: (text) => output.stderr(text),
      getOutHelpWidth: () => WIDTH,
      getErrHelpWidth: () => WIDTH,
      getOutHasColors: () => false,
      getErrHasColors: () => false,
    });
  for (const flag of VALUE_FLAGS) program.addOption(optionOf(flag));
  onRun(program, null, run);

  const add = (name: Exclude<CommandName, null>, description: string) => {
    const command = program.command(name).description(description)
      .helpOption("-h, --help", "Print this help");
    onRun(command, name, run);
    return command;
  };
  add("requester", "Take HTTP requests from clients and carry them to receivers");
  add("receiver", "Take requests from NATS and carry them to UPSTREAM_URL");
  add("stdio", "Open one TCP connection over standard input and output, for ssh's ProxyCommand")
    .usage("[options] HOST:PORT");
  add("demo", "Run a whole bridge here: nats-server, sample upstream, receiver and requester")
    .option("--json", "Print one line of JSON instead of text")
    .option("--self-test", "Make the requests, print each result, and exit with 0 or 1");
  add("settings", "Print the effective settings and where each came from; secrets as set or unset")
    .option("--json", "Print JSON");
  return program;
}

/** Names of the commands of a program, in the order of its help. */
export function commandNames(program: Command): string[] {
  return program.commands.map((command) => command.name());
}

/** The flags that were given, by name without dashes. */
export function givenFlags(program: Command): Record<string, string | readonly string[]> {
  const flags: Record<string, string | readonly string[]> = {};
  const values = program.opts<Record<string, readonly string[]>>();
  for (const option of program.options) {
    const given = values[option.attributeName()];
    if (!(option instanceof ValueOption) || given === undefined) continue;
    const { flag, row } = option.valueFlag;
    flags[flag] = row?.kind.repeatable ? given : given.at(-1) ?? "";
  }
  return flags;
}

function onRun(command: Command, name: CommandName, run: RunCommand): void {
  command
    .allowUnknownOption()
    .allowExcessArguments()
    .action(async () => await run(name, name === null ? {} : command.opts(), command.args));
}

/** A flag that takes a value, with its row of the table. */
class ValueOption extends Option {
  constructor(readonly valueFlag: ValueFlag, flags: string, description: string) {
    super(flags, description);
    this.argParser<string[]>((value, previous) => [...(previous ?? []), value]);
  }
}

function optionOf(valueFlag: ValueFlag): Option {
  const { flag, also, row } = valueFlag;
  if (flag === ENV_FILE_FLAG) {
    const text = "Read NAME=value lines from a file; the environment goes before them";
    return new ValueOption(valueFlag, `--${flag} <file>`, text);
  }
  // Files with secrets are told about once, above the settings.
  if (row === null) return new ValueOption(valueFlag, `--${flag} <file>`, "").hideHelp();
  const { placeholder, alone } = row.kind;
  const value = alone === undefined ? `<${placeholder}>` : `[${placeholder}]`;
  const names = also === null ? `--${flag}` : `--${also}, --${flag}`;
  return new ValueOption(valueFlag, `${names} ${value}`, helpText(row)).helpGroup(row.group);
}

class NatswayCommand extends Command {
  override createCommand(name?: string): Command {
    return new NatswayCommand(name);
  }

  override createHelp(): Help {
    return new NatswayHelp();
  }
}

const ALL_NOTE = "All settings of `natsway --help` apply here too, as flags and variables.";
const DEMO_NOTE =
  "The demo brings its own NATS and upstream and listens on loopback, on PORT if that is free. The " +
  "other settings of `natsway --help` apply, as flags and variables.";
const SETTINGS_NOTE =
  "Every setting is a flag and an environment variable: --nats-url is NATS_URL. " +
  "Precedence: flag, environment, --env-file, default (in brackets). Empty means unset. " +
  "(requester) and (receiver) mark what matters to that role only. Flags can be seen in the process " +
  "list: give secrets by variable, or let NATS_USER_FILE, NATS_PASSWORD_FILE, NATS_TOKEN_FILE, " +
  "NATS_CREDS_FILE or NATS_NKEY_SEED_FILE name a file.";

/** Help in 80 columns: commands first, then one line for each flag with its text below. */
class NatswayHelp extends Help {
  override formatHelp(command: Command, helper: Help): string {
    const wrap = (text: string, indent: number) =>
      helper.boxWrap(text, WIDTH - indent).replace(/^/gm, " ".repeat(indent));
    const blocks = [
      `Usage: ${helper.commandUsage(command)}`,
      wrap(command.description(), 0),
    ];
    if (command.commands.length > 0) {
      const items = command.commands.map((sub) =>
        `  ${sub.name().padEnd(11)}${wrap(sub.description(), 13).trimStart()}`
      );
      blocks.push(["Commands:", ...items].join("\n"));
    }
    const options = helper.visibleOptions(command);
    for (const [group, members] of Map.groupBy(options, (option) => option.helpGroupHeading)) {
      if (group !== undefined && group === this.#firstGroup(options)) {
        blocks.push(wrap(SETTINGS_NOTE, 0));
      }
      const items = members.map((option) => `  ${option.flags}\n${wrap(option.description, 6)}`);
      blocks.push([`${group ?? "Options"}:`, ...items].join("\n"));
    }
    if (!options.some((option) => option instanceof ValueOption)) {
      blocks.push(
        wrap(command.name() === "demo" ? DEMO_NOTE : ALL_NOTE, 0),
      );
    }
    const codes = EXIT_CODES.map(([code, meaning]) => `  ${code}  ${meaning}`);
    blocks.push(["Exit codes:", ...codes].join("\n"));
    return `${blocks.join("\n\n")}\n`;
  }

  /** Own options of the command, then the settings of its role. */
  override visibleOptions(command: Command): Option[] {
    const own = super.visibleOptions(command);
    const plain = own.filter((option) => option.helpGroupHeading === undefined);
    const name = command.name();
    const role = name === "requester" || name === "receiver" ? name : null;
    const from = command.parent === null ? own : role === null ? [] : command.parent.options;
    return [...plain, ...from.filter((option) => !option.hidden && isSettingFor(option, role))];
  }

  #firstGroup(options: readonly Option[]): string | undefined {
    return options.find((option) => option.helpGroupHeading !== undefined)?.helpGroupHeading;
  }
}

function isSettingFor(option: Option, role: Role | null): boolean {
  const row = option instanceof ValueOption ? option.valueFlag.row : null;
  return row !== null && (role === null || row.role === "both" || row.role === role);
}
