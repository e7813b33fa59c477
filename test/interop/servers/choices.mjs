// A server on the official TypeScript SDK 2.x that supports only 2026-07-28, and asks for a choice of several values.
import { acceptedContent, inputRequired, McpServer } from "@modelcontextprotocol/server";
import { serveStdio } from "@modelcontextprotocol/server/stdio";
import { z } from "zod";

serveStdio(
  () => {
    const server = new McpServer({ name: "choices", version: "1" });
    const colors = z.object({ colors: z.array(z.enum(["red", "green", "blue"])) });
    server.registerTool("choose", { inputSchema: z.object({}) }, (_, ctx) => {
      const answer = acceptedContent(ctx.mcpReq.inputResponses, "which", colors);
      if (answer) return { content: [{ type: "text", text: `You like ${answer.colors.join(" and ")}` }] };
      const which = inputRequired.elicit({ message: "Which colors do you like?", requestedSchema: colors });
      return inputRequired({ inputRequests: { which } });
    });
    return server;
  },
  { legacy: "reject" },
);
