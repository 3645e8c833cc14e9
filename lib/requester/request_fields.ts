/**
 * Which fields of a client's request cross, and what an intermediary adds (RFC 9110 section 7.6,
 * http-surface.md section 7, wire-protocol.md section 5).
 * @module
 */
import { FIELD_NAMES, FieldId, isHopByHop } from "../http1/field.ts";
import type { RequestHead } from "../http1/head.ts";
import { asHeaderText, type FieldPair } from "../protocol/envelope.ts";

/**
 * What becomes of X-Forwarded-* and Forwarded (setting FORWARDED_HEADERS): the client's kept and its
 * address added, the client's dropped and its address given, or all dropped.
 */
export type ForwardedMode = "append" | "replace" | "off";

export interface FieldRules {
  readonly forwarded: ForwardedMode;
  /** The pseudonym for `Via`, or null when VIA is off. */
  readonly via: string | null;
}

/** The fields of a request in both forms of the envelope. */
export interface CrossingFields {
  /** In order and case; `Host` and `Content-Length` stand where the client had them. */
  readonly head: FieldPair[];
  /** Lower-case names without `Host` and `Content-Length`, repeated ones joined, for Ruby peers. */
  readonly headers: Record<string, string>;
  /** `traceparent` and `tracestate`, where given. */
  readonly trace: FieldPair[];
}

/** Whether `Via` holds the pseudonym: the request came through this process before. */
export function isLoop(head: RequestHead, via: string): boolean {
  for (let i = head.indexOf(FieldId.Via); i >= 0; i = head.indexOf(FieldId.Via, i + 1)) {
    // `[protocol/]version pseudonym [comment]`, comma separated (RFC 9110 section 7.6.3).
    for (const entry of head.value(i).split(",")) {
      if (entry.trim().split(/[ \t]+/)[1] === via) return true;
    }
  }
  return false;
}

/** Builds what crosses. `clientAddress` is the address of the client's socket. */
export function crossingFields(
  request: RequestHead,
  clientAddress: string,
  rules: FieldRules,
): CrossingFields {
  const head: FieldPair[] = [];
  // A plain object: JSON.stringify is slow with one that has no prototype.
  const headers: Record<string, string> = {};
  const trace: FieldPair[] = [];
  const forwarding = new Forwarding(request, clientAddress, rules.forwarded);
  for (let i = 0; i < request.count; i++) {
    const id = request.id(i);
    if (isHopByHop(id) || request.isNominated(i) || forwarding.takes(id)) continue;
    // The body is at hand, so the client has been told to go on already.
    if (id === FieldId.Expect && request.expectContinue) continue;
    let value = request.value(i);
    if (id === FieldId.MaxForwards) value = nextMaxForwards(request.method, value);
    head.push([request.name(i), value]);
    if (id === FieldId.Host || id === FieldId.ContentLength) continue;
    if (id === FieldId.TraceParent || id === FieldId.TraceState) {
      trace.push([request.lowerName(i), value]);
    }
    addJoined(headers, request.lowerName(i), value, id);
  }
  forwarding.addTo((name, value, id) => {
    head.push([name, value]);
    addJoined(headers, FIELD_NAMES[id]!, value, id);
  });
  if (rules.via !== null) {
    const value = `1.${request.minor} ${rules.via}`;
    head.push(["Via", value]);
    addJoined(headers, "via", value, FieldId.Via);
  }
  return { head, headers, trace };
}

function addJoined(
  headers: Record<string, string>,
  lowerName: string,
  value: string,
  id: number,
): void {
  const text = asHeaderText(value);
  const before = Object.hasOwn(headers, lowerName) ? headers[lowerName] : undefined;
  // RFC 9110 section 5.3; cookies by RFC 6265 section 5.4.
  const joined = before === undefined
    ? text
    : `${before}${id === FieldId.Cookie ? "; " : ", "}${text}`;
  if (lowerName !== "__proto__") headers[lowerName] = joined;
  else Object.defineProperty(headers, lowerName, { ...OWN, value: joined });
}

/** Of a member whose name an assignment would take for the prototype. */
const OWN = { configurable: true, enumerable: true, writable: true };

/** Max-Forwards counts for TRACE and OPTIONS alone (RFC 9110 section 7.6.2). */
function nextMaxForwards(method: string, value: string): string {
  if ((method !== "TRACE" && method !== "OPTIONS") || !/^\d{1,15}$/.test(value)) return value;
  return String(Math.max(0, Number(value) - 1));
}

/** The remaining hops of a TRACE or OPTIONS request, or null. */
export function maxForwards(request: RequestHead): number | null {
  if (request.method !== "TRACE" && request.method !== "OPTIONS") return null;
  const index = request.indexOf(FieldId.MaxForwards);
  if (index < 0) return null;
  const value = request.value(index);
  return /^\d{1,15}$/.test(value) ? Number(value) : null;
}

const FORWARDING = new Set<number>([
  FieldId.XForwardedFor,
  FieldId.XForwardedProto,
  FieldId.XForwardedHost,
  FieldId.Forwarded,
]);

/** X-Forwarded-For/-Proto/-Host and Forwarded (RFC 7239) towards the target. */
class Forwarding {
  readonly #request: RequestHead;
  readonly #address: string;
  readonly #mode: ForwardedMode;

  constructor(request: RequestHead, address: string, mode: ForwardedMode) {
    this.#request = request;
    this.#address = address;
    this.#mode = mode;
  }

  /** Whether the field is not copied where it stands: nobody's claim goes on unaccompanied. */
  takes(id: number): boolean {
    return FORWARDING.has(id);
  }

  addTo(add: (name: string, value: string, id: number) => void): void {
    if (this.#mode === "off") return;
    const append = this.#mode === "append";
    const host = this.#first(FieldId.Host);
    const before = append ? this.#all(FieldId.XForwardedFor) : "";
    const chain = before === "" ? this.#address : `${before}, ${this.#address}`;
    add("X-Forwarded-For", chain, FieldId.XForwardedFor);
    const proto = append ? this.#all(FieldId.XForwardedProto) : "";
    add("X-Forwarded-Proto", proto || "http", FieldId.XForwardedProto);
    const toHost = (append ? this.#all(FieldId.XForwardedHost) : "") || host;
    if (toHost !== "") add("X-Forwarded-Host", toHost, FieldId.XForwardedHost);
    const forwarded = append ? this.#all(FieldId.Forwarded) : "";
    // Only where the client side speaks it: two lists of the same hops help nobody.
    if (forwarded !== "") {
      const node = this.#address.includes(":") ? `"[${this.#address}]"` : this.#address;
      add("Forwarded", `${forwarded}, for=${node};proto=http`, FieldId.Forwarded);
    }
  }

  #first(id: number): string {
    const index = this.#request.indexOf(id);
    return index < 0 ? "" : this.#request.value(index);
  }

  #all(id: number): string {
    const values: string[] = [];
    for (let i = this.#request.indexOf(id); i >= 0; i = this.#request.indexOf(id, i + 1)) {
      if (this.#request.value(i) !== "") values.push(this.#request.value(i));
    }
    return values.join(", ");
  }
}
