/**
 * Compares two readings of the same octets and explains where they part.
 * @module
 */

import { isDeepStrictEqual } from "node:util";
import { latin1 } from "../../lib/http1/encode.ts";
import { DIFFERENCES } from "./differences.ts";
import {
  type Divergence,
  type Heard,
  type Input,
  type Reading,
  readWithNatsway,
} from "./reading.ts";
import { readWithLlhttp } from "./llhttp.ts";
import { chars } from "./reader.ts";

/** Finds where two readings part; null if they are alike. */
export function divergence(input: Input, ours: Reading, theirs: Reading): Divergence | null {
  let k = 0;
  while (k < ours.messages.length && same(ours.messages[k]!, theirs.messages[k])) k++;
  const our = ours.messages[k] ?? ours.open;
  const their = theirs.messages[k] ?? theirs.open;
  if (k === ours.messages.length && k === theirs.messages.length && ours.end === theirs.end) {
    if (ours.end === "refused") return null; // each in its own words and at its own octet
    if (our === null ? their === null : their !== null && same(our, their)) return null;
  }
  return { input, text: chars(input.bytes), ours, theirs, our, their };
}

/**
 * Name of the difference that explains `found`, or null: then one of the two parsers is wrong, or the
 * table is not complete.
 */
export function explain(found: Divergence): string | null {
  const listed = DIFFERENCES.find((difference) => difference.explains(found));
  return listed?.name ?? (isJudgedLater(found) ? JUDGED_LATER : null);
}

/** Name of the one difference that is about the time of a refusal only. */
export const JUDGED_LATER = "judged at its end";

/**
 * A head, or the trailers, that did not come to their end, and that llhttp refuses already. So it is if
 * natsway refuses them too once they end, or if then a listed difference shows.
 */
function isJudgedLater({ input, text, ours, theirs }: Divergence): boolean {
  if (ours.end !== "unfinished" || theirs.end !== "refused") return false;
  const ended: Input = { ...input, bytes: latin1(text + "\r\n\r\n"), cuts: [] };
  const later = divergence(ended, readWithNatsway(ended), readWithLlhttp(ended));
  return later === null || DIFFERENCES.some((difference) => difference.explains(later));
}

/** Fails with all there is to know unless `theirs` is what natsway makes of the input, or explained. */
export function requireAlike(input: Input, theirs: Reading): void {
  const ours = readWithNatsway(input);
  const found = divergence(input, ours, theirs);
  if (found === null || explain(found) !== null) return;
  throw new Error(
    `natsway and the oracle differ, and no listed difference explains it.\n` +
      `${showInput(input)}\nnatsway: ${JSON.stringify(ours)}\noracle:  ${
        JSON.stringify(theirs)
      }\n` +
      `listed differences:\n${showTable()}`,
  );
}

/** The input as a message of a failed test shows it. */
export function showInput({ side, bytes, requestMethod = "GET", cuts = [] }: Input): string {
  const shown = cuts.length > 3 ? "at every octet" : `at [${cuts.join()}]`;
  return `${side} (${requestMethod}), cut ${shown}: ${JSON.stringify(chars(bytes))}`;
}

function showTable(): string {
  return DIFFERENCES.map(({ name, ours, rfc, why }) => `  ${name}: ${ours}, ${rfc}: ${why}`).join(
    "\n",
  );
}

function same(one: Heard, other: Heard | undefined): boolean {
  return isDeepStrictEqual(one, other);
}
