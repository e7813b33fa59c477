"""Serves an App over gRPC: to the bridge that launched it (the handshake of hashicorp/go-plugin), or at an address."""

import asyncio
import base64
import contextlib
import gc
import inspect
import json
import logging
import os
import re
import signal
import ssl
import sys
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from mcpbridge import frames, stdout, v1
from mcpbridge.errors import McpError
from mcpbridge.handlers import StatusError, check_contract, log, status
from mcpbridge.schema import line_of

if TYPE_CHECKING:
    from mcpbridge.app import App

PROTOCOL = 1  # The version of the plugin protocol, the second field of the handshake.
DRAIN = 5.0  # The time in seconds for calls in flight to complete at shutdown.
MAX_MESSAGE = 64 << 20
MAX_LINE = 8 << 10  # Of the log: the bridge does not parse longer lines.
MAX_PATH = 100  # A unix socket's path: sun_path is 104 to 108 bytes.


def run(app: "App", listen: str | None) -> None:
    """Serves app until shutdown. See App.run."""
    listen = listen or _listen_argument(sys.argv[1:])
    app.check()
    app._running = True
    if listen:
        asyncio.run(_serve_at(app, listen))
    elif stdout.MANAGED:
        asyncio.run(_serve_bridge(app))
    else:
        program = Path(sys.argv[0]).name
        _exit(
            2,
            f"{program} is a backend for mcpbridge, which serves it to MCP clients. Run\n\n"
            f"    mcpbridge run -- python3 {program}\n\n"
            f"or let it wait for a bridge, or a debugger, with\n\n"
            f"    python3 {program} --listen 127.0.0.1:50051",
        )
    sys.stdout.flush()
    sys.stderr.flush()
    if app._calls.blocking:
        # A plain `def` that ignores ctx.cancelled is still running, and would block the exit of the interpreter.
        os._exit(0)


def _listen_argument(argv: list[str]) -> str | None:
    for i, arg in enumerate(argv):
        if arg.startswith("--listen="):
            return arg.partition("=")[2]
        if arg == "--listen":
            return argv[i + 1] if i + 1 < len(argv) else _exit(2, "--listen needs an address: host:port or unix:/path")
    return None


def _exit(code: int, message: str) -> NoReturn:
    sys.stderr.write(message + "\n")
    raise SystemExit(code)


# Two modes: the bridge launched this program, or clients connect to an address.


async def _serve_at(app: "App", listen: str) -> None:
    _warn(app)
    server = _Server(app)
    # The bridge's address format: tcp:host:port, unix:///path.
    listen = listen.removeprefix("tcp:")
    try:
        port = server.grpc.add_insecure_port(listen)
    except RuntimeError as e:
        _exit(1, f"{app.name}: cannot listen at {listen}: {e}")
    socket = Path(listen.removeprefix("unix:").removeprefix("//")).absolute() if listen.startswith("unix:") else None
    address = f"unix://{socket}" if socket else f"tcp:{listen.rpartition(':')[0]}:{port}"
    await server.grpc.start()
    sys.stderr.write(f"{app.name}: listening. Serve it with: mcpbridge run {address}\n")
    sys.stderr.flush()
    _on_signal(server, signal.SIGINT, signal.SIGTERM)
    await server.wait()
    if socket:
        socket.unlink(missing_ok=True)


async def _serve_bridge(app: "App") -> None:
    _log_to_bridge()
    _warn(app)
    version = _version()
    credentials, certificate = _tls()
    server = _Server(app)
    network, address, cleanup = _bind(server.grpc, credentials)
    try:
        await server.grpc.start()
        # The terminal also sends it to the bridge, which then stops this program.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        _on_signal(server, signal.SIGTERM)
        _watch_parent(server, cleanup)
        fields = ["1", str(version), network, address, "grpc", certificate]
        if os.environ.get("PLUGIN_MULTIPLEX_GRPC"):
            fields.append("false")
        server.frames = await frames.connect(app, MAX_MESSAGE)
        stdout.write_handshake("|".join(fields))
        await server.wait()
    finally:
        cleanup()


def _warn(app: "App") -> None:
    """Logs warnings about definitions."""
    if not app._capabilities:
        log.warning("the app has no tools, resources or prompts")
    for name, tool in app._tools.items():
        if not tool.message.description:
            log.warning(
                '%s: tool "%s" has no description, by which models choose; write a docstring', line_of(tool.fn), name
            )


def _version() -> int:
    versions = os.environ.get("PLUGIN_PROTOCOL_VERSIONS", str(PROTOCOL))
    if str(PROTOCOL) not in [v.strip() for v in versions.split(",")]:
        _exit(
            1,
            f"the bridge supports version {versions} of the plugin protocol, and this SDK supports version {PROTOCOL}: "
            "update one of them",
        )
    return PROTOCOL


def _bind(server: grpc.aio.Server, credentials: grpc.ServerCredentials | None) -> tuple[str, str, Callable[[], None]]:
    """Binds the server. Returns the network, the address, and a cleanup function."""

    def add(address: str) -> int:
        if credentials is None:
            return server.add_insecure_port(address)
        return server.add_secure_port(address, credentials)

    directory = os.environ.get("PLUGIN_UNIX_SOCKET_DIR")
    no_unix = "unix" not in (os.environ.get("PLUGIN_TRANSPORTS") or "unix")
    if no_unix or sys.platform == "win32" or len(os.fsencode(directory or "")) > MAX_PATH - 20:
        return "tcp", f"127.0.0.1:{add('127.0.0.1:0')}", lambda: None
    folder = Path(directory or tempfile.mkdtemp(prefix="mcpbridge"))
    path = folder / f"{os.getpid()}.sock"
    add(f"unix:{path}")
    if group := os.environ.get("PLUGIN_UNIX_SOCKET_GROUP"):
        os.chown(path, -1, _group(group))
        path.chmod(0o660)

    def cleanup() -> None:
        path.unlink(missing_ok=True)
        if not directory:
            with contextlib.suppress(OSError):
                folder.rmdir()

    return "unix", str(path), cleanup


def _group(name: str) -> int:
    import grp

    return int(name) if name.isdecimal() else grp.getgrnam(name).gr_gid


def _tls() -> tuple[grpc.ServerCredentials | None, str]:
    """Returns the credentials for mutual TLS, if the bridge requires it, and the certificate as in the handshake."""
    client = os.environ.get("PLUGIN_CLIENT_CERT")
    if not client:
        return None, ""
    pair = os.environ.get("MCPBRIDGE_KEY_PAIR")
    if pair:
        try:
            pem = Path(pair).read_text("ascii")
        except OSError as e:
            _exit(1, f"cannot read the key pair that the bridge made for this plugin: {e}")
    else:
        pem = _make_key_pair()
    key, begin, rest = pem.partition("-----BEGIN CERTIFICATE-----")
    if not begin:
        _exit(1, "the key pair that the bridge made for this plugin has no certificate")
    certificate = begin + rest
    credentials = grpc.ssl_server_credentials(
        [(key.encode(), certificate.encode())], root_certificates=client.encode(), require_client_auth=True
    )
    # go-plugin expects no padding.
    return credentials, base64.b64encode(ssl.PEM_cert_to_DER_cert(certificate.strip())).decode().rstrip("=")


def _make_key_pair() -> str:
    """Generates a key pair for a standard go-plugin host with AutoMTLS. The bridge provides one."""
    try:
        from mcpbridge import automtls
    except ImportError:
        _exit(1, "this host requires the plugin to create its own certificate; run: pip install 'mcpbridge[automtls]'")
    return automtls.make_key_pair()


# Logging.


class _JsonFormatter(logging.Formatter):
    """Formats a record as one line of JSON, which the bridge logs with its level."""

    def format(self, record: logging.LogRecord) -> str:
        texts = {"logger": record.name, "message": record.getMessage()}
        if record.exc_info:
            texts["traceback"] = self.formatException(record.exc_info)
        while len(line := json.dumps({"level": record.levelname.lower(), **texts})) > MAX_LINE:
            # Keep the beginning and the end.
            name = max(texts, key=lambda name: len(texts[name]))
            third = len(texts[name]) // 3
            texts[name] = f"{texts[name][:third]} ... {texts[name][-third:]}"
        return line


def _log_to_bridge() -> None:
    """Writes the logs of the SDK and of tools as JSON to stderr, unless the program configured handlers."""
    from mcpbridge.app import DEFAULT_HANDLER

    for handler in filter(None, (logging.lastResort, DEFAULT_HANDLER)):
        handler.setFormatter(_JsonFormatter())
    if log.handlers:
        return
    handler = logging.StreamHandler()
    handler.setFormatter(_JsonFormatter())
    log.addHandler(handler)
    for other in logging.getLogger().handlers:
        # Do not write records to stderr twice.
        if isinstance(other, logging.StreamHandler) and other.stream in (sys.stderr, sys.stdout):
            other.addFilter(lambda record: record.name != log.name)


# Shutdown.


def _on_signal(server: "_Server", *signals: signal.Signals) -> None:
    loop = asyncio.get_running_loop()
    for s in signals:
        try:
            loop.add_signal_handler(s, server.stop)
        except NotImplementedError:  # Windows.
            signal.signal(s, lambda *_: loop.call_soon_threadsafe(server.stop))


def _watch_parent(server: "_Server", cleanup: Callable[[], None]) -> None:
    """Makes the process exit when the bridge exits or is killed."""
    loop = asyncio.get_running_loop()
    parent = os.getppid()
    lifeline: int | None = None
    if os.environ.get("MCP_PLUGIN_LIFELINE") == "stdin":
        # Moved, so that input() in a tool gets an end of file and does not read the lifeline.
        lifeline = os.dup(0)
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.close(null)

    def watch() -> None:
        if lifeline is not None:
            while os.read(lifeline, 4096):
                pass
        else:
            while os.getppid() == parent:
                time.sleep(1)
        # No caller is left: do not drain. If the loop is blocked, exit anyway.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(server.stop, 0)
        time.sleep(2)
        cleanup()
        os._exit(0)

    threading.Thread(target=watch, name="mcpbridge-lifeline", daemon=True).start()


# The services.


class _Server:
    """The gRPC server of an App. It belongs to one event loop."""

    def __init__(self, app: "App") -> None:
        self.app = app
        # No limit on responses: the bridge reports a response that is too large, with the outcome executed. grpc-core
        # would return RESOURCE_EXHAUSTED, which does not distinguish whether the tool was executed.
        options = [("grpc.max_receive_message_length", MAX_MESSAGE), ("grpc.max_send_message_length", -1)]
        self.grpc = grpc.aio.server(options=options)
        self.health = health.aio.HealthServicer()
        health_pb2_grpc.add_HealthServicer_to_server(self.health, self.grpc)
        methods: dict[str, grpc.RpcMethodHandler[Any, Any]] = {}
        for method in v1.service_pb2.DESCRIPTOR.services_by_name["McpService"].methods:
            read = getattr(v1, method.input_type.name).FromString
            write = getattr(v1, method.output_type.name).SerializeToString
            name = re.sub(r"(?<!^)([A-Z])", r"_\1", method.name).lower()
            if method.name.endswith(("Task", "Tasks")):
                continue  # Unimplemented: the bridge keeps the tasks of tools.
            if name == "listen":
                methods[method.name] = grpc.unary_stream_rpc_method_handler(self._listen, read, write)
            elif method.server_streaming:
                methods[method.name] = grpc.unary_stream_rpc_method_handler(_streaming(getattr(app, name)), read, write)
            else:
                methods[method.name] = grpc.unary_unary_rpc_method_handler(_unary(getattr(app, name)), read, write)
        services: dict[str, dict[str, grpc.RpcMethodHandler[Any, Any]]] = {
            "mcpbridge.v1.McpService": methods,
            # The service of go-plugin, with empty messages.
            "plugin.GRPCController": {"Shutdown": grpc.unary_unary_rpc_method_handler(self._shutdown)},
        }
        for service, handlers in services.items():
            self.grpc.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, handlers),))
        self.frames: frames.Frames | None = None
        self._stopping = asyncio.Event()
        self._drain = DRAIN

    def stop(self, drain: float = DRAIN) -> None:
        """Makes wait stop the server. The shortest drain applies."""
        self._drain = min(drain, self._drain)
        self._stopping.set()
        self.app._changes.close()

    async def wait(self) -> None:
        """Serves until stop, then waits for calls in flight."""
        for service in ("", "plugin"):
            await self.health.set(service, health_pb2.HealthCheckResponse.SERVING)
        gc.freeze()  # Objects from startup are long-lived; exclude them from collection.
        await self._stopping.wait()
        await self.health.enter_graceful_shutdown()
        start = time.monotonic()
        if self.frames:
            # Before gRPC stops, which would cancel calls: after LAST, the bridge makes no new calls over gRPC either.
            self.frames.drain()
            while not self.frames.closed.done() and time.monotonic() - start < self._drain:
                await asyncio.wait({self.frames.closed}, timeout=0.02)
            await self.frames.close()
        stopped = asyncio.create_task(self.grpc.stop(max(self._drain + start - time.monotonic(), 0)))
        while self.app._calls.running and time.monotonic() - start < self._drain:
            await asyncio.wait({stopped}, timeout=0.02)
        # Only endless streams, such as a health watch, and responses in transit remain.
        await asyncio.wait({stopped}, timeout=0.2)
        await self.grpc.stop(0)
        await stopped
        self.app._calls.pool.shutdown(wait=False, cancel_futures=True)

    async def _listen(self, request: v1.ListenRequest, context: Any) -> AsyncIterator[v1.ListenResponse]:
        try:
            check_contract(request.context)
        except StatusError as e:
            await _abort(context, e)
        supported = self.app.supported_changes(request.notifications)
        with self.app._changes.listen(supported) as listener:
            yield v1.ListenResponse(acknowledged=v1.SubscriptionsAcknowledged(notifications=supported))
            if self._stopping.is_set():
                return
            async for event in listener.events():
                yield event

    async def _shutdown(self, request: bytes, context: Any) -> bytes:
        asyncio.get_running_loop().call_soon(self.stop)  # Respond first.
        return b""


def _unary(handle: Callable[[Any], Any]) -> Callable[[Any, Any], Awaitable[Any]]:
    """Adapts a unary method of an App, which may be async."""

    async def method(request: Any, context: Any) -> Any:
        try:
            check_contract(request.context)
            response = handle(request)
            return await response if inspect.isawaitable(response) else response
        except (StatusError, McpError) as e:
            return await _abort(context, e)

    return method


def _streaming(handle: Callable[[Any, Any], Awaitable[Any]]) -> Callable[[Any, Any], Awaitable[None]]:
    """Adapts a streaming method of an App."""

    async def method(request: Any, context: Any) -> None:
        try:
            check_contract(request.context)
            await context.write(await handle(request, context.write))
        except (StatusError, McpError) as e:
            await _abort(context, e)

    return method


async def _abort(context: Any, e: StatusError | McpError) -> NoReturn:
    failure = status(e)
    trailers = (("grpc-status-details-bin", failure.SerializeToString()),) if failure.details else ()
    await context.abort(_STATUS_CODES[failure.code], failure.message, trailers)
    raise e  # Not reached: abort raises.


_STATUS_CODES = {code.value[0]: code for code in grpc.StatusCode}
