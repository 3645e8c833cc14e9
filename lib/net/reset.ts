/**
 * Ends a TCP connection by a reset. Deno can only close one, and a close looks like the end of a
 * complete stream (RFC 9293 section 3.10.4); who must say "this is not all" has to ask the system.
 * @module
 */

/** Native functions that are needed, by their C names. */
const SYMBOLS = {
  getsockname: { parameters: ["i32", "buffer", "buffer"], result: "i32" },
  getpeername: { parameters: ["i32", "buffer", "buffer"], result: "i32" },
  setsockopt: { parameters: ["i32", "i32", "i32", "buffer", "u32"], result: "i32" },
  connect: { parameters: ["i32", "buffer", "u32"], result: "i32" },
} as const satisfies Deno.ForeignLibraryInterface;

type Library = Deno.DynamicLibrary<typeof SYMBOLS>;

/** What differs between systems. */
interface System {
  readonly libraries: readonly string[];
  readonly fdFolder: string;
  /** The first octet of a socket address is its length, the second its family. */
  readonly lengthFirst: boolean;
  readonly inet6: number;
  /** Makes the coming close of the socket `fd` a reset. */
  reset(c: Library["symbols"], fd: number): void;
}

const SOCKADDR_BYTES = 128;
/** `struct linger { int l_onoff = 1; int l_linger = 0; }`, little-endian as all supported machines are. */
const LINGER_ZERO = new Uint8Array([1, 0, 0, 0, 0, 0, 0, 0]);
const AF_INET = 2;

const SYSTEMS: Partial<Record<typeof Deno.build.os, System>> = {
  linux: {
    libraries: ["libc.so.6", "libc.so"],
    fdFolder: "/proc/self/fd",
    lengthFirst: false,
    inet6: 10,
    // Deno shuts its writing side down before it closes, which says "the end" first. Connecting to
    // nowhere (AF_UNSPEC, connect(2)) dissolves the association at once, by a reset.
    reset: (c, fd) => void c.connect(fd, new Uint8Array(16), 16),
  },
  darwin: {
    libraries: ["libSystem.B.dylib"],
    fdFolder: "/dev/fd",
    lengthFirst: true,
    inet6: 30,
    reset: (c, fd) => void c.setsockopt(fd, 0xffff, 0x80, LINGER_ZERO, LINGER_ZERO.length),
  },
};

let library: Library | null | undefined;

/** The C library, or null where it cannot be had: then a reset is a plain close. */
function libc(system: System): Library | null {
  if (library !== undefined) return library;
  library = null;
  for (const name of system.libraries) {
    try {
      library = Deno.dlopen(name, SYMBOLS);
      break;
    } catch {
      // Another name, or none: FFI may be forbidden.
    }
  }
  return library;
}

/** A `Deno.TcpConn`, or what closes like one. */
export interface Resettable {
  readonly localAddr?: Deno.NetAddr;
  readonly remoteAddr?: Deno.NetAddr;
  close(): void;
}

/**
 * Closes `socket` so that its other end gets a reset. Where the system gives no way to do that (Windows,
 * FFI forbidden) it is a plain close.
 */
export function resetConnection(socket: Resettable): void {
  try {
    prepareReset(socket);
  } catch {
    // Whatever went wrong, the connection has to be closed.
  }
  try {
    socket.close();
  } catch {
    // It was closed before.
  }
}

function prepareReset(socket: Resettable): void {
  const system = SYSTEMS[Deno.build.os];
  const c = system === undefined ? null : libc(system)?.symbols;
  if (system === undefined || !c) return;
  const { localAddr, remoteAddr } = socket;
  if (localAddr === undefined || remoteAddr === undefined) return;
  for (const fd of descriptors(c, system).get(remoteAddr.port) ?? []) {
    // The number may belong to something else by now.
    if (!isAt(c.getpeername, fd, remoteAddr, system)) continue;
    if (!isAt(c.getsockname, fd, localAddr, system)) continue;
    system.reset(c, fd);
    return;
  }
}

let byRemotePort: Map<number, number[]> | null = null;

/**
 * Descriptors of connected sockets by the port of their other end. Kept for one turn: a lost peer may
 * end thousands of connections at once, and each would look at all of them.
 */
function descriptors(c: Library["symbols"], system: System): ReadonlyMap<number, number[]> {
  if (byRemotePort !== null) return byRemotePort;
  const found = new Map<number, number[]>();
  for (const entry of Deno.readDirSync(system.fdFolder)) {
    const fd = Number(entry.name);
    addressLength[0] = SOCKADDR_BYTES;
    if (c.getpeername(fd, address, addressLength) !== 0) continue;
    const port = address[2]! * 256 + address[3]!;
    const others = found.get(port);
    if (others === undefined) found.set(port, [fd]);
    else others.push(fd);
  }
  byRemotePort = found;
  queueMicrotask(() => byRemotePort = null);
  return found;
}

const address = new Uint8Array(SOCKADDR_BYTES);
const addressLength = new Uint32Array(1);

/** Whether the native call says that `fd` is at `expected`. The port decides first: it differs most. */
function isAt(
  ask: (fd: number, into: Uint8Array<ArrayBuffer>, size: Uint32Array<ArrayBuffer>) => number,
  fd: number,
  expected: Deno.NetAddr,
  system: System,
): boolean {
  addressLength[0] = SOCKADDR_BYTES;
  if (ask(fd, address, addressLength) !== 0) return false;
  if (address[2]! * 256 + address[3]! !== expected.port) return false;
  const family = system.lengthFirst ? address[1]! : address[0]!;
  if (family !== system.inet6) {
    if (family !== AF_INET) return false;
    return address.subarray(4, 8).join(".") === expected.hostname.replace(/^::ffff:/, "");
  }
  return sameIpv6(address.subarray(8, 24), expected.hostname);
}

/** Compares 16 octets with an address as Deno shows it, which may be an IPv4 address mapped into IPv6. */
function sameIpv6(octets: Uint8Array, hostname: string): boolean {
  const mapped = octets.subarray(0, 12).join() === MAPPED_PREFIX.join();
  if (mapped && octets.subarray(12).join(".") === hostname.replace(/^::ffff:/, "")) return true;
  const groups: string[] = [];
  for (let i = 0; i < 16; i += 2) groups.push((octets[i]! * 256 + octets[i + 1]!).toString(16));
  try {
    const canonical = (text: string) => new URL(`http://[${text}]/`).hostname;
    return canonical(groups.join(":")) === canonical(hostname.split("%")[0]!);
  } catch {
    return false;
  }
}

const MAPPED_PREFIX = new Uint8Array([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff]);
