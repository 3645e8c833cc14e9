/**
 * The local routes (http-surface.md sections 2 and 6.4): what probes and people ask a process.
 * @module
 */
import { Hono } from "hono";
import type { TransportStatus } from "../transport/types.ts";

/** What the routes show; read anew for each request. */
export interface ServiceView {
  readonly role: "requester" | "receiver";
  readonly serviceId: string;
  readonly state: "idle" | "booting" | "ready" | "failed" | "stopped";
  /** Why it is not in service, or null. */
  readonly reason: string | null;
  readonly transport: TransportStatus;
  /** The request listener runs and is connected. */
  readonly bridgeInbound: boolean;
  /** The response listener runs and is connected. */
  readonly bridgeOutbound: boolean;
  readonly flows: number;
}

export interface RoutesOptions {
  readonly view: () => ServiceView;
  /** What the backend tells of itself, see `Transport.inspect`. */
  readonly inspect: () => Promise<Readonly<Record<string, unknown>>>;
  /** Who may read more than health and readiness. */
  readonly access: "local" | "open" | "off";
  /** Opens the pages to its bearer; null for none. */
  readonly token: string | null;
}

/** The application for the local routes. It serves GET and HEAD. */
export function localRoutes(
  options: RoutesOptions,
): (request: Request, clientAddress: string) => Promise<Response> {
  const app = new Hono<{ Bindings: { clientAddress: string } }>();
  const healthy = { Status: "Healthy" };
  app.get("/health", (context) => context.json(healthy));
  app.get("/healthcheck", (context) => context.json(healthy));
  app.get("/observability/ready", (context) => {
    const { state, reason, role, serviceId } = options.view();
    const ready = reason === null;
    return context.json(
      { ready, state, role, service_id: serviceId, ...(ready ? {} : { reason }) },
      ready ? 200 : 503,
    );
  });
  app.use("/observability/*", async (context, next) => {
    if (!mayRead(context.req.raw, context.env.clientAddress, options)) return denied();
    return await next();
  });
  app.get("/observability/nats", async (context) => {
    const details = await options.inspect();
    return context.json(natsPage(options.view(), details));
  });
  app.notFound((context) => context.text("Not Found", 404));
  return async (request, clientAddress) => await app.fetch(request, { clientAddress });
}

function denied(): Response {
  const message = "Ask from this machine, with the bearer token of OBSERVABILITY_TOKEN, or set " +
    "OBSERVABILITY_ACCESS=open";
  return Response.json({ error: "Forbidden", message, code: "access_denied" }, { status: 403 });
}

function mayRead(request: Request, clientAddress: string, options: RoutesOptions): boolean {
  const { access, token } = options;
  if (token !== null && bearer(request) !== null && sameText(bearer(request)!, token)) return true;
  switch (access) {
    case "open":
      return true;
    case "off":
      return false;
    case "local":
      // Behind a proxy on this machine every client has a loopback address.
      return isLoopback(clientAddress) && !request.headers.has("x-forwarded-for") &&
        !request.headers.has("forwarded");
  }
}

function bearer(request: Request): string | null {
  return /^bearer +(\S+)$/i.exec(request.headers.get("authorization") ?? "")?.[1] ?? null;
}

/** Compares without telling by its time where the texts differ. */
function sameText(a: string, b: string): boolean {
  let different = a.length ^ b.length;
  for (let i = 0; i < a.length; i++) {
    different |= a.charCodeAt(i) ^ b.charCodeAt(i % Math.max(1, b.length));
  }
  return different === 0;
}

function isLoopback(address: string): boolean {
  return address === "::1" || /^(?:::ffff:)?127\.\d+\.\d+\.\d+$/.test(address);
}

/** `/observability/nats`: http-surface.md section 6.4. */
function natsPage(
  view: ServiceView,
  details: Readonly<Record<string, unknown>>,
): Record<string, unknown> {
  const { transport } = view;
  return {
    ts: new Date().toISOString(),
    service_id: view.serviceId,
    role: view.role,
    backend: transport.backend,
    connection: {
      status: transport.status,
      connected: transport.connected,
      disconnected: !transport.connected,
      closed: transport.status === "closed",
      draining: false,
      last_error: transport.lastError,
      server: transport.server,
      round_trip_ms: transport.roundTripMs,
      reconnects: transport.reconnects,
      server_info: transport.serverInfo,
    },
    stats: {
      sent_pings: transport.sentPings,
      received_pings: transport.receivedPings,
      received_pongs: transport.receivedPongs,
      sent_messages: transport.sentMessages,
      received_messages: transport.receivedMessages,
      sent_bytes: transport.sentBytes,
      received_bytes: transport.receivedBytes,
    },
    mode_details: {
      backend_mode: transport.backend,
      reason: transport.backendReason,
      ...details,
    },
    state: view.state,
    error: view.reason,
    bridge_inbound: view.bridgeInbound,
    bridge_outbound: view.bridgeOutbound,
    flows: view.flows,
  };
}
