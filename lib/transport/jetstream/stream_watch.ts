/**
 * What the stream is like now, asked once for all consumers that look at it together.
 * @module
 */

import type { Management, StreamInfo } from "./management.ts";

/** A stream that was created anew is not to be taken for the old one. */
const FRESH_MS = 250;

/** See the module. */
export class StreamWatch {
  readonly #management: Management;
  #asked: { readonly atMs: number; readonly info: Promise<StreamInfo> } | null = null;
  #maxMessageBytes = 0;

  constructor(management: Management) {
    this.#management = management;
  }

  /** `max_msg_size` of the stream, 0 while it has none or it is not known. */
  get maxMessageBytes(): number {
    return this.#maxMessageBytes;
  }

  /** The stream's info of now. Rejects when it is not there, see `apiFailure`. */
  info(): Promise<StreamInfo> {
    const now = performance.now();
    if (this.#asked === null || now - this.#asked.atMs > FRESH_MS) {
      this.#asked = { atMs: now, info: this.#ask() };
    }
    return this.#asked.info;
  }

  async #ask(): Promise<StreamInfo> {
    const info = await this.#management.streamInfo();
    this.#maxMessageBytes = Math.max(0, info.config.max_msg_size ?? 0);
    return info;
  }
}
