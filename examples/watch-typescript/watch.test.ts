import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

import { start, type Client } from "mcpbridge/testing";
import { afterAll, beforeAll, expect, test } from "vitest";

const here = (path: string) => fileURLToPath(new URL(path, import.meta.url));
const folder = mkdtempSync(join(tmpdir(), "watch"));
const uri = (file: string) => pathToFileURL(join(folder, file)).href;
let client: Client;

beforeAll(async () => {
  writeFileSync(join(folder, "a.txt"), "one\ntwo\n");
  writeFileSync(join(folder, ".hidden"), "");
  const bridge = process.env.MCPBRIDGE_BIN ?? here("../../bin/mcpbridge");
  client = await start([process.execPath, "--import", "tsx", here("watch.ts"), folder], { bridge, cwd: here(".") });
});

afterAll(async () => {
  await client.close();
  rmSync(folder, { recursive: true });
});

const list = async () => ((await client.request("resources/list")).resources as { name: string }[]).map((r) => r.name);

/** Waits for a state of the list. A notification is a hint, and may be sent more often than the list changes. */
const waitForList = async (want: string[]) => {
  while (JSON.stringify(await list()) !== JSON.stringify(want)) {
    await client.notification("notifications/resources/list_changed");
  }
};

test("files are resources", async () => {
  expect(await list()).toEqual(["a.txt"]);
  const { contents } = await client.request("resources/read", { uri: uri("a.txt") });
  expect(contents).toMatchObject([{ uri: uri("a.txt"), mimeType: "text/plain", text: "one\ntwo\n" }]);
  await expect(client.request("resources/read", { uri: uri(".hidden") })).rejects.toMatchObject({ code: -32002 });
});

test("a file that is read is watched", async () => {
  await client.request("resources/subscribe", { uri: uri("a.txt") });
  const waiting = client.call("wait_for_change", { seconds: 20 });
  await client.notification("notifications/progress");
  writeFileSync(join(folder, "a.txt"), "three\n");
  expect((await client.notification("notifications/resources/updated")).params).toMatchObject({ uri: uri("a.txt") });
  expect(await waiting).toBe("a.txt was changed");
  expect(await client.call("search", { text: "thr" })).toContain("a.txt:1: three");
});

test("files are added and removed", async () => {
  writeFileSync(join(folder, "b.bin"), new Uint8Array([0xff, 0]));
  await waitForList(["a.txt", "b.bin"]);
  const { contents } = await client.request("resources/read", { uri: uri("b.bin") });
  expect(contents).toMatchObject([{ blob: "/wA=" }]);
  const ref = { type: "ref/prompt", name: "explain" };
  const completed = await client.request("completion/complete", { ref, argument: { name: "file", value: "b" } });
  expect(completed).toMatchObject({ completion: { values: ["b.bin"] } });
  rmSync(join(folder, "b.bin"));
  await waitForList(["a.txt"]);
  expect(JSON.parse(await client.call("changes"))).toMatchObject([
    { file: "b.bin", what: "removed" },
    { what: "added" },
    { what: "changed" },
  ]);
});
