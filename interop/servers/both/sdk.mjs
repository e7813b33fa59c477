// A server on the official TypeScript SDK 2.x that speaks both eras and asks in the middle of a call, as 2025-11-25 does.
import { McpServer } from "@modelcontextprotocol/server";
import { serveStdio } from "@modelcontextprotocol/server/stdio";
import { z } from "zod";

const says = (text) => ({ content: [{ type: "text", text }] });

serveStdio(() => {
  const server = new McpServer({ name: "both-typescript", version: "1" });
  server.registerTool("echo", { inputSchema: z.object({ text: z.string() }) }, ({ text }) => says(text));
  server.registerTool("ask", { inputSchema: z.object({}) }, async (_, ctx) => {
    const requestedSchema = { type: "object", properties: { name: { type: "string" } }, required: ["name"] };
    const answer = await ctx.mcpReq.elicitInput({ message: "Who are you?", requestedSchema });
    return says(answer.action === "accept" ? `hi ${answer.content.name}!` : `hi ${answer.action}`);
  });
  server.registerTool("think", { inputSchema: z.object({}) }, async (_, ctx) => {
    const messages = [{ role: "user", content: { type: "text", text: "What is love?" } }];
    const answer = await ctx.mcpReq.requestSampling({ messages, maxTokens: 10 });
    return says(`The model says: ${[answer.content].flat()[0].text}`);
  });
  return server;
});
