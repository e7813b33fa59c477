"""A backend without an SDK: grpcio and the generated stubs. The bridge starts it, or it listens at its first argument."""

import base64
import json
import os
import signal
import ssl
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc

from mcpbridge.v1 import capability_pb2, common_pb2, service_pb2, service_pb2_grpc, tool_pb2


class Backend(service_pb2_grpc.McpServiceServicer):  # What is not here is UNIMPLEMENTED.
    def Discover(self, request, context):
        has = capability_pb2.ServerCapabilities(tools=capability_pb2.ToolsCapability())
        return service_pb2.DiscoverResponse(server_info=common_pb2.Implementation(name="plain", version="1"), capabilities=has)

    def ListTools(self, request, context):
        schema = b'{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"integer"}},"required":["a","b"]}'
        add = tool_pb2.Tool(name="add", description="Add two numbers.", input_schema=schema)
        return service_pb2.ListToolsResponse(tools=[add])

    def CallTool(self, request, context):
        if request.name != "add":
            context.abort(grpc.StatusCode.NOT_FOUND, f"there is no tool {request.name!r}")
        arguments = json.loads(request.arguments)  # The bridge has held them against the schema.
        text = common_pb2.TextContent(text=str(arguments["a"] + arguments["b"]))
        yield service_pb2.CallToolResponse(result=tool_pb2.CallToolResult(content=[common_pb2.ContentBlock(text=text)]))


stop = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: stop.set())
server = grpc.server(ThreadPoolExecutor(8), options=[("grpc.max_receive_message_length", 64 << 20)])
service_pb2_grpc.add_McpServiceServicer_to_server(Backend(), server)
health = {"Check": grpc.unary_unary_rpc_method_handler(lambda *_: b"\x08\x01")}  # Status 1: SERVING.
controller = {"Shutdown": grpc.unary_unary_rpc_method_handler(lambda *_: stop.set() or b"")}  # Its messages are empty.
for name, methods in {"grpc.health.v1.Health": health, "plugin.GRPCController": controller}.items():
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(name, methods),))
if os.environ.get("MCPBRIDGE_PLUGIN") == "mcpbridge.v1":
    handshake = os.dup(1)
    os.dup2(2, 1)  # What is printed is log from here on.
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # The terminal sends it to the bridge, too.
    pem = Path(os.environ["MCPBRIDGE_KEY_PAIR"]).read_text()
    certificate = pem[pem.index("-----BEGIN CERTIFICATE") :]
    client = os.environ["PLUGIN_CLIENT_CERT"].encode()
    path = f"{os.environ['PLUGIN_UNIX_SOCKET_DIR']}/backend.sock"
    server.add_secure_port(f"unix:{path}", grpc.ssl_server_credentials([(pem.encode(), certificate.encode())], client, True))
    der = base64.b64encode(ssl.PEM_cert_to_DER_cert(certificate)).decode().rstrip("=")
    os.write(handshake, f"1|1|unix|{path}|grpc|{der}\n".encode())
    threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()  # stdin ends when the bridge does.
else:
    server.add_insecure_port(sys.argv[1])
server.start()  # Who connected since there is a port has waited.
stop.wait()
server.stop(5).wait()
