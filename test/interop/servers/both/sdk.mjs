// A server on the official TypeScript SDK 2.x that supports both eras and asks during a call, as 2025-11-25 does.
import { randomUUID } from "node:crypto";
import { createServer } from "node:http";
import { toNodeHandler } from "@modelcontextprotocol/node";
import {
  createMcpHandler,
  isLegacyRequest,
  McpServer,
  WebStandardStreamableHTTPServerTransport,
} from "@modelcontextprotocol/server";
import { serveStdio } from "@modelcontextprotocol/server/stdio";
import { z } from "zod";

const textResult = (text) => ({ content: [{ type: "text", text }] });

const create = () => {
  const server = new McpServer({ name: "both-typescript", version: "1" });
  server.registerTool("echo", { inputSchema: z.object({ text: z.string() }) }, ({ text }) => textResult(text));
  server.registerTool("ask", { inputSchema: z.object({}) }, async (_, ctx) => {
    const requestedSchema = { type: "object", properties: { name: { type: "string" } }, required: ["name"] };
    const answer = await ctx.mcpReq.elicitInput({ message: "Who are you?", requestedSchema });
    return textResult(answer.action === "accept" ? `hi ${answer.content.name}!` : `hi ${answer.action}`);
  });
  server.registerTool("think", { inputSchema: z.object({}) }, async (_, ctx) => {
    const messages = [{ role: "user", content: { type: "text", text: "What is love?" } }];
    const answer = await ctx.mcpReq.requestSampling({ messages, maxTokens: 10 });
    return textResult(`The model says: ${[answer.content].flat()[0].text}`);
  });
  return server;
};

/** Serves 2026-07-28, and older clients with sessions, as the SDK's documentation of isLegacyRequest shows. */
const serveHTTP = (port) => {
  const modern = createMcpHandler(create, { legacy: "reject" });
  const sessions = new Map();
  const legacy = async (request) => {
    let transport = sessions.get(request.headers.get("mcp-session-id"));
    if (!transport) {
      transport = new WebStandardStreamableHTTPServerTransport({
        sessionIdGenerator: randomUUID,
        // Node sends the headers of the response to a GET with its first byte; some clients wait for them.
        keepAliveMs: 50,
        onsessioninitialized: (id) => void sessions.set(id, transport),
        onsessionclosed: (id) => void sessions.delete(id),
      });
      await create().connect(transport);
    }
    return transport.handleRequest(request);
  };
  const fetch = async (request) => ((await isLegacyRequest(request)) ? legacy(request) : modern.fetch(request));
  createServer(toNodeHandler({ fetch })).listen(port, "127.0.0.1", () => console.error(`listening on port ${port}`));
};

if (process.env.PORT) serveHTTP(Number(process.env.PORT));
else serveStdio(create);
