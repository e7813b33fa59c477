/** A real process, called as the bridge does: handshake, TLS, streams, shutdown and disconnects. */
import { X509Certificate } from "node:crypto";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { connect } from "node:http2";
import { createConnection } from "node:net";
import { join } from "node:path";

import { credentials, type ServiceError } from "@grpc/grpc-js";
import { afterAll, beforeAll, describe, expect, test } from "vitest";

import { EVERYTHING } from "../src/testing.js";
import {
  CallContext,
  CallToolRequest,
  DiscoverRequest,
  type DiscoverResponse,
  JsonRpcError,
  type ListenResponse,
  ListToolsRequest,
  type ListToolsResponse,
  Status,
} from "../src/v1.js";
import { Client, COOKIE, Plugin, type PluginOptions } from "./plugin.js";

const managed = (o: PluginOptions = {}) => new Plugin({ ...o, env: { ...COOKIE, ...o.env } });

describe("a served app", () => {
  let plugin: Plugin;
  let client: Client;
  beforeAll(async () => {
    plugin = managed({ tls: "ours" });
    client = await plugin.connect();
  });
  afterAll(async () => {
    client.close();
    await plugin[Symbol.asyncDispose]();
  });

  test("prints one line on stdout, although tools print more", async () => {
    expect(await client.text("loud")).toBe("ok");
    await plugin.find(() => plugin.stderr.includes("written\n"));
    const [handshake, ...rest] = plugin.stdout.split("\n");
    expect(handshake).toMatch(/^1\|1\|unix\|.*\.sock\|grpc\|[A-Za-z0-9+/]{300,}$/);
    expect(handshake).not.toContain("=");
    // Output that bypasses the SDK remains, and the bridge logs it.
    expect(rest).toEqual(["written to fd 1", "echoed by a child", ""]);
    for (const line of ["before the import", "after the import", "before run"])
      expect(plugin.stderr).toContain(`printed ${line}`);
  });

  test("describes itself", async () => {
    const d = await client.unary<DiscoverResponse>("discover", DiscoverRequest.fromPartial({ context: EVERYTHING }));
    expect(d).toMatchObject({
      serverInfo: { name: "test", version: "1.0.0" },
      instructions: "Test it.",
      contractVersion: 2,
    });
    expect(Object.keys(d.capabilities ?? {}).filter((k) => d.capabilities?.[k as "tools"])).toEqual(
      expect.arrayContaining(["tools", "resources", "prompts", "logging"]),
    );
    const { tools } = await client.unary<ListToolsResponse>(
      "listTools",
      ListToolsRequest.fromPartial({ context: EVERYTHING }),
    );
    expect(tools[0]).toMatchObject({ name: "add" });
  });

  test.each([[1, undefined], [1, { contractVersion: 0 }], [3, { contractVersion: 3 }]])(
    "refuses a bridge of contract version %i",
    async (version, verified) => {
      const context = CallContext.fromPartial({ ...EVERYTHING, verified });
      const refused = {
        code: 9,
        details: `the bridge has version ${
          String(version)
        } of the contract, and this SDK has version 2: install an mcpbridge and an SDK of the same release`,
      };
      await expect(client.unary("discover", DiscoverRequest.fromPartial({ context }))).rejects.toMatchObject(refused);
      expect(await client.call("add", { a: 1, b: 2 }, context)).toMatchObject({ events: [], error: refused });
      const stream = client.mcp.listen({ context, notifications: undefined, extra: "" });
      expect(await new Promise((resolve) => stream.once("error", resolve))).toMatchObject(refused);
    },
  );

  test("returns results, also large ones", async () => {
    expect(await client.text("add", { a: 1, b: 2 })).toBe('{"sum":3}');
    const text = "ü".repeat(5_000_000);
    expect(await client.text("echo", { text })).toBe(text);
  });

  test("handles many calls at once", async () => {
    const texts = await Promise.all(Array.from({ length: 200 }, (_, i) => client.text("echo", { text: String(i) })));
    expect(texts).toEqual(Array.from({ length: 200 }, (_, i) => String(i)));
  });

  test("streams 10,000 events in order, and nothing after the result", async () => {
    const { events } = await client.call("steps", { n: 5000 });
    expect(events.length).toBe(10_001);
    expect(events.filter((e) => e.$case === "progress").map((e) => e.value.progress)).toEqual(
      Array.from({ length: 5000 }, (_, i) => i),
    );
    expect(events.at(-1)?.$case).toBe("result");
    expect((await client.call("late")).events.map((e) => e.$case)).toEqual(["result"]);
  });

  test("asks, although the handler catches it", async () => {
    const first = await client.call("greet");
    const ask = first.events.at(-1);
    if (ask?.$case !== "inputRequired") throw new Error("it did not ask");
    const key = ask.value.inputRequests[0]?.key ?? "";
    const elicit = {
      $case: "elicit" as const,
      value: { action: "accept", content: '{"name":"Ada"}', meta: "", extra: "" },
    };
    const request = CallToolRequest.fromPartial({
      context: EVERYTHING,
      name: "greet",
      ...(ask.value.requestState ? { requestState: ask.value.requestState } : {}),
    });
    request.inputResponses = { [key]: { response: elicit } };
    const second = await client.round(request);
    expect(second.events.at(-1)).toMatchObject({
      $case: "result",
      value: { content: [{ block: { value: { text: "Hello Ada" } } }] },
    });
  });

  test("has the exact JSON-RPC error in the status", async () => {
    const { error } = await client.call("exact");
    expect(error).toMatchObject({ code: 2, details: "exactly this" });
    const details = error?.metadata.get("grpc-status-details-bin")[0] as Buffer;
    const value = JsonRpcError.encode({ code: -31042, message: "exactly this", data: '{"n":[1]}' }).finish();
    const any = { typeUrl: "type.googleapis.com/mcpbridge.v1.JsonRpcError", value: Buffer.from(value) };
    expect(Status.decode(details)).toEqual({ code: 2, message: "exactly this", details: [any] });
  });

  test("returns NOT_FOUND for unknown tools", async () => {
    expect((await client.call("ad")).error).toMatchObject({
      code: 5,
      details: 'there is no tool "ad"; did you mean add?',
    });
    expect((await client.call("ü".repeat(100_000))).error).toMatchObject({ code: 5 });
  });

  test("continues after an exception, and logs its line", async () => {
    expect(await client.text("crash")).toBe("no such thing");
    await plugin.find(() =>
      /tool \\"crash\\" failed at tools\.mjs:\d+: TypeError: no such thing","stack":" +at /.exec(plugin.stderr)
    );
    expect(await client.text("forget")).toBe("ok");
    await plugin.find(() =>
      /unhandled rejection: Error: not awaited","stack":" +at .*tools\.mjs:\d+/.exec(plugin.stderr)
    );
    expect(await client.text("echo", { text: "still there" })).toBe("still there");
  });

  test("aborts the signal of a canceled call", async () => {
    const cancel = new AbortController();
    const { done } = await client.begin("slow", { ms: 30_000 }, cancel.signal);
    cancel.abort();
    expect((await done).error).toMatchObject({ code: 1 });
    await plugin.find(() => plugin.stderr.includes("slow was aborted"));
  });

  // At an end of file, a question of readline would wait forever, and its call too.
  const reads = ["question", "pipe", "iterate", "readFileSync", "/dev/stdin", "readSync"];
  test.each(reads)("fails a tool that reads stdin, with the fix: %s", async (how) => {
    expect(await client.text("stdin", { how })).toBe(
      "a tool cannot read standard input, which belongs to the bridge; ask the user: await ctx.elicit(message, schema)",
    );
    await plugin.find(() => /tool \\"stdin\\" failed at tools\.mjs:\d+/.test(plugin.stderr));
  });

  test("is healthy", async () => {
    for (const service of ["", "plugin"]) {
      const request = service
        ? Buffer.concat([Buffer.from([10, service.length]), Buffer.from(service)])
        : Buffer.alloc(0);
      expect(await client.other("check", request)).toEqual(Buffer.from([8, 1]));
    }
    await expect(client.other("check", Buffer.from([10, 1, 120]))).rejects.toMatchObject({ code: 5 });
  });

  test("sends change notifications", async () => {
    const changes: (string | undefined)[] = [];
    const notifications = {
      toolsListChanged: true,
      promptsListChanged: true,
      resourceSubscriptions: ["note:1"],
      taskIds: [],
      extra: "",
    };
    const stream = client.mcp.listen({ context: EVERYTHING, notifications, extra: "" });
    const acknowledged = new Promise<ListenResponse>((resolve) => stream.once("data", resolve));
    const everything = new Promise<void>((resolve) => {
      stream.on("data", (r: ListenResponse) => {
        changes.push(r.event?.$case === "resourceUpdated" ? r.event.value.uri : r.event?.$case);
        if (changes.at(-1) === "note:1") resolve();
      });
    });
    stream.on("error", () => undefined);
    expect((await acknowledged).event).toMatchObject({
      value: { notifications: { toolsListChanged: true, promptsListChanged: true, resourceSubscriptions: ["note:1"] } },
    });
    await client.text("grow", { name: "grown" });
    await client.text("touch", { uri: "note:2" });
    await client.text("touch", { uri: "note:1" });
    await everything;
    expect(changes).toEqual(["acknowledged", "toolsListChanged", "promptsListChanged", "note:1"]);
    expect(await client.text("grown")).toBe("grown");
    stream.cancel();
  });

  test("refuses clients without a certificate", async () => {
    const [, , , address = ""] = await plugin.handshake();
    const stranger = new Client(
      `unix:${address}`,
      credentials.createSsl(null, null, null, { rejectUnauthorized: false }),
    );
    await expect(stranger.other("check")).rejects.toMatchObject({ code: 14 });
    stranger.close();
  });
});

describe("the process exits", () => {
  test("at Shutdown: after the response and the calls in flight, and removes the socket", async () => {
    await using plugin = managed({ tls: "its own" });
    const client = await plugin.connect();
    const [, , , socket = "", , certificate = ""] = await plugin.handshake();
    expect(new X509Certificate(Buffer.from(certificate, "base64")).ca).toBe(false); // rustls rejects an authority
    const slow = await client.begin("slow", { ms: 300 });
    const notifications = { toolsListChanged: true, resourceSubscriptions: [], taskIds: [], extra: "" };
    const listen = client.mcp.listen({ context: EVERYTHING, notifications, extra: "" });
    const listening = once(listen, "data");
    const listened = new Promise<ServiceError | undefined>((resolve) => {
      listen.on("error", resolve).on("end", () => {
        resolve(undefined);
      }).resume();
    });
    await listening;
    await client.other("shutdown");
    expect((await slow.done).events.at(-1)).toMatchObject({ $case: "result" });
    expect(await listened).toBeUndefined();
    client.close();
    expect(await plugin.exited).toBe(0);
    expect(existsSync(socket)).toBe(false);
    expect(plugin.stderr).toContain("run returned");
  });

  test("at SIGTERM, and not at SIGINT", async () => {
    await using plugin = managed();
    const client = await plugin.connect();
    plugin.process.kill("SIGINT");
    expect(await client.text("echo", { text: "x" })).toBe("x");
    plugin.process.kill("SIGTERM");
    expect(await plugin.exited).toBe(0);
    client.close();
  });

  test("after 5 seconds, even if a call does not end", async () => {
    await using plugin = managed();
    const client = await plugin.connect();
    const slow = await client.begin("slow", { ms: 60_000 });
    const start = Date.now();
    await client.other("shutdown");
    expect(await plugin.exited).toBe(0);
    expect(Date.now() - start).toBeGreaterThan(4500);
    expect(Date.now() - start).toBeLessThan(30_000);
    expect((await slow.done).error).toBeDefined();
    client.close();
  });

  test("at once when the bridge exits", async () => {
    await using plugin = managed();
    const client = await plugin.connect();
    const slow = await client.begin("slow", { ms: 60_000 });
    const start = Date.now();
    plugin.process.stdin?.end();
    expect(await plugin.exited).toBe(0);
    expect(Date.now() - start).toBeLessThan(4500);
    await slow.done;
    client.close();
  });
});

describe("the process starts", () => {
  test("without TLS, if the host does not use it", async () => {
    await using plugin = managed({ tls: "none", env: { PLUGIN_MULTIPLEX_GRPC: "true" } });
    const fields = await plugin.handshake();
    expect(fields.slice(5)).toEqual(["", "false"]);
    const client = await plugin.connect();
    expect(await client.text("echo", { text: "x" })).toBe("x");
    client.close();
  });

  test("over TCP, if the socket's path would be too long", async () => {
    await using plugin = managed({ env: { PLUGIN_UNIX_SOCKET_DIR: `/tmp/${"x".repeat(100)}` } });
    const [, , network, address] = await plugin.handshake();
    expect([network, address]).toEqual(["tcp", expect.stringMatching(/^127\.0\.0\.1:\d+$/)]);
    const client = await plugin.connect();
    expect(await client.text("echo", { text: "x" })).toBe("x");
    client.close();
  });

  test("not for a host of another version", async () => {
    await using plugin = managed({ env: { PLUGIN_PROTOCOL_VERSIONS: "2,3" } });
    expect(await plugin.exited).toBe(1);
    expect(plugin.stderr).toContain(
      "the bridge supports version 2,3 of the plugin protocol, and this SDK supports version 1",
    );
    expect(plugin.stdout).toBe("");
  });

  test("not without a host, and prints how to run it", async () => {
    await using plugin = new Plugin({ tls: "none" });
    expect(await plugin.exited).toBe(2);
    expect(plugin.stderr).toContain("mcpbridge run -- node tools.mjs");
  });

  test.each([
    ["127.0.0.1:0", /mcpbridge run (tcp:127\.0\.0\.1:\d+)\n/],
    ["tcp:127.0.0.1:0", /mcpbridge run (tcp:127\.0\.0\.1:\d+)\n/],
    ["unix:FOLDER/s.sock", /mcpbridge run (unix:\/\/\/.*s\.sock)\n/],
    ["unix://FOLDER/s.sock", /mcpbridge run (unix:\/\/\/.*s\.sock)\n/],
  ])("at %s, and exits at SIGINT", async (listen, line) => {
    await using place = new Plugin({ args: ["--listen", "nonsense"] });
    await using plugin = new Plugin({ args: [`--listen=${listen.replace("FOLDER", place.folder)}`] });
    const address = await plugin.find(() => line.exec(plugin.stderr)?.[1]);
    const client = new Client(address.replace(/^tcp:/, "").replace("unix://", "unix:"), credentials.createInsecure());
    expect(await client.text("echo", { text: "x" })).toBe("x");
    client.close();
    plugin.process.kill("SIGINT");
    expect(await plugin.exited).toBe(0);
    expect(existsSync(join(place.folder, "s.sock"))).toBe(false);
  });

  // grpc-js has no option for it. This detects a release in which setting the windows has no effect.
  test("with flow-control windows for large requests", async () => {
    await using plugin = new Plugin({ args: ["--listen", "127.0.0.1:0"] });
    const port = await plugin.find(() => /tcp:127\.0\.0\.1:(\d+)/.exec(plugin.stderr)?.[1]);
    const session = connect("http://localhost", {
      createConnection: () => createConnection(Number(port), "127.0.0.1"),
    });
    await once(session, "remoteSettings"); // grpc-js's own
    if (session.remoteSettings.initialWindowSize !== 1 << 20) await once(session, "remoteSettings");
    expect(session.remoteSettings.initialWindowSize).toBe(1 << 20);
    await new Promise<void>((resolve) => session.ping(() => { resolve(); }));
    expect(session.state.remoteWindowSize).toBe(16 << 20);
    session.close();
  });

  test("not if it cannot listen", async () => {
    await using plugin = new Plugin({ args: ["--listen", "unix:/nowhere/s.sock"] });
    expect(await plugin.exited).toBe(1);
    expect(plugin.stderr).toContain("test: cannot listen at unix:/nowhere/s.sock");
  });
});
