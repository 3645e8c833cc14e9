/**
 * A server of a test in a process of its own, where it has rights that tests do not have.
 * @module
 */
import { within } from "./wait.ts";

/** Runs the program `path`, whose first output is its port; it is killed once `run` is over. */
export async function withChildServer(
  path: string,
  args: readonly string[],
  run: (port: number) => Promise<void>,
): Promise<void> {
  const child = new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", "--no-check", "--quiet", path, ...args],
    stdout: "piped",
    stdin: "null",
  }).spawn();
  const reader = child.stdout.getReader();
  try {
    const { value } = await within(reader.read(), 20_000, "the port");
    await run(Number(new TextDecoder().decode(value)));
  } finally {
    await reader.cancel();
    child.kill("SIGKILL");
    await child.status;
  }
}
