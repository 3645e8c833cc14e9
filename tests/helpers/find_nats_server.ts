/**
 * Prints the path of a nats-server for the tests, found as natsway finds its own: PATH, cache,
 * download, `go install`. A process of its own, since the tests may reach nothing but loopback.
 * @module
 */
import { findNatsServer } from "../../lib/embedded/find.ts";
import { errorText } from "../../lib/errors.ts";

function say(text: string): void {
  Deno.stderr.writeSync(new TextEncoder().encode(`tests: ${text}\n`));
}

// Test files run side by side: the first one fetches, the others find the result in the cache.
using lock = await Deno.open(new URL(import.meta.url));
await lock.lock(true);
try {
  const { path } = await findNatsServer({
    downloadUrl: Deno.env.get("EMBEDDED_NATS_DOWNLOAD_URL") ?? null,
    isTerminal: false,
    logger: { debug() {}, info: say, warn: say, error: say, enabled: () => true },
  });
  Deno.stdout.writeSync(new TextEncoder().encode(path));
} catch (error) {
  say(errorText(error));
  Deno.exitCode = 1;
}
