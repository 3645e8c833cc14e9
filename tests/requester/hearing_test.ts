import assert from "node:assert/strict";
import { hearing } from "../../lib/requester/hearing.ts";
import { MemoryTransport } from "../helpers/unit_transport.ts";

/** A transport whose planes come and go. */
class ChangingTransport extends MemoryTransport {
  tell: (notReady: string | null) => void = () => {};

  override onReadiness(listener?: (notReady: string | null) => void): void {
    if (listener !== undefined) this.tell = listener;
  }
}

Deno.test("Answers are heard while it is started, connected and its planes are in service", () => {
  const transport = new ChangingTransport();
  let started = false;
  const heard = hearing(transport, () => started);
  assert.equal(heard(), false);
  started = true;
  assert.equal(heard(), true);
  transport.tell("consumer nats-proxy-responses-edge of stream proxy is gone");
  assert.equal(heard(), false);
  transport.tell(null);
  assert.equal(heard(), true);
  transport.setConnected(false);
  assert.equal(heard(), false);
});
