/**
 * Many checks against one rig: they run side by side, each is reported as a step of its own.
 * @module
 */
import { within } from "./wait.ts";

/** One check; its name is a sentence, with the case's id where it covers one. */
export interface Row {
  readonly name: string;
  readonly run: () => Promise<void>;
  /** Runs when the others are done: for checks that measure time, memory or the whole process. */
  readonly alone?: boolean;
  /** @default {60000} */
  readonly ms?: number;
}

const AT_ONCE = 6;

/** Runs all rows and fails when one does; a failed row does not keep the others from running. */
export async function runRows(t: Deno.TestContext, rows: readonly Row[]): Promise<void> {
  const results = new Map<Row, PromiseWithResolvers<void>>();
  for (const row of rows) results.set(row, Promise.withResolvers<void>());
  const runOne = async (row: Row): Promise<void> => {
    const result = results.get(row) as PromiseWithResolvers<void>;
    result.promise.catch(() => {});
    try {
      await within(row.run(), row.ms ?? 60_000, `the end of "${row.name}"`);
      result.resolve();
    } catch (error) {
      result.reject(error);
    }
  };
  const queue = rows.filter((row) => !row.alone);
  const worker = async (): Promise<void> => {
    for (let row = queue.shift(); row !== undefined; row = queue.shift()) await runOne(row);
  };
  const running = (async () => {
    await Promise.all(Array.from({ length: AT_ONCE }, worker));
    for (const row of rows) if (row.alone) await runOne(row);
  })();
  let failed = 0;
  for (const row of rows) {
    const ok = await t.step({
      name: row.name,
      // Other rows run meanwhile; the surrounding test checks that all of them clean up.
      sanitizeOps: false,
      sanitizeResources: false,
      fn: () => results.get(row)?.promise,
    });
    if (!ok) failed++;
  }
  await running;
  if (failed > 0) throw new Error(`${failed} of ${rows.length} rows failed`);
}
