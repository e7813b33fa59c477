// The same tool, served by the official SDK over Streamable HTTP in its fastest mode: JSON responses, in the legacy era
// a server and a transport for each session, and in the modern era one server for each request, as it requires.
import { randomUUID } from "node:crypto";
import { createServer } from "node:http";

import { NodeStreamableHTTPServerTransport, toNodeHandler } from "@modelcontextprotocol/node";
import { createMcpHandler, McpServer } from "@modelcontextprotocol/server";
import { z } from "zod";

const inputSchema = z.object({ text: z.string() });

function server() {
  const s = new McpServer({ name: "bench", version: "1" });
  s.registerTool(
    "echo",
    { description: "Answers its arguments.", inputSchema, annotations: { readOnlyHint: true } },
    ({ text }) => ({
      content: [{ type: "text", text: JSON.stringify({ text }) }],
    }),
  );
  return s;
}

const modern = toNodeHandler(createMcpHandler(server, { legacy: "reject", responseMode: "json" }));
const sessions = new Map();

async function legacy(request, response) {
  let transport = sessions.get(request.headers["mcp-session-id"]);
  if (!transport) {
    transport = new NodeStreamableHTTPServerTransport({
      sessionIdGenerator: randomUUID,
      enableJsonResponse: true,
      onsessioninitialized: (id) => { sessions.set(id, transport); },
      onsessionclosed: (id) => { sessions.delete(id); },
    });
    await server().connect(transport);
  }
  await transport.handleRequest(request, response);
}

const http = createServer((request, response) => {
  const serve = request.headers["mcp-protocol-version"] === "2026-07-28" ? modern : legacy;
  void serve(request, response);
});
http.listen(0, "127.0.0.1", () => { console.error(`serving http://127.0.0.1:${http.address().port}/mcp`); });
for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, () => process.exit());
