/**
 * `deno task bench WHAT`: measures natsway side by side with other tunnels.
 * @module
 */
import { benchHttp } from "./http.ts";
import { benchTcp } from "./tcp.ts";
import { say } from "./support/terminal.ts";

const BENCHES: Readonly<Record<string, (args: readonly string[]) => Promise<number>>> = {
  http: benchHttp,
  tcp: benchTcp,
};

const [name = "", ...args] = Deno.args;
const bench = Object.hasOwn(BENCHES, name) ? BENCHES[name] : undefined;
if (bench === undefined) {
  say(`usage: deno task bench ${Object.keys(BENCHES).join("|")} [options]`);
  Deno.exit(2);
}
Deno.exit(await bench(args));
