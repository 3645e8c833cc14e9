/**
 * The requests that the demo suggests, made by itself and checked.
 * @module
 */
import { createHash } from "node:crypto";
import { errorText } from "../errors.ts";

/** One request of the demo. */
export interface DemoRequest {
  /** What it shows, for people. */
  readonly title: string;
  /** The line to type. */
  readonly curl: string;
  /** Makes the request and checks the answer; throws when it is not as it should be. */
  check(): Promise<string>;
}

const ECHO_BYTES = 200_000;

/** The five requests against the requester at `base` (no slash at the end). */
export function demoRequests(base: string): DemoRequest[] {
  return [
    {
      title: "text",
      curl: `curl ${base}/text`,
      check: async () => {
        const text = await (await get(`${base}/text`)).text();
        assert(text.includes("sample upstream"), "the text is not the upstream's");
        return `${text.length} bytes of text`;
      },
    },
    {
      title: "JSON",
      curl: `curl -i ${base}/json`,
      check: async () => {
        const value = await (await get(`${base}/json`)).json();
        assert(Array.isArray(value.numbers), "the JSON is not the upstream's");
        return JSON.stringify(value);
      },
    },
    {
      title: "server-sent events, one every 200 ms",
      curl: `curl -N ${base}/sse`,
      check: async () => await checkTicks(await get(`${base}/sse`)),
    },
    {
      title: "a body that comes back byte for byte",
      curl: `curl --data-binary 'any bytes' ${base}/echo`,
      check: async () => {
        const body = crypto.getRandomValues(new Uint8Array(65_536));
        const whole = new Uint8Array(ECHO_BYTES);
        for (let at = 0; at < whole.length; at += body.length) {
          whole.set(body.subarray(0, Math.min(body.length, whole.length - at)), at);
        }
        const answer = await get(`${base}/echo`, { method: "POST", body: whole });
        const back = new Uint8Array(await answer.arrayBuffer());
        assert(digest(back) === digest(whole), "the body came back changed");
        return `${back.length} random bytes, the same digest`;
      },
    },
    {
      title: "a big download; compare with its x-sha256 field",
      curl: `curl -sD /dev/stderr '${base}/big?bytes=10485760' | sha256sum`,
      check: async () => {
        const answer = await get(`${base}/big?bytes=10485760`);
        const hash = createHash("sha256");
        let bytes = 0;
        for await (const chunk of answer.body!) {
          hash.update(chunk);
          bytes += chunk.length;
        }
        const expected = answer.headers.get("x-sha256");
        assert(hash.digest("hex") === expected, "the digest is not the one that was announced");
        return `${bytes} bytes, sha256 ${expected?.slice(0, 12)}…`;
      },
    },
  ];
}

/** Runs all; reports each through `print`. Resolves to whether all went well. */
export async function runSelfTest(
  requests: readonly DemoRequest[],
  print: (text: string) => void,
): Promise<boolean> {
  let passed = 0;
  for (const request of requests) {
    const startedAt = performance.now();
    let line: string;
    try {
      line = `ok    ${request.title}: ${await request.check()}`;
      passed++;
    } catch (error) {
      line = `FAIL  ${request.title}: ${errorText(error)}`;
    }
    print(`${line} (${Math.round(performance.now() - startedAt)} ms)\n`);
  }
  print(`${passed} of ${requests.length} requests went through\n`);
  return passed === requests.length;
}

async function get(url: string, init?: RequestInit): Promise<Response> {
  const answer = await fetch(url, { ...init, signal: AbortSignal.timeout(30_000) });
  if (answer.status !== 200) {
    throw new Error(`status ${answer.status}: ${(await answer.text()).slice(0, 200)}`);
  }
  return answer;
}

/** The events must come one by one: the last one well after the first. */
async function checkTicks(answer: Response): Promise<string> {
  const times: number[] = [];
  let text = "";
  for await (const chunk of answer.body!.pipeThrough(new TextDecoderStream())) {
    times.push(performance.now());
    text += chunk;
  }
  const ticks = text.split("\n").filter((line) => line.startsWith("data:")).length;
  assert(ticks === 5, `${ticks} events instead of 5`);
  const spanMs = Math.round(times.at(-1)! - times[0]!);
  assert(spanMs >= 500, `the events came together within ${spanMs} ms`);
  return `${ticks} events over ${spanMs} ms`;
}

function digest(bytes: Uint8Array): string {
  return createHash("sha256").update(bytes).digest("hex");
}

function assert(condition: boolean, message: string): asserts condition {
  if (!condition) throw new Error(message);
}
