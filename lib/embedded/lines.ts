/**
 * Text lines out of a byte stream.
 * @module
 */

/** Longest line that is kept; what is over it is dropped up to the line's end. In characters. */
export const MAX_LINE_LENGTH = 4096;

/**
 * Calls `onLine` for each line until the stream ends or breaks; both are the end. Bytes that are no
 * UTF-8 become U+FFFD. Never more than one line is held. An aborted signal is an end too.
 */
export async function readLines(
  stream: ReadableStream<Uint8Array<ArrayBuffer>>,
  onLine: (line: string) => void,
  signal?: AbortSignal,
): Promise<void> {
  let line = "";
  const take = (text: string) => {
    if (line.length < MAX_LINE_LENGTH) line += text.slice(0, MAX_LINE_LENGTH - line.length);
  };
  const flush = () => {
    const whole = line.endsWith("\r") ? line.slice(0, -1) : line;
    line = "";
    if (whole !== "") onLine(whole);
  };
  try {
    const texts = stream.pipeThrough(new TextDecoderStream(), signal ? { signal } : {});
    for await (const text of texts) {
      let start = 0;
      for (let end = text.indexOf("\n"); end >= 0; end = text.indexOf("\n", start)) {
        take(text.slice(start, end));
        flush();
        start = end + 1;
      }
      take(text.slice(start));
    }
  } catch {
    // A broken pipe is the end of what the process says.
  }
  flush();
}
