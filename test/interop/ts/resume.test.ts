// Clients of Streamable HTTP resume a stream after a lost connection, without lost or duplicate events.
import { afterAll, beforeAll, describe, expect, test } from "vitest";

import { startHttp } from "./bridge.ts";
import { clients } from "./clients.mjs";
import { Lines } from "./lines.ts";
import type { ClientRow, Peer } from "./peer.ts";
import { startProxy, type Proxy } from "./proxy.ts";
import { textOf } from "./tour.ts";

const usesPrimingEvents = (client: ClientRow) => client.revision === "2025-11-25" && client.transports.includes("http");

/** Where the connection of a countdown is closed. */
const cuts: { where: string; after: RegExp; of?: (client: ClientRow) => boolean }[] = [
  { where: "after the priming event", after: /\nretry: \d+\ndata: ?\n\n/, of: usesPrimingEvents },
  { where: "after an event", after: /"progress":1[,}][^\n]*\n\n/ },
  { where: "inside an event", after: /"progress":2/ },
  { where: "inside the result", after: /"result":/ },
];

let bridge: Awaited<ReturnType<typeof startHttp>>;
let pollingBridge: typeof bridge;
beforeAll(async () => {
  bridge = await startHttp("witness", new Lines());
  pollingBridge = await startHttp("witness", new Lines(), "version: 1\nserve: {http: {pollAfter: 300ms}}\n");
});
afterAll(async () => {
  await bridge.stop();
  await pollingBridge.stop();
});

for (const client of clients) {
  if (!client.resumes) continue;
  describe(`${client.name}, which resumes a stream ${client.resumes},`, () => {
    for (const { where, after, of = () => true } of cuts) {
      if (!of(client)) continue;
      // Most of the time is the delay before resuming.
      test.concurrent(`loses nothing of a call's stream that is cut ${where}`, async () => {
        await withProxy(bridge.url, client, async (peer, proxy) => {
          await resumesAfter(client, peer, proxy, after);
        });
      });
    }

    test("receives the changes of the time without a stream", async () => {
      await withProxy(bridge.url, client, async (peer, proxy) => {
        const changeTwice = async () => {
          for (const tool of ["learn", "forget"]) {
            const change = peer.change("tools");
            await peer.call(tool, {});
            await change;
          }
        };
        // A client receives no changes before its stream has started.
        await proxy.responseStarted(/^GET /);
        await changeTwice();
        proxy.drop(/^GET /);
        await changeTwice();
        expect(resumptions(proxy)).toHaveLength(1);
      });
    });
  });
}

describe("when the bridge cuts streams on purpose", () => {
  for (const client of clients.filter(usesPrimingEvents)) {
    test.concurrent(`${client.name} resumes`, async () => {
      await withProxy(pollingBridge.url, client, async (peer, proxy) => {
        const seen: number[] = [];
        const result = await peer.call("countdown", { steps: 5, seconds: 0.1 }, {
          onProgress: (p) => seen.push(p.progress),
        });
        expect(textOf(result)).toBe("Lift-off!");
        expect(seen).toEqual([0, 1, 2, 3, 4, 5]);
        expect(calls(proxy), "calls").toBe(1);
        expect(resumptions(proxy).length, "resumptions").toBeGreaterThan(0);
      });
    });
  }
});

/** Runs a function with a client that is connected through a proxy. */
async function withProxy(
  url: string,
  client: ClientRow,
  fn: (peer: Peer, proxy: Proxy) => Promise<void>,
): Promise<void> {
  const proxy = await startProxy(url);
  try {
    const peer = await client.connect({ transport: "http", url: proxy.url });
    await fn(peer, proxy);
    await peer.close();
  } finally {
    await proxy.stop();
  }
}

async function resumesAfter(client: ClientRow, peer: Peer, proxy: Proxy, after: RegExp): Promise<void> {
  const seen: number[] = [];
  const ids: string[] = [];
  const onProgress = (p: { progress: number }) => seen.push(p.progress);
  const onEvent = (id: string) => ids.push(id);
  proxy.cut(/"countdown"/, after);

  const first = peer.call("countdown", { steps: 3, seconds: 0.1 }, { onProgress, onEvent });
  let result = first;
  if (client.resumes === "on request") {
    first.catch(() => undefined); // It waits for a response until the connection is closed.
    await peer.waitForError("disconnected");
    const last = ids.at(-1);
    if (last === undefined) throw new Error("the stream has no ids, so it cannot be resumed");
    result = peer.call("countdown", {}, { onProgress, after: last });
  }
  expect(textOf(await result)).toBe("Lift-off!");
  expect(seen).toEqual([0, 1, 2, 3]);
  expect(calls(proxy), "calls").toBe(1);
  const lost = resumptions(proxy);
  expect(lost).toHaveLength(1);
  expect(ids).toContain(lost[0]);
}

/** Returns how often the countdown was called. */
function calls(proxy: Proxy): number {
  return proxy.exchanges.filter((e) => e.request.includes('"countdown"')).length;
}

/** Returns the events after which a stream was resumed. */
function resumptions(proxy: Proxy): string[] {
  return proxy.exchanges.flatMap((e) => /^GET [^]*\r\nlast-event-id: ([^\r]+)/i.exec(e.request)?.[1] ?? []);
}
