// What clients of Streamable HTTP do when a connection is lost: they take up the stream, and nothing is lost or comes twice.
import { afterAll, beforeAll, describe, expect, test } from "vitest";

import { startHttp } from "./bridge.ts";
import { clients } from "./clients.mjs";
import { Lines } from "./lines.ts";
import type { ClientRow, Peer } from "./peer.ts";
import { startProxy, type Proxy } from "./proxy.ts";
import { said } from "./tour.ts";

const primed = (client: ClientRow) => client.revision === "2025-11-25" && client.transports.includes("http");

/** Where the stream of a countdown is lost. */
const cuts: { where: string; after: RegExp; of?: (client: ClientRow) => boolean }[] = [
  { where: "after the priming event", after: /\nretry: \d+\ndata: ?\n\n/, of: primed },
  { where: "after an event", after: /"progress":1[,}][^\n]*\n\n/ },
  { where: "inside an event", after: /"progress":2/ },
  { where: "inside the result", after: /"result":/ },
];

let bridge: Awaited<ReturnType<typeof startHttp>>;
let polling: typeof bridge;
beforeAll(async () => {
  bridge = await startHttp("witness", new Lines());
  polling = await startHttp("witness", new Lines(), "version: 1\nserve: {http: {pollAfter: 300ms}}\n");
});
afterAll(async () => {
  await bridge.stop();
  await polling.stop();
});

for (const client of clients) {
  if (!client.resumes) continue;
  describe(`${client.name}, which takes up a stream ${client.resumes},`, () => {
    for (const { where, after, of = () => true } of cuts) {
      if (!of(client)) continue;
      // Most of it is waiting before coming back.
      test.concurrent(`loses nothing of a call's stream that is cut ${where}`, async () => {
        await through(bridge.url, client, async (peer, proxy) => {
          await losesNothing(client, peer, proxy, after);
        });
      });
    }

    test("is told of what changed while no stream was there to tell it", async () => {
      await through(bridge.url, client, async (peer, proxy) => {
        const toldTwice = async () => {
          for (const tool of ["learn", "forget"]) {
            const change = peer.change("tools");
            await peer.call(tool, {});
            await change;
          }
        };
        // Before its stream has begun, a client is not told of changes.
        await proxy.answered(/^GET /);
        await toldTwice();
        proxy.drop(/^GET /);
        await toldTwice();
        expect(resumptions(proxy)).toHaveLength(1);
      });
    });
  });
}

describe("when the bridge cuts streams on purpose", () => {
  for (const client of clients.filter(primed)) {
    test.concurrent(`${client.name} comes back for the rest`, async () => {
      await through(polling.url, client, async (peer, proxy) => {
        const seen: number[] = [];
        const result = await peer.call("countdown", { steps: 5, seconds: 0.1 }, { onProgress: (p) => seen.push(p.progress) });
        expect(said(result)).toBe("Lift-off!");
        expect(seen).toEqual([0, 1, 2, 3, 4, 5]);
        expect(calls(proxy), "calls").toBe(1);
        expect(resumptions(proxy).length, "times it came back").toBeGreaterThan(0);
      });
    });
  }
});

/** Connects a client by way of a proxy, for as long as `visit` takes. */
async function through(url: string, client: ClientRow, visit: (peer: Peer, proxy: Proxy) => Promise<void>): Promise<void> {
  const proxy = await startProxy(url);
  try {
    const peer = await client.connect({ transport: "http", url: proxy.url });
    await visit(peer, proxy);
    await peer.close();
  } finally {
    await proxy.stop();
  }
}

async function losesNothing(client: ClientRow, peer: Peer, proxy: Proxy, after: RegExp): Promise<void> {
  const seen: number[] = [];
  const ids: string[] = [];
  const onProgress = (p: { progress: number }) => seen.push(p.progress);
  const onEvent = (id: string) => ids.push(id);
  proxy.cut(/"countdown"/, after);

  const first = peer.call("countdown", { steps: 3, seconds: 0.1 }, { onProgress, onEvent });
  let result = first;
  if (client.resumes === "when told") {
    first.catch(() => undefined); // it waits for an answer until the connection is closed
    await peer.complaint("disconnected");
    const last = ids.at(-1);
    if (last === undefined) throw new Error("the stream has no ids, so it cannot be taken up");
    result = peer.call("countdown", {}, { onProgress, after: last });
  }
  expect(said(await result)).toBe("Lift-off!");
  expect(seen).toEqual([0, 1, 2, 3]);
  expect(calls(proxy), "calls").toBe(1);
  const lost = resumptions(proxy);
  expect(lost).toHaveLength(1);
  expect(ids).toContain(lost[0]);
}

/** How often the countdown was called. */
function calls(proxy: Proxy): number {
  return proxy.exchanges.filter((e) => e.request.includes('"countdown"')).length;
}

/** The events after which a stream was taken up. */
function resumptions(proxy: Proxy): string[] {
  return proxy.exchanges.flatMap((e) => /^GET [^]*\r\nlast-event-id: ([^\r]+)/i.exec(e.request)?.[1] ?? []);
}
