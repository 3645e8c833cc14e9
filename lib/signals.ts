/**
 * The signals that end the program.
 * @module
 */

/** The first and the second SIGINT or SIGTERM from now on, until `release`. */
export function untilSignal(): {
  readonly first: Promise<void>;
  readonly second: Promise<void>;
  release(): void;
} {
  // Windows knows no SIGTERM.
  const signals: Deno.Signal[] = Deno.build.os === "windows" ? ["SIGINT"] : ["SIGINT", "SIGTERM"];
  const first = Promise.withResolvers<void>();
  const second = Promise.withResolvers<void>();
  let count = 0;
  const onSignal = () => {
    count++;
    if (count === 1) first.resolve();
    else second.resolve();
  };
  for (const signal of signals) Deno.addSignalListener(signal, onSignal);
  return {
    first: first.promise,
    second: second.promise,
    release: () => {
      for (const signal of signals) Deno.removeSignalListener(signal, onSignal);
    },
  };
}
