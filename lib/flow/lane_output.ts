/**
 * The frames of one side of a flow, encoded and on their way.
 * @module
 */
import {
  encodeClose,
  encodeDataPrefix,
  encodeEof,
  encodeGone,
  encodeProbe,
  encodeWindow,
  FrameFlag,
} from "../protocol/frames.ts";
import type { LaneWire } from "./lane_types.ts";

/** Publishes nothing while this process is not connected, or while no peer is known. */
export class LaneOutput {
  readonly #wire: LaneWire;
  readonly #serviceId: string;
  /** Of the execution; empty until the flow is bound. */
  epoch: Uint8Array;
  /** Whether this process is connected to NATS. */
  connected: boolean;

  /** @param serviceId own SERVICE_ID, which goes along with probes */
  constructor(wire: LaneWire, serviceId: string, epoch: Uint8Array, connected: boolean) {
    this.#wire = wire;
    this.#serviceId = serviceId;
    this.epoch = epoch;
    this.connected = connected;
  }

  /** Whether something published now could reach anyone. */
  get open(): boolean {
    return this.connected && this.epoch.length > 0;
  }

  /** Whether data may go out now. */
  get ready(): boolean {
    return this.open && this.#wire.ready;
  }

  /** A HEAD frame; changes its FIN flag. */
  head(prefix: Uint8Array, body: Uint8Array, fin: boolean): void {
    prefix[1] = FrameFlag.Head | (fin ? FrameFlag.Fin : 0);
    this.#publish([prefix, body]);
  }

  data(offset: number, body: Uint8Array, fin: boolean): void {
    this.#publish([encodeDataPrefix(this.epoch, offset, fin), body]);
  }

  eof(offset: number, trailers: Uint8Array): void {
    this.#publish([encodeEof(this.epoch, offset, trailers)]);
  }

  close(offset: number, reason: string): void {
    this.#publish([encodeClose(this.epoch, offset, reason)]);
  }

  probe(sent: number, serial: number): void {
    this.#publish([encodeProbe(this.epoch, sent, serial, this.#serviceId)], true);
  }

  window(next: number, limit: number, serial: number, resend: boolean): void {
    this.#publish([encodeWindow(this.epoch, next, limit, serial, resend)]);
  }

  gone(reason: string): void {
    this.#publish([encodeGone(this.epoch, reason)]);
  }

  #publish(parts: readonly Uint8Array[], probe = false): void {
    if (this.open) this.#wire.publish(parts, probe);
  }
}
