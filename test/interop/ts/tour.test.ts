import { afterAll, beforeAll, describe, expect, test } from "vitest";

import { descendants, waitForExit, startHttp, stdioCommand } from "./bridge.ts";
import { clients } from "./clients.mjs";
import { Lines } from "./lines.ts";
import type { ClientRow, Peer, Place } from "./peer.ts";
import { tour, type Backend } from "./tour.ts";

for (const backend of Object.keys(tour) as Backend[]) {
  describe(`with ${backend} behind the bridge`, () => {
    // All clients of all revisions share one bridge at one URL.
    const httpLog = new Lines();
    let http: Awaited<ReturnType<typeof startHttp>>;
    beforeAll(async () => {
      http = await startHttp(backend, httpLog);
    });
    afterAll(async () => {
      await http.stop();
    });

    for (const client of clients) {
      for (const transport of client.transports) {
        describe(`${client.name}, which ${client.manner}, over ${transport},`, () => {
          runTour(backend, client, () => {
            if (transport !== "stdio") return { place: { transport, url: http.url }, log: httpLog };
            const log = new Lines();
            const onStderr = (text: string) => {
              log.write(text);
            };
            return { place: { transport, ...stdioCommand(backend), onStderr }, log };
          });
        });
      }
    }
  });
}

function runTour(backend: Backend, client: ClientRow, prepare: () => { place: Place; log: Lines }): void {
  let peer: Peer;
  let log: Lines;
  let before: Set<number>;
  beforeAll(async () => {
    before = new Set(descendants(process.pid));
    const connection = prepare();
    log = connection.log;
    peer = await client.connect(connection.place);
  });

  test(`speaks ${client.revision}`, () => {
    expect(peer.revision).toBe(client.revision);
  });

  for (const check of tour[backend]) {
    test(check.name, async () => {
      await check.run(peer, { log, client });
    });
  }

  test("leaves nothing running", async () => {
    const own = descendants(process.pid).filter((pid) => !before.has(pid));
    await peer.close();
    await waitForExit(own);
  });
}
