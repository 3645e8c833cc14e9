/**
 * Bridges with links that a test can cut: between a role and its nats-server, and between a leaf and
 * its hub.
 * @module
 */
import { backendSettings, startBackend } from "../helpers/backend.ts";
import { freePort, type NatsServer, startNats } from "../helpers/nats_server.ts";
import { type Natsway, type Settings, startNatsway } from "../helpers/natsway.ts";
import { type Script, startUpstream, type Upstream } from "../helpers/upstream.ts";
import { Cable } from "./cable.ts";
import { askTunnel, OPEN_PROXY } from "./tunnels.ts";
import { pause } from "../helpers/wait.ts";

/** A running bridge. */
export interface Bridge extends AsyncDisposable {
  /** The server of the receiver, and with a single one of the requester too. */
  readonly nats: NatsServer;
  readonly upstream: Upstream;
  readonly requester: Natsway;
  readonly receiver: Natsway;
  /** The link that can be cut. */
  readonly cable: Cable;
}

export interface BridgeOptions {
  readonly settings?: Settings;
  readonly upstream?: Script;
}

const READY_MS = 15_000;

function commonSettings(options: BridgeOptions): Settings {
  return {
    ...OPEN_PROXY,
    TARGET_ALLOW: "127.0.0.0/8",
    LOG_LEVEL: "info",
    ...options.settings,
  };
}

/** One nats-server; `role` reaches it over the cable. */
export async function startCabled(
  role: "requester" | "receiver",
  options: BridgeOptions = {},
): Promise<Bridge> {
  await using stack = new AsyncDisposableStack();
  const nats = stack.use(await startBackend());
  const cable = stack.use(await Cable.to(nats.port));
  const upstream = stack.use(await startUpstream(options.upstream));
  const settings = { ...commonSettings(options), ...backendSettings() };
  const urlOf = (one: string) => one === role ? `nats://127.0.0.1:${cable.port}` : nats.url;
  const [requester, receiver] = await Promise.all([
    startNatsway("requester", { ...settings, NATS_URL: urlOf("requester") }),
    startNatsway("receiver", {
      ...settings,
      NATS_URL: urlOf("receiver"),
      UPSTREAM_URL: upstream.url,
    }),
  ]);
  stack.use(requester);
  stack.use(receiver);
  const kept = stack.move();
  const parts = { nats, upstream, requester, receiver, cable };
  return { ...parts, [Symbol.asyncDispose]: () => kept.disposeAsync() };
}

/** The requester on a leaf, the receiver on the hub, the cable between the two servers. In Core. */
export async function startLeafBridge(options: BridgeOptions = {}): Promise<Bridge> {
  await using stack = new AsyncDisposableStack();
  const linkPort = freePort();
  const cable = stack.use(await Cable.to(linkPort));
  // A leaf also tries what its hub says of itself, which must not lead past the cable.
  const advertised = `127.0.0.1:${cable.port}`;
  const hub = stack.use(
    await startNats({
      config: `server_name: hub\n` +
        `leafnodes { listen: "127.0.0.1:${linkPort}", advertise: "${advertised}" }\n`,
    }),
  );
  const leaf = stack.use(
    await startNats({
      config: `server_name: leaf\n` +
        `leafnodes { reconnect: 1, remotes: [{ url: "nats://${advertised}" }] }\n`,
    }),
  );
  const upstream = stack.use(await startUpstream(options.upstream));
  const settings = commonSettings(options);
  const requester = stack.use(
    await startNatsway("requester", { ...settings, NATS_URL: leaf.url }),
  );
  const receiver = stack.use(
    await startNatsway("receiver", {
      ...settings,
      NATS_URL: hub.url,
      UPSTREAM_URL: upstream.url,
    }),
  );
  // The leaf link is up when what is asked on one side is answered on the other.
  const until = performance.now() + READY_MS;
  for (;;) {
    await using tunnel = await askTunnel(requester.port, `127.0.0.1:${upstream.port}`);
    if (tunnel.status === 200) break;
    if (performance.now() > until) throw new Error("the leaf link did not come up");
    await pause(50);
  }
  const kept = stack.move();
  const parts = { nats: hub, upstream, requester, receiver, cable };
  return { ...parts, [Symbol.asyncDispose]: () => kept.disposeAsync() };
}
