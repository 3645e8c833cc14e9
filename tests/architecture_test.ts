import assert from "node:assert/strict";
import { fileURLToPath } from "node:url";

/** Levels from main.ts down: a file may import only from levels below its own and from its own folder. */
const LEVELS: readonly (readonly string[])[] = [
  ["main"],
  ["cli"],
  ["demo", "run"],
  ["service"],
  ["stdio"],
  ["requester", "receiver", "embedded", "observe"],
  ["ingress"],
  ["flow"],
  ["transport"],
  ["protocol", "http1", "net"],
];
/** May be imported by all but the folders that import nothing of the project. */
const COMMON = ["errors", "logger", "signals"];
/** Import nothing of the project outside their own folder. */
const INDEPENDENT = ["protocol", "http1", "net", "errors", "logger", "signals"];
/** Do no I/O and have no clock. */
const PURE = ["protocol", "http1"];
/** May see settings as values; all others see their types alone. */
const READS_CONFIG = ["main", "cli", "demo", "run", "service", "config"];
const MAX_LINES = 400;

interface SourceImport {
  /** Module path below lib/ without `.ts`, or the bare specifier. */
  readonly target: string;
  readonly typeOnly: boolean;
  readonly relative: boolean;
}

interface Source {
  /** Path below the repository, with `/`. */
  readonly path: string;
  /** Folder below lib/, or the file's own name when it stands in lib/ or is main.ts. */
  readonly part: string;
  readonly text: string;
  /** Text without comments and with empty string literals. */
  readonly code: string;
  readonly imports: readonly SourceImport[];
}

const ROOT = new URL("../", import.meta.url);

function read(path: string): Source {
  const text = Deno.readTextFileSync(new URL(path, ROOT));
  const withoutComments = text
    .replace(
      /("(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')|\/\*[\s\S]*?\*\/|(?<![:\\])\/\/[^\n]*/g,
      "$1",
    );
  const imports: SourceImport[] = [];
  const statements =
    /\b(?:import|export)\s+(type\s+)?([^;"'()]*?\bfrom\s+)?"([^"]+)"|\bimport\(\s*"([^"]+)"\s*\)/g;
  for (const match of withoutComments.matchAll(statements)) {
    const specifier = (match[3] ?? match[4]) as string;
    const relative = specifier.startsWith(".");
    const names = /\{([^}]*)\}/.exec(match[2] ?? "")?.[1]?.split(",").map((name) => name.trim())
      .filter((name) => name !== "");
    imports.push({
      target: relative
        ? new URL(specifier, new URL(path, ROOT)).href.slice(ROOT.href.length).replace(/\.ts$/, "")
        : specifier,
      typeOnly: match[1] !== undefined ||
        (names !== undefined && names.length > 0 &&
          names.every((name) => name.startsWith("type "))),
      relative,
    });
  }
  const below = path.replace(/^lib\//, "");
  return {
    path,
    part: below.includes("/") ? below.split("/")[0] as string : below.replace(/\.ts$/, ""),
    text,
    code: withoutComments.replace(/"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'/g, '""'),
    imports,
  };
}

function filesUnder(folder: string): string[] {
  return [...Deno.readDirSync(new URL(folder, ROOT))].flatMap((entry) =>
    entry.isDirectory
      ? filesUnder(`${folder}${entry.name}/`)
      : entry.name.endsWith(".ts")
      ? [`${folder}${entry.name}`]
      : []
  );
}

const SOURCES: readonly Source[] = [...filesUnder("lib/"), "main.ts"].map(read);

function partOf(target: string): string {
  const below = target.replace(/^lib\//, "");
  return below.includes("/") ? below.split("/")[0] as string : below;
}

function levelOf(part: string): number {
  return LEVELS.findIndex((parts) => parts.includes(part));
}

/** Why an import is not allowed, or null. */
function fault(source: Source, { target, typeOnly }: SourceImport): string | null {
  const from = source.part;
  const to = partOf(target);
  if (to === from || target === "deno.json") return null;
  if (INDEPENDENT.includes(from)) return `${from} imports nothing of the project`;
  if (COMMON.includes(to)) return null;
  if (to === "config") {
    return typeOnly || READS_CONFIG.includes(from) ? null : "only types of config may be imported";
  }
  if (from === "config") return "config imports only errors and logger";
  if (to === "transport" && from !== "service" && target !== "lib/transport/types") {
    return "only service imports more of transport than types.ts";
  }
  if (to === "transport" && from !== "service" && !typeOnly) return "transport/types is for types";
  const [high, low] = [levelOf(from), levelOf(to)];
  if (high < 0 || low < 0) return `no level for ${high < 0 ? from : to}: add it to LEVELS`;
  return low > high ? null : `${to} does not stand below ${from}`;
}

function failWith(title: string, lines: string[]): void {
  assert.deepEqual(lines, [], `${title}:\n${lines.join("\n")}`);
}

Deno.test("imports go one way: from main.ts down to the codecs", () => {
  const faults = SOURCES.flatMap((source) =>
    source.imports.filter((one) => one.relative).flatMap((one) => {
      const why = fault(source, one);
      return why === null ? [] : [`${source.path} imports ${one.target}: ${why}`];
    })
  );
  failWith("imports against the direction", faults);
  // The check above is worth nothing if imports are not found.
  const service = SOURCES.find((source) => source.path === "lib/service/service.ts");
  assert.ok(service?.imports.some((one) => one.target === "lib/requester/requester"));
});

Deno.test("no two files import each other in a circle", () => {
  const edges = new Map(
    SOURCES.map((source) => [
      source.path.replace(/\.ts$/, ""),
      source.imports.filter((one) => one.relative && !one.typeOnly).map((one) => one.target),
    ]),
  );
  const circles: string[] = [];
  const done = new Set<string>();
  const visit = (module: string, trail: string[]): void => {
    const at = trail.indexOf(module);
    if (at >= 0) {
      circles.push([...trail.slice(at), module].join(" -> "));
      return;
    }
    if (done.has(module)) return;
    for (const target of edges.get(module) ?? []) visit(target, [...trail, module]);
    done.add(module);
  };
  for (const module of edges.keys()) visit(module, []);
  failWith("circles", circles);
});

Deno.test("only transport/ knows a NATS package", () => {
  const faults = SOURCES.flatMap((source) =>
    source.imports.filter((one) => /nats/.test(one.target) && !one.relative)
      .filter(() => source.part !== "transport")
      .map((one) => `${source.path} imports ${one.target}`)
  );
  failWith("NATS packages outside transport/", faults);
});

Deno.test("lib/ prints nothing by itself", () => {
  const faults = SOURCES.filter((source) => /\bconsole\b/.test(source.code))
    .map((source) => source.path);
  failWith("files that use console", faults);
});

Deno.test("protocol/ and http1/ do no I/O and have no clock", () => {
  const forbidden =
    /\b(Deno|setTimeout|setInterval|performance|fetch)\b|\bDate\.now\b|\bnew Date\(\)/;
  const faults = SOURCES.filter((source) => PURE.includes(source.part))
    .flatMap((source) => {
      const found = forbidden.exec(source.code)?.[0];
      return found === undefined ? [] : [`${source.path} uses ${found}`];
    });
  failWith("impure codecs", faults);
});

Deno.test("there are no default exports, and files have snake_case names", () => {
  const faults = SOURCES.flatMap((source) => [
    ...(/\bexport\s+default\b/.test(source.code) ? [`${source.path} has a default export`] : []),
    ...(/\/?[a-z0-9_]+\.ts$/.test(source.path.split("/").at(-1) as string)
      ? []
      : [`${source.path} is not snake_case`]),
  ]);
  failWith("style", faults);
});

Deno.test(`no file of lib/ or tests/ has over ${MAX_LINES} lines`, () => {
  const faults = [...filesUnder("lib/"), ...filesUnder("tests/"), "main.ts"].flatMap((path) => {
    const lines = Deno.readTextFileSync(fileURLToPath(new URL(path, ROOT))).split("\n").length - 1;
    return lines > MAX_LINES ? [`${path}: ${lines} lines`] : [];
  });
  failWith("long files", faults);
});

Deno.test("every exported function and class of lib/ has a doc comment", () => {
  const faults = SOURCES.flatMap((source) => {
    const lines = source.text.split("\n");
    return lines.flatMap((line, i) => {
      const name = /^export (?:abstract )?(?:async )?(?:function\*?|class) (\w+)/.exec(line)?.[1];
      if (name === undefined || (lines[i - 1] ?? "").trimEnd().endsWith("*/")) return [];
      // The second line of an overloaded function belongs to the first one's comment.
      if (new RegExp(`^export (?:async )?function ${name}\\b`).test(lines[i - 1] ?? "")) return [];
      return [`${source.path}:${i + 1} ${name}`];
    });
  });
  failWith("exports without a doc comment", faults);
});
