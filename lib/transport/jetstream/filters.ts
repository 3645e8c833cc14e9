/**
 * Which filter a consumer gets (wire-protocol.md section 1.1, rule c): the stream may hold the
 * subjects as they are published, or without the leading `to.` or `from.` of the two-account set-up.
 * @module
 */

/** A filter that fits, or why none does. */
export type FilterChoice =
  | { readonly kind: "fits"; readonly filter: string }
  | { readonly kind: "none"; readonly reason: string };

/** `subject` without one leading `to.` or `from.`. */
export function withoutPrefix(subject: string): string {
  if (subject.startsWith("to.")) return subject.slice(3);
  return subject.startsWith("from.") ? subject.slice(5) : subject;
}

/** The forms of a subject that a stream may hold: as it is, then stripped if that differs. */
export function filterForms(subject: string): readonly [string, ...string[]] {
  const stripped = withoutPrefix(subject);
  return stripped === subject ? [subject] : [subject, stripped];
}

/** Whether every subject that `filter` takes is also taken by `pattern`; both may have wildcards. */
export function covers(pattern: string, filter: string): boolean {
  const outer = pattern.split(".");
  const inner = filter.split(".");
  for (let i = 0; i < outer.length; i++) {
    const want = outer[i];
    const have = inner[i];
    if (have === undefined) return false;
    if (want === ">") return true;
    if (have === ">" || (want !== "*" && want !== have)) return false;
  }
  return outer.length === inner.length;
}

/** Whether there is a subject that both take. */
export function overlaps(one: string, other: string): boolean {
  const a = one.split(".");
  const b = other.split(".");
  for (let i = 0; i < Math.min(a.length, b.length); i++) {
    const [x, y] = [a[i], b[i]];
    if (x === ">" || y === ">") return true;
    if (x !== y && x !== "*" && y !== "*") return false;
  }
  return a.length === b.length;
}

/**
 * The first form of `subject` that the stream's subjects cover; if none is, the first of which they
 * take a part: a stream may name the requesters one by one.
 */
export function chooseFilter(
  subject: string,
  stream: string,
  streamSubjects: readonly string[],
): FilterChoice {
  const forms = filterForms(subject);
  for (const fits of [covers, overlaps]) {
    const filter = forms.find((form) => streamSubjects.some((one) => fits(one, form)));
    if (filter !== undefined) return { kind: "fits", filter };
  }
  const has = streamSubjects.length === 0 ? "no subjects" : `subjects ${streamSubjects.join(", ")}`;
  return {
    kind: "none",
    reason: `stream ${stream} has ${has}, which do not take ${forms.join(" or ")}: ` +
      "add it to the stream's subjects or set the subject roots",
  };
}
