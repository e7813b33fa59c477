"""A backend without an SDK: grpcio and generated stubs. The bridge starts it, or it listens at its first argument."""

import json
import os
import signal
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc

handshake = os.dup(1)  # Before imports: the SDK, if it provides the stubs, redirects standard output.
from mcpbridge.v1 import capability_pb2, common_pb2, service_pb2, service_pb2_grpc, tool_pb2  # noqa: E402


class Backend(service_pb2_grpc.McpServiceServicer):  # Other methods are UNIMPLEMENTED.
    def Discover(self, request, context):
        has = capability_pb2.ServerCapabilities(tools=capability_pb2.ToolsCapability())
        info = common_pb2.Implementation(name="plain", version="1")
        return service_pb2.DiscoverResponse(contract_version=2, server_info=info, capabilities=has)

    def ListTools(self, request, context):
        if request.HasField("cursor"):
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, "there is one page only")
        schema = '{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"integer"}},"required":["a","b"]}'
        add = tool_pb2.Tool(name="add", description="Add two numbers.", input_schema=schema)
        return service_pb2.ListToolsResponse(tools=[add])

    def CallTool(self, request, context):
        if request.name != "add":
            context.abort(grpc.StatusCode.NOT_FOUND, f"there is no tool {request.name!r}")
        arguments = json.loads(request.arguments)  # The bridge has validated them against the schema.
        text = common_pb2.TextContent(text=str(arguments["a"] + arguments["b"]))
        yield service_pb2.CallToolResponse(result=tool_pb2.CallToolResult(content=[common_pb2.ContentBlock(text=text)]))


def check(request, context):
    """grpc.health.v1.Health/Check, whose request has the service's name in field 1."""
    if request not in (b"", b"\n\x06plugin"):
        context.abort(grpc.StatusCode.NOT_FOUND, "there is no such service")
    return b"\x08\x01"  # Status 1: SERVING.


env = os.environ
launched = env.get("MCPBRIDGE_PLUGIN") == "mcpbridge.v1"
if not launched and len(sys.argv) != 2:
    sys.exit("this is a backend for mcpbridge; run: mcpbridge run -- python backend.py, or add unix:PATH")
if launched and "1" not in env["PLUGIN_PROTOCOL_VERSIONS"].split(","):
    sys.exit("the host does not support version 1 of the plugin protocol")
stop = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: stop.set())
server = grpc.server(ThreadPoolExecutor(8), options=[("grpc.max_receive_message_length", 64 << 20)])
service_pb2_grpc.add_McpServiceServicer_to_server(Backend(), server)
health = {"Check": grpc.unary_unary_rpc_method_handler(check)}
controller = {"Shutdown": grpc.unary_unary_rpc_method_handler(lambda *_: stop.set() or b"")}  # Its messages are empty.
for name, methods in {"grpc.health.v1.Health": health, "plugin.GRPCController": controller}.items():
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(name, methods),))
if launched:
    os.dup2(2, 1)  # From here on, output goes to the log.
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # The terminal sends it to the bridge, too.
    tls, certificate = None, ""
    if client := env.get("PLUGIN_CLIENT_CERT"):
        if "MCPBRIDGE_KEY_PAIR" not in env:
            sys.exit("this backend needs the key pair of mcpbridge")
        key, begin, own = Path(env["MCPBRIDGE_KEY_PAIR"]).read_text().partition("-----BEGIN CERTIFICATE-----\n")
        tls = grpc.ssl_server_credentials([(key.encode(), (begin + own).encode())], client.encode(), True)
        certificate = own.partition("-----END")[0].replace("\n", "").rstrip("=")
    unix = "unix" in env["PLUGIN_TRANSPORTS"].split(",")
    where = f"{env['PLUGIN_UNIX_SOCKET_DIR']}/{os.getpid()}.sock" if unix else "127.0.0.1:0"
    target = f"unix:{where}" if unix else where
    port = server.add_secure_port(target, tls) if tls else server.add_insecure_port(target)
    address = f"unix|{where}" if unix else f"tcp|127.0.0.1:{port}"
    multiplex = "|false" if env.get("PLUGIN_MULTIPLEX_GRPC") else ""
    os.write(handshake, f"1|1|{address}|grpc|{certificate}{multiplex}\n".encode())
    # stdin ends when the bridge does.
    threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
else:
    server.add_insecure_port(sys.argv[1])
server.start()  # Earlier connections have waited.
stop.wait()
server.stop(5).wait()
