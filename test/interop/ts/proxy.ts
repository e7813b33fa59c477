// A TCP proxy that closes connections on request, at a chosen byte.
import { EventEmitter, once } from "node:events";
import { connect, createServer, type AddressInfo, type Socket } from "node:net";

export interface Proxy {
  /** The URL of the bridge through the proxy. */
  url: string;
  /** The requests and responses so far, with headers and bodies. */
  exchanges: Exchange[];
  /** Resolves when the response to a matching request has started. */
  responseStarted(request: RegExp): Promise<void>;
  /** Closes the connection of a request once, when its response matches. Bytes after the match are not forwarded. */
  cut(request: RegExp, response: RegExp): void;
  /** Closes every connection whose latest request matches. */
  drop(request: RegExp): void;
  stop(): Promise<void>;
}

export interface Exchange {
  request: string;
  response: string;
}

export async function startProxy(bridge: string): Promise<Proxy> {
  const target = new URL(bridge);
  const open = new Set<Connection>();
  const exchanges: Exchange[] = [];
  const responses = new EventEmitter();
  let pendingCut: { request: RegExp; response: RegExp } | undefined;

  const server = createServer((client) => {
    const upstream = connect(Number(target.port), target.hostname);
    const connection: Connection = { ends: [client, upstream], exchange: { request: "", response: "" } };
    open.add(connection);
    for (const end of connection.ends) {
      end.setNoDelay();
      end.on("error", () => undefined); // "close" follows.
      end.on("close", () => {
        closeConnection(connection);
      });
    }
    client.on("data", (bytes) => {
      const text = bytes.toString("latin1");
      if (/^[A-Z]+ \//.test(text)) {
        connection.exchange = { request: "", response: "" };
        exchanges.push(connection.exchange);
      }
      connection.exchange.request += text;
      upstream.write(bytes);
    });
    upstream.on("data", (bytes) => {
      const { exchange } = connection;
      const forwarded = exchange.response.length;
      exchange.response += bytes.toString("latin1");
      responses.emit("data");
      const found = pendingCut?.request.test(exchange.request) && pendingCut.response.exec(exchange.response);
      if (!found) {
        client.write(bytes);
        return;
      }
      pendingCut = undefined;
      upstream.destroy();
      client.end(bytes.subarray(0, found.index + found[0].length - forwarded));
    });
  });
  const closeConnection = (connection: Connection) => {
    open.delete(connection);
    for (const end of connection.ends) end.destroy();
  };

  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const url = new URL(bridge);
  url.port = String((server.address() as AddressInfo).port);
  return {
    url: url.href,
    exchanges,
    async responseStarted(request) {
      while (!exchanges.some((e) => request.test(e.request) && e.response !== "")) await once(responses, "data");
    },
    cut(request, response) {
      pendingCut = { request, response };
    },
    drop(request) {
      for (const connection of [...open]) if (request.test(connection.exchange.request)) closeConnection(connection);
    },
    stop: () =>
      new Promise((resolve) => {
        for (const connection of [...open]) closeConnection(connection);
        server.close(() => {
          resolve();
        });
      }),
  };
}

interface Connection {
  ends: [Socket, Socket];
  exchange: Exchange;
}
