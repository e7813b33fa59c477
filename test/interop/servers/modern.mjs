// A server on the official TypeScript SDK 2.x that supports only 2026-07-28, and asks by input_required.
import { acceptedContent, completable, inputRequired, inputResponse, McpServer } from "@modelcontextprotocol/server";
import { serveStdio } from "@modelcontextprotocol/server/stdio";
import { z } from "zod";

const textResult = (text) => ({ content: [{ type: "text", text }] });

serveStdio(
  () => {
    const server = new McpServer({ name: "modern", version: "1" });
    server.registerTool(
      "echo",
      { description: "Returns the text.", inputSchema: z.object({ text: z.string() }) },
      ({ text }) => textResult(text),
    );
    server.registerTool("count", { description: "Counts to 3.", inputSchema: z.object({}) }, async (_, ctx) => {
      const progressToken = ctx.mcpReq._meta?.progressToken;
      for (const progress of progressToken === undefined ? [] : [1, 2, 3]) {
        await ctx.mcpReq.notify({ method: "notifications/progress", params: { progressToken, progress, total: 3 } });
      }
      return textResult("counted");
    });
    const name = z.object({ name: z.string() });
    server.registerTool("ask", { description: "Asks the user.", inputSchema: z.object({}) }, (_, ctx) => {
      const answer = acceptedContent(ctx.mcpReq.inputResponses, "who", name);
      if (answer) return textResult(`You are ${answer.name}`);
      const who = inputRequired.elicit({ message: "Who are you?", requestedSchema: name });
      return inputRequired({ inputRequests: { who }, requestState: "asked" });
    });
    server.registerTool("think", { description: "Asks the model.", inputSchema: z.object({}) }, (_, ctx) => {
      const answer = inputResponse(ctx.mcpReq.inputResponses, "thought");
      if (answer.kind === "sampling") return textResult(`The model says: ${[answer.result.content].flat()[0].text}`);
      const messages = [{ role: "user", content: { type: "text", text: "What is love?" } }];
      return inputRequired({ inputRequests: { thought: inputRequired.createMessage({ messages, maxTokens: 10 }) } });
    });
    server.registerResource("greeting", "modern://greeting", { mimeType: "text/plain" }, (uri) => ({
      contents: [{ uri: uri.href, mimeType: "text/plain", text: "Hello from the modern era" }],
    }));
    const argsSchema = z.object({
      name: completable(z.string(), (value) => ["Ada", "Alan"].filter((n) => n.startsWith(value))),
    });
    server.registerPrompt("greet", { argsSchema }, ({ name }) => ({
      messages: [{ role: "user", content: { type: "text", text: `Greet ${name}` } }],
    }));
    return server;
  },
  { legacy: "reject" },
);
