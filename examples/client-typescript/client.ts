// Calls any MCP server through mcpbridge, with generated stubs only: docs/clients.md.
//
// It reads commands from stdin, one per line: list | call TOOL {ARGUMENTS} | read URI | listen [URI]. It prints
// questions of the server, and the next line is the answer: the values of a form in JSON, or the text of a model.
import { createInterface } from "node:readline";
import { promisify } from "node:util";

import { credentials, Metadata, status, type ServiceError } from "@grpc/grpc-js";

import { ErrorInfo } from "./gen/google/rpc/error_details.js";
import { Status } from "./gen/google/rpc/status.js";
import { ContentBlock } from "./gen/mcpbridge/v1/common.js";
import { JsonRpcError } from "./gen/mcpbridge/v1/error.js";
import { InputResponse, type InputRequest } from "./gen/mcpbridge/v1/input.js";
import * as v1 from "./gen/mcpbridge/v1/service.js";

const [address = "", server] = process.argv.slice(2);
if (!address) {
  console.error("usage: client.js ADDRESS [SERVER], where ADDRESS is unix:///path or host:port");
  process.exit(2);
}
// Declares the capabilities of this client. Servers send only input requests that it supports, and progress if
// requested.
const context = v1.CallContext.fromPartial({
  clientInfo: { name: "client-typescript", version: "1.0" },
  clientCapabilities: { elicitation: { form: {} }, sampling: {} },
  progressWanted: true,
});
const metadata = new Metadata();
if (server) metadata.set("mcpbridge-server", server);
// A call that takes longer is canceled, also at the server.
const options = () => ({ deadline: Date.now() + 60_000 });
// One connection is enough for any number of concurrent calls.
const mcp = new v1.McpServiceClient(address, credentials.createInsecure());
const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();

async function list(): Promise<void> {
  const listTools = promisify<v1.ListToolsRequest, Metadata, object, v1.ListToolsResponse>(mcp.listTools.bind(mcp));
  let cursor: string | undefined;
  do {
    const page = await listTools(v1.ListToolsRequest.fromPartial({ context, cursor }), metadata, options());
    for (const tool of page.tools) console.log("tool", tool.name);
    cursor = page.nextCursor;
  } while (cursor !== undefined);
}

async function call(name: string, args: string, answers: Partial<v1.CallToolRequest> = {}): Promise<void> {
  const request = v1.CallToolRequest.fromPartial({ context, name, arguments: Buffer.from(args), ...answers });
  for await (const { event } of mcp.callTool(request, metadata, options()) as AsyncIterable<v1.CallToolResponse>) {
    if (event?.$case === "progress") console.log(`progress ${event.value.progress} of ${event.value.total}`);
    if (event?.$case === "inputRequired") {
      // The round has ended. Make the call again with the answers and the state.
      const inputResponses: Record<string, InputResponse> = {};
      for (const question of event.value.inputRequests) inputResponses[question.key] = await answer(question);
      return call(name, args, { requestState: event.value.requestState, inputResponses });
    }
    if (event?.$case !== "result") continue;
    // Or image, audio, resource, resourceLink.
    for (const { block } of event.value.content) console.log(block?.$case === "text" ? block.value.text : "");
  }
}

async function answer({ request }: InputRequest): Promise<InputResponse> {
  if (request?.$case === "createMessage") {
    const prompt = request.value.messages[0]?.content[0]?.block;
    const text = await ask("model", prompt?.$case === "text" ? prompt.value.text : "");
    const content = [ContentBlock.fromPartial({ block: { $case: "text", value: { text } } })];
    return InputResponse.fromPartial({
      response: { $case: "createMessage", value: { role: "assistant", model: "you", content } },
    });
  }
  const mode = request?.$case === "elicit" ? request.value.mode : undefined;
  // Or url. A mode or a request that MCP adds later is raw JSON.
  const content = await ask("question", mode?.$case === "form" ? mode.value.message : "");
  const value = { action: "accept", content };
  return InputResponse.fromPartial({ response: { $case: "elicit", value } });
}

async function ask(who: string, question: string): Promise<string> {
  console.log(`${who}: ${question}`);
  return String((await lines.next()).value);
}

async function read(uri: string): Promise<void> {
  const request = v1.ReadResourceRequest.fromPartial({ context, uri });
  for await (
    const { event } of mcp.readResource(request, metadata, options()) as AsyncIterable<v1.ReadResourceResponse>
  ) {
    if (event?.$case !== "result") continue;
    // Or blob.
    for (const { uri, body } of event.value.contents)
      console.log(`${uri}: ${body?.$case === "text" ? body.value : ""}`);
  }
}

/** Waits for one change, and cancels the call. */
async function listen(uri: string): Promise<void> {
  const notifications = { toolsListChanged: true, resourceSubscriptions: uri ? [uri] : [] };
  const request = v1.ListenRequest.fromPartial({ context, notifications });
  const stream = mcp.listen(request, metadata, options());
  for await (const { event } of stream as AsyncIterable<v1.ListenResponse>) {
    if (event?.$case === "acknowledged") console.log("listening");
    if (event?.$case === "toolsListChanged") console.log("changed: the list of tools");
    if (event?.$case === "resourceUpdated") console.log("changed:", event.value.uri);
    if (event?.$case !== "acknowledged") break;
  }
  stream.cancel(); // leaving the loop does not do it
}

function explain(e: ServiceError): void {
  console.log(`error ${status[e.code]}: ${e.details}`);
  const { details } = Status.decode(Buffer.from(e.metadata.get("grpc-status-details-bin")[0] ?? ""));
  for (const { typeUrl, value } of details) {
    if (typeUrl.endsWith("/google.rpc.ErrorInfo")) {
      const { reason, metadata } = ErrorInfo.decode(value);
      console.log(`  ${reason} ${metadata.outcome}`);
    }
    if (typeUrl.endsWith("/mcpbridge.v1.JsonRpcError")) {
      const { code, data } = JsonRpcError.decode(value);
      console.log(`  JSON-RPC ${code} ${data}`);
    }
  }
}

const commands = new Map(Object.entries({ list, call, read, listen }));
for await (const line of { [Symbol.asyncIterator]: () => lines }) {
  const [, command = "", name = "", args = ""] = /^(\S*) ?(\S*) ?(.*)$/.exec(line) ?? [];
  const run = commands.get(command);
  if (run) await run(name, args).catch(explain);
  else console.log("there is no command", command);
}
mcp.close();
