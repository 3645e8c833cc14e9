/**
 * Ends standard output while the process goes on. Deno keeps copies of the descriptor that no close
 * reaches, so whoever reads at the other end would wait for the end of the process.
 * @module
 */

const SYMBOLS = {
  shutdown: { parameters: ["i32", "i32"], result: "i32" },
  open: { parameters: ["buffer", "i32"], result: "i32" },
  dup2: { parameters: ["i32", "i32"], result: "i32" },
  close: { parameters: ["i32"], result: "i32" },
} as const satisfies Deno.ForeignLibraryInterface;

const LIBRARIES = ["libc.so.6", "libc.so"];
const STDIN = 0;
const STDOUT = 1;
const STDERR = 2;
const SHUT_WR = 1;
const O_WRONLY = 1;
const DESCRIPTORS = "/proc/self/fd";

/**
 * Lets the reader of standard output see its end. Call it when all is written; what is written
 * afterwards goes nowhere.
 * @returns false when that cannot be done: on other systems than Linux, where FFI is forbidden, and when
 * standard error goes to the same pipe
 */
export function endStdout(): boolean {
  if (Deno.build.os !== "linux") return false;
  try {
    using library = openLibrary();
    const c = library.symbols;
    if (c.shutdown(STDOUT, SHUT_WR) === 0) return true; // it is a socket
    const { isFifo } = Deno.statSync(`${DESCRIPTORS}/${STDOUT}`);
    if (!isFifo) return true; // nobody waits for the end of a file or of a terminal
    const pipe = linkOf(STDOUT);
    if (linkOf(STDERR) === pipe) return false;
    const nowhere = c.open(new TextEncoder().encode("/dev/null\0"), O_WRONLY);
    if (nowhere < 0) return false;
    for (const { name } of [...Deno.readDirSync(DESCRIPTORS)]) {
      const fd = Number(name);
      if (fd !== STDIN && linkOf(fd) === pipe) c.dup2(nowhere, fd);
    }
    c.close(nowhere);
    return true;
  } catch {
    return false;
  }
}

function openLibrary(): Disposable & Deno.DynamicLibrary<typeof SYMBOLS> {
  for (const name of LIBRARIES) {
    try {
      const library = Deno.dlopen(name, SYMBOLS);
      return Object.assign(library, { [Symbol.dispose]: () => library.close() });
    } catch {
      // Another name, or none: FFI may be forbidden.
    }
  }
  throw new Error("there is no C library");
}

/** What a descriptor is open on; `""` when it is not open any more. */
function linkOf(fd: number): string {
  try {
    return Deno.readLinkSync(`${DESCRIPTORS}/${fd}`);
  } catch {
    return "";
  }
}
