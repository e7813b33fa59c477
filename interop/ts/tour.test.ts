import { afterAll, beforeAll, describe, expect, test } from "vitest";

import { descendants, gone, startHttp, stdioCommand } from "./bridge.ts";
import { clients } from "./clients.mjs";
import { Lines } from "./lines.ts";
import type { ClientRow, Peer, Place } from "./peer.ts";
import { tour } from "./tour.ts";

// All clients of both eras share one bridge at one URL: that is the point of it.
const httpLog = new Lines();
let http: Awaited<ReturnType<typeof startHttp>>;
beforeAll(async () => {
  http = await startHttp(httpLog);
});
afterAll(async () => {
  await http.stop();
});

for (const client of clients) {
  describe(`${client.name}, which ${client.manner},`, () => {
    describe("over http", () => {
      takeTheTour(client, () => ({ place: { url: http.url }, log: httpLog }));
    });

    describe("over stdio", () => {
      takeTheTour(client, () => {
        const log = new Lines();
        const onStderr = (text: string) => {
          log.write(text);
        };
        return { place: { ...stdioCommand(), onStderr }, log };
      });
    });
  });
}

function takeTheTour(client: ClientRow, open: () => { place: Place; log: Lines }): void {
  let peer: Peer;
  let log: Lines;
  let before: Set<number>;
  beforeAll(async () => {
    before = new Set(descendants(process.pid));
    const way = open();
    log = way.log;
    peer = await client.connect(way.place);
  });

  test(`speaks ${client.revision}`, () => {
    expect(peer.revision).toBe(client.revision);
  });

  for (const stop of tour) {
    test(stop.name, async () => {
      await stop.visit(peer, log);
    });
  }

  test("leaves nothing running", async () => {
    const own = descendants(process.pid).filter((pid) => !before.has(pid));
    await peer.close();
    await gone(own);
  });
}
