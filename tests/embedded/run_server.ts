/**
 * Stands for natsway in the tests: runs an embedded server in a process of its own. Arguments: the
 * program, the listen address. Prints one JSON line when the server is ready; the first SIGINT
 * prints a line and goes on, the second and SIGTERM end it in order.
 * @module
 */
import { startNatsServer } from "../../lib/embedded/server.ts";
import { KeptLog } from "./support.ts";

const [binary, listen] = Deno.args as [string, string];
const server = await startNatsServer({ binary, listen, logger: new KeptLog() }).catch((error) => {
  // deno-lint-ignore no-console
  console.error(`natsway: ${error.message}`);
  Deno.exit(3);
});
const { pid, port, url } = server;
const print = (value: unknown) => Deno.stdout.writeSync(new TextEncoder().encode(`${value}\n`));
let interrupts = 0;
const end = async () => {
  await server.stop();
  Deno.exit(0);
};
Deno.addSignalListener("SIGINT", () => {
  print("interrupted");
  if (++interrupts > 1) end();
});
Deno.addSignalListener("SIGTERM", end);
print(JSON.stringify({ pid, port, url }));
await server.died;
Deno.exit(1);
