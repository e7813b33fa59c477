// A TCP proxy that loses connections when it is told to, at a byte that is told.
import { EventEmitter, once } from "node:events";
import { connect, createServer, type AddressInfo, type Socket } from "node:net";

export interface Proxy {
  /** The bridge's, by way of the proxy. */
  url: string;
  /** What was asked and answered so far, heads and bodies. */
  exchanges: Exchange[];
  /** Resolves when a request that matches has begun to be answered. */
  answered(request: RegExp): Promise<void>;
  /** Loses the connection of a request as soon as its response has matched, once. What comes after the match is not passed on. */
  cut(request: RegExp, response: RegExp): void;
  /** Loses, now, every connection whose latest request matches. */
  drop(request: RegExp): void;
  stop(): Promise<void>;
}

export interface Exchange {
  request: string;
  response: string;
}

export async function startProxy(bridge: string): Promise<Proxy> {
  const to = new URL(bridge);
  const open = new Set<Connection>();
  const exchanges: Exchange[] = [];
  const answers = new EventEmitter();
  let knife: { request: RegExp; response: RegExp } | undefined;

  const server = createServer((client) => {
    const upstream = connect(Number(to.port), to.hostname);
    const connection: Connection = { ends: [client, upstream], exchange: { request: "", response: "" } };
    open.add(connection);
    for (const end of connection.ends) {
      end.setNoDelay();
      end.on("error", () => undefined); // "close" follows
      end.on("close", () => {
        lose(connection);
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
      const before = exchange.response.length;
      exchange.response += bytes.toString("latin1");
      answers.emit("data");
      const found = knife?.request.test(exchange.request) && knife.response.exec(exchange.response);
      if (!found) {
        client.write(bytes);
        return;
      }
      knife = undefined;
      upstream.destroy();
      client.end(bytes.subarray(0, found.index + found[0].length - before));
    });
  });
  const lose = (connection: Connection) => {
    open.delete(connection);
    for (const end of connection.ends) end.destroy();
  };

  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
  const url = new URL(bridge);
  url.port = String((server.address() as AddressInfo).port);
  return {
    url: url.href,
    exchanges,
    async answered(request) {
      while (!exchanges.some((e) => request.test(e.request) && e.response !== "")) await once(answers, "data");
    },
    cut(request, response) {
      knife = { request, response };
    },
    drop(request) {
      for (const connection of [...open]) if (request.test(connection.exchange.request)) lose(connection);
    },
    stop: () =>
      new Promise((stopped) => {
        for (const connection of [...open]) lose(connection);
        server.close(() => {
          stopped();
        });
      }),
  };
}

interface Connection {
  ends: [Socket, Socket];
  exchange: Exchange;
}
