/**
 * What a deliberate difference between the two parsers is made of.
 * @module
 */

import type { Divergence, Heard, Side } from "./reading.ts";

/** One way in which the two parsers may part. */
export interface Difference {
  readonly name: string;
  readonly ours: "stricter" | "looser" | "other";
  /** The rule that allows or asks for it. */
  readonly rfc: string;
  readonly why: string;
  /** Octets that show it. */
  readonly samples: readonly { side: Side; text: string; requestMethod?: string }[];
  /** Whether this difference, and nothing else, is why the readings part. */
  explains(found: Divergence): boolean;
}

/** What shows a difference in which one parser refuses; all that is given must hold. */
export interface Signs {
  readonly octets?: RegExp;
  readonly requests?: readonly string[];
  readonly responses?: readonly string[];
}

/** A difference in which natsway refuses what llhttp takes. */
export function stricter(
  name: string,
  rfc: string,
  why: string,
  signs: Signs & {
    readonly faults: readonly string[];
    /** Asked if llhttp got as far as the message's head. */
    readonly accepted?: (their: Heard) => boolean;
  },
): Difference {
  const { faults, octets, accepted } = signs;
  return {
    ...{ name, ours: "stricter", rfc, why, samples: samplesOf(signs) },
    explains({ text, ours, our, their }) {
      return ours.end === "refused" && our === null && faults.includes(ours.fault) &&
        (octets === undefined || octets.test(text)) &&
        (accepted === undefined || (their === null ? octets !== undefined : accepted(their)));
    },
  };
}

/** A difference in which natsway takes what llhttp refuses. */
export function looser(
  name: string,
  rfc: string,
  why: string,
  signs: Signs & {
    readonly errors: RegExp;
    readonly accepted?: (our: Heard, found: Divergence) => boolean;
  },
): Difference {
  const { errors, octets, accepted } = signs;
  return {
    ...{ name, ours: "looser", rfc, why, samples: samplesOf(signs) },
    explains(found) {
      const { text, theirs, our, their } = found;
      return theirs.end === "refused" && their === null && our !== null &&
        errors.test(theirs.fault) && (octets === undefined || octets.test(text)) &&
        (accepted === undefined || accepted(our, found));
    },
  };
}

function samplesOf({ requests = [], responses = [] }: Signs): Difference["samples"] {
  return [
    ...requests.map((text) => ({ side: "request" as const, text })),
    ...responses.map((text) => ({ side: "response" as const, text })),
  ];
}

/** The values of all fields of that name, in order. */
export function values(message: Heard, lowerName: string): string[] {
  return message.fields.filter(([name]) => name.toLowerCase() === lowerName).map(([, value]) =>
    value
  );
}

/** A Content-Length or Transfer-Encoding is there, whatever it says. */
export function declaresBody(message: Heard): boolean {
  return values(message, "content-length").length + values(message, "transfer-encoding").length > 0;
}

/** Chunked is its only coding. */
export function isChunked(message: Heard): boolean {
  return values(message, "transfer-encoding").join().toLowerCase() === "chunked";
}

/** Whether all but the named members are the same. */
export function equalBut(one: Heard, other: Heard, ...members: (keyof Heard)[]): boolean {
  return (Object.keys(one) as (keyof Heard)[]).every((member) =>
    members.includes(member) || JSON.stringify(one[member]) === JSON.stringify(other[member])
  );
}
