"""Drives any MCP server through mcpbridge, with generated stubs and nothing else: docs/clients.md.

It reads commands from stdin, one a line: list | call TOOL {ARGUMENTS} | read URI | listen [URI]. It prints the
questions of servers, and reads the answer from the next line: the content of a form in JSON, or the text of a model.
"""

import sys

import grpc
from google.rpc import error_details_pb2, status_pb2

from mcpbridge.v1 import error_pb2, input_pb2, service_pb2, service_pb2_grpc

ADDRESS, SERVER = [*sys.argv[1:], "", ""][:2]
if not ADDRESS:
    print("usage: client.py ADDRESS [SERVER], where ADDRESS is unix:///path or host:port", file=sys.stderr)
    sys.exit(2)
# The capabilities of this client. Servers send only input requests that it supports, and progress only if requested.
CALLER = service_pb2.CallContext(
    client_info={"name": "client-python", "version": "1.0"},
    client_capabilities={"elicitation": {"form": {}}, "sampling": {}},
    progress_wanted=True,
)
# A longer call is canceled, also at the server.
OPTIONS = {"timeout": 60, "metadata": [("mcpbridge-server", SERVER)] if SERVER else []}
# A single stub suffices. It is thread-safe.
mcp = service_pb2_grpc.McpServiceStub(grpc.insecure_channel(ADDRESS))


def list_tools() -> None:
    request = service_pb2.ListToolsRequest(context=CALLER)
    while True:
        page = mcp.ListTools(request, **OPTIONS)
        for tool in page.tools:
            print("tool", tool.name)
        if not page.HasField("next_cursor"):
            return
        request.cursor = page.next_cursor


def call(name: str, arguments: str = "", **answers: object) -> None:
    request = service_pb2.CallToolRequest(context=CALLER, name=name, arguments=arguments.encode(), **answers)
    for event in mcp.CallTool(request, **OPTIONS):
        match event.WhichOneof("event"):
            case "progress":
                print(f"progress {event.progress.progress:g} of {event.progress.total:g}")
            case "input_required":  # The call has ended. It is repeated with the answers and the state.
                asked = event.input_required
                state = asked.request_state if asked.HasField("request_state") else None
                call(
                    name,
                    arguments,
                    request_state=state,
                    input_responses={q.key: answer(q) for q in asked.input_requests},
                )
            case "result":
                for block in event.result.content:
                    print(block.text.text)  # or image, audio, resource, resource_link


def answer(question: input_pb2.InputRequest) -> input_pb2.InputResponse:
    if question.HasField("create_message"):
        text = ask("model", question.create_message.messages[0].content[0].text.text)
        message = {"role": "assistant", "model": "you", "content": [{"text": {"text": text}}]}
        return input_pb2.InputResponse(create_message=message)
    form = ask("question", question.elicit.form.message)
    return input_pb2.InputResponse(elicit={"action": "accept", "content": form})


def ask(who: str, question: str) -> str:
    print(f"{who}: {question}", flush=True)
    return sys.stdin.readline().strip()


def read(uri: str) -> None:
    for event in mcp.ReadResource(service_pb2.ReadResourceRequest(context=CALLER, uri=uri), **OPTIONS):
        for contents in event.result.contents:
            print(f"{contents.uri}: {contents.text}")  # or blob


def listen(uri: str = "") -> None:
    """Waits for one change, and cancels the call."""
    changes = {"tools_list_changed": True, "resource_subscriptions": uri.split()}
    stream = mcp.Listen(service_pb2.ListenRequest(context=CALLER, notifications=changes), **OPTIONS)
    for event in stream:
        match event.WhichOneof("event"):
            case "acknowledged":
                print("listening", flush=True)
                continue
            case "tools_list_changed":
                print("changed: the list of tools")
            case "resource_updated":
                print("changed:", event.resource_updated.uri)
        break
    stream.cancel()


def explain(e: grpc.RpcError) -> None:
    print(f"error {e.code().name}: {e.details()}")
    trailer = dict(e.trailing_metadata() or ()).get("grpc-status-details-bin", b"")
    info, exact = error_details_pb2.ErrorInfo(), error_pb2.JsonRpcError()
    for detail in status_pb2.Status.FromString(trailer).details:
        if detail.Unpack(info):
            print(" ", info.reason, info.metadata["outcome"])
        elif detail.Unpack(exact):
            print("  JSON-RPC", exact.code, exact.data)


COMMANDS = {"list": list_tools, "call": call, "read": read, "listen": listen}
for line in iter(sys.stdin.readline, ""):
    command, *words = line.strip().split(" ", 2)
    try:
        if command in COMMANDS:
            COMMANDS[command](*words)
        else:
            print("there is no command", command)
    except grpc.RpcError as e:
        explain(e)
    sys.stdout.flush()
