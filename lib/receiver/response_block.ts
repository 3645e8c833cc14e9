/**
 * The fields of an upstream's response that cross.
 * @module
 */
import { FieldId, isHopByHop } from "../http1/field.ts";
import type { ResponseHead } from "../http1/head.ts";

/**
 * Body length that the origin declared, in bytes, or -1. A length next to chunked framing never gets
 * here; for HEAD and 304 it is what a GET would have got (RFC 9110 section 8.6).
 */
export function declaredLength(head: ResponseHead): number {
  if (head.status === 204) return -1;
  if (head.framing.kind === "length") return head.framing.length;
  if (head.framing.kind !== "none" || head.indexOf(FieldId.TransferEncoding) >= 0) return -1;
  const index = head.indexOf(FieldId.ContentLength);
  if (index < 0) return -1;
  const value = head.value(index);
  return /^\d{1,15}$/.test(value) ? Number(value) : -1;
}

/** Whether field `i` crosses: neither hop-by-hop nor named by Connection (RFC 9110 section 7.6.1). */
export function crosses(head: ResponseHead, i: number): boolean {
  return !isHopByHop(head.id(i)) && !head.isNominated(i);
}

let shared = new Uint8Array(16 * 1024);

/**
 * The lines that cross, as they came and in their order. The block is in a buffer that all calls share:
 * good until the next one.
 */
export function crossingBlock(head: ResponseHead): Uint8Array {
  const { bytes, count } = head;
  const most = count === 0 ? 0 : head.lineEnd(count - 1) - head.lineStart(0);
  if (most > shared.length) shared = new Uint8Array(most);
  let at = 0;
  for (let i = 0; i < count;) {
    if (!crosses(head, i)) {
      i++;
      continue;
    }
    const start = head.lineStart(i);
    for (i++; i < count && crosses(head, i);) i++;
    const run = bytes.subarray(start, head.lineStart(i));
    shared.set(run, at);
    at += run.length;
  }
  return shared.subarray(0, at);
}
