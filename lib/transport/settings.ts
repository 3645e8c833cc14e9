/**
 * What the settings say of the connection to NATS.
 * @module
 */
import type { Config } from "../config/settings.ts";
import { errorText, StartError } from "../errors.ts";
import type { NatsAuth } from "./auth.ts";
import type { LinkOptions } from "./link_dialer.ts";
import type { NatsTls } from "./nats_socket.ts";

/**
 * The options of a link by the settings; reads the PEM files.
 * @throws {StartError} a file cannot be read
 */
export function linkSettings(config: Config): Omit<LinkOptions, "logger"> {
  const auth = authOf(config);
  const tls = tlsOf(config);
  return {
    servers: config.natsUrls,
    ...(auth === null ? {} : { auth }),
    ...(tls === null ? {} : { tls }),
    name: `natsway-${config.serviceRole}-${config.serviceId}`,
  };
}

function authOf(config: Config): NatsAuth | null {
  if (config.natsCreds !== null) return { kind: "creds", creds: config.natsCreds };
  if (config.natsNkeySeed !== null) return { kind: "nkey", seed: config.natsNkeySeed };
  if (config.natsToken !== null) return { kind: "token", token: config.natsToken };
  if (config.natsUser !== null) {
    return { kind: "user", user: config.natsUser, password: config.natsPassword ?? "" };
  }
  return null;
}

function tlsOf(config: Config): NatsTls | null {
  const { natsTlsCa, natsTlsCert, natsTlsKey, natsTlsFirst } = config;
  if (natsTlsCa === null && natsTlsCert === null && !natsTlsFirst) return null;
  return {
    ...(natsTlsCa === null ? {} : { ca: readPem(natsTlsCa, "NATS_TLS_CA") }),
    ...(natsTlsCert === null ? {} : { cert: readPem(natsTlsCert, "NATS_TLS_CERT") }),
    ...(natsTlsKey === null ? {} : { key: readPem(natsTlsKey, "NATS_TLS_KEY") }),
    handshakeFirst: natsTlsFirst,
  };
}

function readPem(path: string, setting: string): string {
  try {
    return Deno.readTextFileSync(path);
  } catch (error) {
    throw new StartError(`cannot read ${setting} ${path}: ${errorText(error)}`, { cause: error });
  }
}
