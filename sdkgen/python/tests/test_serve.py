"""A real process, called as the bridge does: handshake, TLS, streams, shutdown, and failures."""

import asyncio
import base64
import contextlib
import json
import os
import re
import signal
import ssl
import stat
import subprocess
import sys
import textwrap
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from cryptography import x509
from google.rpc import status_pb2
from grpc_health.v1 import health_pb2

from mcpbridge import v1
from mcpbridge.automtls import make_key_pair
from mcpbridge.testing import EVERYTHING
from mcpbridge.v1.service_pb2_grpc import McpServiceStub

TOOLS = """
import asyncio, os, subprocess, sys, time
print("printed before the import")
from mcpbridge import *
print("printed after the import")
app = App("test")

@app.tool(description="d")
def add(a: int, b: int) -> int:
    return a + b

@app.tool(description="d")
def echo(text: str) -> str:
    return text

@app.tool(description="d")
def large(size: int) -> str:
    return "x" * size

@app.tool(description="d")
def loud() -> str:
    print("printed")
    os.write(1, b"written to fd 1\\n")
    subprocess.run(["echo", "echoed by a child"])
    return "ok"

@app.tool(description="d")
async def slow(seconds: float, file: str, ctx: Context) -> str:
    try:
        ctx.progress(0)
        await asyncio.sleep(seconds)
    except asyncio.CancelledError:
        open(file, "w").write("cancelled")
        raise
    return "slept"

@app.tool(description="d")
def slow_sync(seconds: float, file: str, ctx: Context) -> str:
    ctx.progress(0)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(0.01)
        if ctx.cancelled:
            open(file, "w").write("cancelled")
            return ""
    return "slept"

@app.tool(description="d")
def stuck(ctx: Context) -> None:
    ctx.progress(0)
    time.sleep(60)

@app.tool(description="d")
async def blocks(ctx: Context) -> None:
    await ctx.progress(0)
    time.sleep(60)

@app.tool(description="d")
def steps(n: int, ctx: Context) -> str:
    for i in range(n):
        ctx.progress(i, n)
        ctx.log.info(i)
    return "done"

@app.tool(description="d")
async def greet(ctx: Context) -> str:
    return "Hello " + (await ctx.elicit("Name?", str)).data

@app.tool(description="d")
def exact() -> None:
    raise McpError(-32042, "exactly this", {"n": 9007199254740993})

@app.tool(description="d")
def fails(text: str, times: int) -> None:
    raise ValueError(text * times)

@app.tool(description="d")
def interrupts() -> None:
    raise KeyboardInterrupt

@app.tool(description="d")
async def interrupts_async() -> None:
    raise KeyboardInterrupt

@app.tool(description="d")
def read_stdin() -> str:
    return repr(sys.stdin.read())

@app.tool(description="d")
def grow(name: str) -> None:
    def extra() -> None: ...
    app.add_tool(extra, name=name)

@app.resource("item://{id}")
def item(id: int) -> dict:
    return {"id": id}

@app.prompt
async def start(ctx: Context, name: str) -> str:
    await ctx.progress(1)
    return "Start " + name

@start.complete("name")
def names(value: str) -> list[str]:
    return [value + "!"]

@app.tool(description="d")
def touch(uri: str, times: int) -> None:
    for _ in range(times):
        app.notify_updated(uri)

print("printed before run")
app.run()
print("run returned")
"""

COOKIE = {"MCPBRIDGE_PLUGIN": "mcpbridge.v1", "PLUGIN_PROTOCOL_VERSIONS": "1"}


class Plugin:
    """A plugin process, started and stopped as the bridge does."""

    def __init__(self, folder: Path, env: dict[str, str], lifeline: bool = True, tools: str = TOOLS) -> None:
        program = folder / "tools.py"
        program.write_text(tools)
        env = {"PLUGIN_UNIX_SOCKET_DIR": str(folder), **env}
        if lifeline:
            env["MCP_PLUGIN_LIFELINE"] = "stdin"
        self.stderr = folder / "stderr"
        with self.stderr.open("wb") as stderr:
            self.process = subprocess.Popen(
                [sys.executable, str(program)],
                env={"PATH": os.environ["PATH"], **env},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
            )
        assert self.process.stdout
        self.line = ""
        self.before: list[str] = []
        while line := self.process.stdout.readline().decode():
            if line.startswith("1|"):
                self.line = line.rstrip("\n")
                break
            self.before.append(line.rstrip("\n"))
        self.fields = self.line.split("|")

    @property
    def target(self) -> str:
        return f"unix:{self.fields[3]}"

    def log(self) -> str:
        return self.stderr.read_text()

    def rest_of_stdout(self) -> bytes:
        assert self.process.stdout
        return self.process.stdout.read()

    def channel(self) -> grpc.aio.Channel:
        return grpc.aio.insecure_channel(self.target, options=OPTIONS)


OPTIONS = [
    ("grpc.default_authority", "localhost"),
    ("grpc.max_receive_message_length", 64 << 20),
    ("grpc.max_send_message_length", 64 << 20),
]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Plugin]]:
    plugins = []

    def start(env: dict[str, str] | None = None, **options: Any) -> Plugin:
        plugins.append(Plugin(tmp_path, {**COOKIE, **(env or {})}, **options))
        return plugins[-1]

    yield start
    for plugin in plugins:
        plugin.process.kill()
        plugin.process.communicate()


def stub_of(channel: grpc.aio.Channel) -> Any:
    return McpServiceStub(channel)  # type: ignore[no-untyped-call]  # protoc writes no types for services.


async def call(stub: Any, name: str, /, **arguments: Any) -> list[v1.CallToolResponse]:
    request = v1.CallToolRequest(context=EVERYTHING, name=name, arguments=json.dumps(arguments).encode())
    return [event async for event in stub.CallTool(request)]


async def read(stub: Any, uri: str) -> list[v1.ReadResourceResponse]:
    return [event async for event in stub.ReadResource(v1.ReadResourceRequest(context=EVERYTHING, uri=uri))]


async def get(stub: Any, name: str, /, **arguments: str) -> list[v1.GetPromptResponse]:
    request = v1.GetPromptRequest(context=EVERYTHING, name=name, arguments=arguments)
    return [event async for event in stub.GetPrompt(request)]


async def started(stub: Any, name: str, /, **arguments: Any) -> Any:
    """Starts a call of a tool that reports progress when it has started, and waits for it."""
    stream = stub.CallTool(v1.CallToolRequest(context=EVERYTHING, name=name, arguments=json.dumps(arguments).encode()))
    assert (await stream.read()).HasField("progress")
    return stream


async def text(stub: Any, name: str, /, **arguments: Any) -> str:
    return str((await call(stub, name, **arguments))[-1].result.content[0].text.text)


async def until(what: Callable[[], Any], seconds: float = 10) -> None:
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, "it did not happen"
        await asyncio.sleep(0.01)


async def shutdown(channel: grpc.aio.Channel) -> None:
    stop: Any = channel.unary_unary("/plugin.GRPCController/Shutdown")
    assert await stop(b"") == b""


StartPlugin = Callable[..., Plugin]


async def test_the_handshake_is_the_only_line_after_the_import(start: StartPlugin) -> None:
    plugin = start()
    assert plugin.before == ["printed before the import"]
    assert plugin.fields[:3] == ["1", "1", "unix"]
    assert plugin.fields[4:] == ["grpc", ""]
    assert len(plugin.fields[3]) < 100
    async with plugin.channel() as channel:
        assert await text(stub_of(channel), "add", a=1, b=2) == "3"
        await shutdown(channel)
    assert plugin.process.wait(30) == 0
    assert not Path(plugin.fields[3]).exists()
    assert plugin.rest_of_stdout() == b""


async def test_output_is_logged(start: StartPlugin) -> None:
    plugin = start()
    async with plugin.channel() as channel:
        assert await text(stub_of(channel), "loud") == "ok"
        # At once, and not when the process ends.
        for line in ("after the import", "before run", "printed\n", "written to fd 1\n", "echoed by a child\n"):
            assert line in plugin.log()
        await shutdown(channel)
    plugin.process.wait(30)
    assert "run returned" in plugin.log()
    assert plugin.rest_of_stdout() == b""


def failures(log: str) -> list[Any]:
    return [json.loads(line) for line in log.splitlines() if line.startswith("{")]


FAILS_AT = TOOLS[: TOOLS.index("raise ValueError")].count("\n") + 1
LOGGING = "import logging, sys; logging.basicConfig(stream=sys.stderr)\n"


@pytest.mark.parametrize("tools", [TOOLS, LOGGING + TOOLS[1:]], ids=["plain", "logging"])
async def test_a_failure_is_one_line_of_log(start: StartPlugin, tools: str) -> None:
    plugin = start(tools=tools)
    async with plugin.channel() as channel:
        assert await text(stub_of(channel), "fails", text="two\nlines", times=1) == "two\nlines"
    (failure,) = failures(plugin.log())
    traceback = failure.pop("traceback")
    assert failure == {
        "level": "error",
        "logger": "mcpbridge",
        "message": f'tool "fails" failed at tools.py:{FAILS_AT}: ValueError: two\nlines',
    }
    assert traceback.startswith("Traceback (most recent call last):\n")
    assert traceback.endswith("ValueError: two\nlines")
    assert "Traceback" not in "".join(line for line in plugin.log().splitlines() if not line.startswith("{"))


async def test_a_long_failure_is_cut_to_what_the_bridge_reads(start: StartPlugin) -> None:
    plugin = start()
    async with plugin.channel() as channel:
        await text(stub_of(channel), "fails", text="\U0001f600", times=100_000)
    (line,) = (line for line in plugin.log().splitlines() if line.startswith("{"))
    assert len(line) <= 8 << 10
    assert json.loads(line)["message"].startswith(f'tool "fails" failed at tools.py:{FAILS_AT}: ValueError: ')


async def test_a_keyboard_interrupt_in_a_tool_ends_its_call_only(start: StartPlugin) -> None:
    async with start().channel() as channel:
        stub = stub_of(channel)
        for name in ("interrupts", "interrupts_async"):
            (event,) = await call(stub, name)
            assert (event.result.is_error, event.result.content[0].text.text) == (True, "KeyboardInterrupt")
        assert await text(stub, "add", a=1, b=2) == "3"


NOTHING = "from mcpbridge import App\nApp('test').run()\n"


async def test_an_empty_app_causes_a_warning(start: StartPlugin) -> None:
    warning = {"level": "warning", "logger": "mcpbridge", "message": "the app has no tools, resources or prompts"}
    assert failures(start(tools=NOTHING).log()) == [warning]
    assert failures(start(tools=NOTHING.replace("'test'", "'test', declares=['tools']")).log()) == []


async def test_multiplexing_is_declined(start: StartPlugin) -> None:
    assert start({"PLUGIN_MULTIPLEX_GRPC": "true"}).fields[6] == "false"


async def test_an_unknown_version_is_refused(start: StartPlugin) -> None:
    plugin = start({"PLUGIN_PROTOCOL_VERSIONS": "2,3"})
    assert (plugin.line, plugin.process.wait(30)) == ("", 1)
    assert "the bridge supports version 2,3 of the plugin protocol, and this SDK supports version 1" in plugin.log()


def test_the_generated_certificate_is_no_ca() -> None:
    certificate = x509.load_pem_x509_certificate(split(make_key_pair())[1])
    assert not certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca


def split(pem: str) -> tuple[bytes, bytes]:
    key, begin, certificate = pem.partition("-----BEGIN CERTIFICATE-----")
    return key.encode(), (begin + certificate).encode()


@pytest.mark.parametrize("key_pair_provided", [True, False], ids=["MCPBRIDGE_KEY_PAIR", "AutoMTLS"])
async def test_mutual_tls(start: StartPlugin, tmp_path: Path, key_pair_provided: bool) -> None:
    key, certificate = split(make_key_pair())
    env = {"PLUGIN_CLIENT_CERT": certificate.decode()}
    pair = make_key_pair()
    if key_pair_provided:
        (tmp_path / "pair.pem").write_text(pair)
        env["MCPBRIDGE_KEY_PAIR"] = str(tmp_path / "pair.pem")
    plugin = start(env)
    field = plugin.fields[5]
    assert "=" not in field
    server = ssl.DER_cert_to_PEM_cert(base64.b64decode(field + "=" * (-len(field) % 4)))
    if key_pair_provided:
        assert ssl.PEM_cert_to_DER_cert(split(pair)[1].decode().strip()) == ssl.PEM_cert_to_DER_cert(server)

    async def add(credentials: grpc.ChannelCredentials | None) -> str:
        secure = (
            grpc.aio.secure_channel(plugin.target, credentials, options=OPTIONS) if credentials else plugin.channel()
        )
        async with secure as channel:
            return await asyncio.wait_for(text(stub_of(channel), "add", a=1, b=2), 10)

    assert await add(grpc.ssl_channel_credentials(server.encode(), key, certificate)) == "3"
    other_key, other_certificate = split(make_key_pair())
    for refused in (
        grpc.ssl_channel_credentials(server.encode(), other_key, other_certificate),
        grpc.ssl_channel_credentials(server.encode()),
        None,
    ):
        with pytest.raises(grpc.aio.AioRpcError) as e:
            await add(refused)
        assert e.value.code() == grpc.StatusCode.UNAVAILABLE


async def test_the_transport_is_one_of_the_host(start: StartPlugin) -> None:
    plugin = start({"PLUGIN_TRANSPORTS": "tcp"})
    assert (plugin.fields[2], plugin.fields[3].rpartition(":")[0]) == ("tcp", "127.0.0.1")
    async with grpc.aio.insecure_channel(plugin.fields[3]) as channel:
        assert await text(stub_of(channel), "add", a=1, b=2) == "3"


def test_a_group_may_use_the_socket(start: StartPlugin) -> None:
    plugin = start({"PLUGIN_UNIX_SOCKET_GROUP": str(os.getgid())})
    found = Path(plugin.fields[3]).stat()
    assert (found.st_gid, stat.S_IMODE(found.st_mode)) == (os.getgid(), 0o660)


async def test_health(start: StartPlugin) -> None:
    async with start().channel() as channel:
        check = channel.unary_unary(
            "/grpc.health.v1.Health/Check",
            health_pb2.HealthCheckRequest.SerializeToString,
            health_pb2.HealthCheckResponse.FromString,
        )
        for service in ("", "plugin"):
            got = await check(health_pb2.HealthCheckRequest(service=service))
            assert got.status == health_pb2.HealthCheckResponse.SERVING


async def test_events_are_sent_at_once_and_the_result_last(start: StartPlugin) -> None:
    async with start().channel() as channel:
        events = await call(stub_of(channel), "steps", n=100)
    kinds = [e.WhichOneof("event") for e in events]
    assert kinds == ["progress", "log"] * 100 + ["result"]
    assert [e.progress.progress for e in events if e.HasField("progress")] == list(range(100))


async def test_a_question_takes_two_calls(start: StartPlugin) -> None:
    async with start().channel() as channel:
        stub = stub_of(channel)
        (asked,) = await call(stub, "greet")
        (question,) = asked.input_required.input_requests
        answer = v1.InputResponse(elicit=v1.ElicitResult(action="accept", content='{"value":"Ada"}'))
        state = asked.input_required.request_state
        state.decode()  # It is a string in MCP.
        request = v1.CallToolRequest(
            context=EVERYTHING, name="greet", request_state=state, input_responses={question.key: answer}
        )
        (answered,) = [e async for e in stub.CallTool(request)]
    assert answered.result.content[0].text.text == "Hello Ada"


async def test_everything_else_of_the_contract(start: StartPlugin) -> None:
    async with start().channel() as channel:
        stub = stub_of(channel)
        can = (await stub.Discover(v1.DiscoverRequest(context=EVERYTHING))).capabilities
        assert can.resources.subscribe
        assert can.prompts.list_changed
        assert can.HasField("completions")
        assert not (await stub.ListResources(v1.ListResourcesRequest(context=EVERYTHING))).resources
        (template,) = (
            await stub.ListResourceTemplates(v1.ListResourceTemplatesRequest(context=EVERYTHING))
        ).resource_templates
        assert template.uri_template == "item://{id}"
        (contents,) = (await read(stub, "item://7"))[0].result.contents
        assert (contents.uri, contents.text) == ("item://7", '{"id":7}')
        (listed,) = (await stub.ListPrompts(v1.ListPromptsRequest(context=EVERYTHING))).prompts
        assert listed.name == "start"
        progress, filled = await get(stub, "start", name="it")
        assert progress.progress.progress == 1
        assert filled.result.messages[0].content.text.text == "Start it"
        ref = v1.CompletionReference(prompt=v1.PromptReference(name="start"))
        argument = v1.CompletionArgument(name="name", value="A")
        assert (
            await stub.Complete(v1.CompleteRequest(context=EVERYTHING, reference=ref, argument=argument))
        ).completion.values == ["A!"]


@pytest.mark.parametrize("version", [0, 1, 3])
async def test_a_bridge_with_another_contract_is_refused(start: StartPlugin, version: int) -> None:
    context = v1.CallContext(verified=v1.VerifiedCaller(contract_version=version))
    message = (
        f"the bridge has version {version or 1} of the contract, and this SDK has version 2: "
        "install an mcpbridge and an SDK of the same release"
    )
    async with start().channel() as channel:
        stub = stub_of(channel)
        for answer in (
            stub.Discover(v1.DiscoverRequest(context=context)),
            anext(aiter(stub.CallTool(v1.CallToolRequest(context=context, name="add", arguments=b'{"a":1,"b":2}')))),
            anext(aiter(stub.Listen(v1.ListenRequest(context=context)))),
        ):
            with pytest.raises(grpc.aio.AioRpcError) as e:
                await answer
            assert (e.value.code(), e.value.details()) == (grpc.StatusCode.FAILED_PRECONDITION, message)


async def test_errors_are_statuses(start: StartPlugin) -> None:
    async with start().channel() as channel:
        stub = stub_of(channel)

        async def code(answer: Awaitable[Any]) -> grpc.StatusCode:
            with pytest.raises(grpc.aio.AioRpcError) as e:
                await answer
            return e.value.code()

        assert await code(call(stub, "ad")) == grpc.StatusCode.NOT_FOUND
        assert (
            await code(stub.ListTools(v1.ListToolsRequest(context=EVERYTHING, cursor="x")))
            == grpc.StatusCode.INVALID_ARGUMENT
        )
        assert await code(read(stub, "item://none")) == grpc.StatusCode.NOT_FOUND
        assert await code(get(stub, "start")) == grpc.StatusCode.INVALID_ARGUMENT
        argument = v1.CompletionArgument(name="name")
        ref = v1.CompletionReference(prompt=v1.PromptReference(name="none"))
        assert (
            await code(stub.Complete(v1.CompleteRequest(context=EVERYTHING, reference=ref, argument=argument)))
            == grpc.StatusCode.NOT_FOUND
        )
        with pytest.raises(grpc.aio.AioRpcError) as e:
            await call(stub, "exact")
    (trailer,) = (value for key, value in e.value.trailing_metadata() if key == "grpc-status-details-bin")
    status = status_pb2.Status.FromString(trailer)
    detail = v1.JsonRpcError()
    assert status.details[0].Unpack(detail)
    assert detail == v1.JsonRpcError(code=-32042, message="exactly this", data='{"n":9007199254740993}')


@pytest.mark.parametrize("tool", ["slow", "slow_sync"])
async def test_a_cancelled_call_stops(start: StartPlugin, tmp_path: Path, tool: str) -> None:
    file = tmp_path / "canceled"
    async with start().channel() as channel:
        stream = await started(stub_of(channel), tool, seconds=60, file=str(file))
        stream.cancel()
        await until(file.exists)


async def test_large_messages(start: StartPlugin) -> None:
    async with start().channel() as channel:
        stub = stub_of(channel)
        large = "x" * (20 << 20)
        assert await text(stub, "echo", text=large) == large
        # The error for an unknown name is short: the size of a status is limited.
        assert len(await text(stub, "add", a=large, b=large)) < 1000
        with pytest.raises(grpc.aio.AioRpcError) as e:
            await call(stub, large)
    assert e.value.code() == grpc.StatusCode.NOT_FOUND


async def test_an_answer_is_as_large_as_it_is(start: StartPlugin) -> None:
    """The client limits the size of results."""
    size = 65 << 20
    large = [*OPTIONS[:1], ("grpc.max_receive_message_length", -1)]
    async with grpc.aio.insecure_channel(start().target, options=large) as channel:
        assert len(await text(stub_of(channel), "large", size=size)) == size


async def test_listening(start: StartPlugin) -> None:
    plugin = start()
    async with plugin.channel() as channel:
        stub = stub_of(channel)
        requested = v1.SubscriptionFilter(tools_list_changed=True, resource_subscriptions=["item://1", "item://2"])
        events = stub.Listen(v1.ListenRequest(context=EVERYTHING, notifications=requested))
        assert (await events.read()).acknowledged.notifications == requested
        other = stub.Listen(
            v1.ListenRequest(context=EVERYTHING, notifications=v1.SubscriptionFilter(prompts_list_changed=True))
        )
        assert (await other.read()).HasField("acknowledged")
        for name in ("one", "two"):
            await call(stub, "grow", name=name)
            assert (await asyncio.wait_for(events.read(), 5)).HasField("tools_list_changed")
        assert [t.name for t in (await stub.ListTools(v1.ListToolsRequest(context=EVERYTHING))).tools][-2:] == [
            "one",
            "two",
        ]
        await call(stub, "touch", uri="item://3", times=1)
        await call(stub, "touch", uri="item://2", times=10_000)
        updates = 0
        with contextlib.suppress(asyncio.TimeoutError):
            while event := await asyncio.wait_for(asyncio.shield(events.read()), 0.5):
                assert event == v1.ListenResponse(resource_updated=v1.ResourceUpdated(uri="item://2"))
                updates += 1
        assert 1 <= updates < 5_000, "many changes of a thing are few"
        start_time = time.monotonic()
        await shutdown(channel)
        assert await other.read() is grpc.aio.EOF, "it received no changes"
    assert plugin.process.wait(30) == 0
    assert time.monotonic() - start_time < 4.5, "it waited for the listeners"


async def test_shutdown_lets_calls_finish(start: StartPlugin) -> None:
    plugin = start()
    async with plugin.channel() as channel:
        stream = await started(stub_of(channel), "slow", seconds=4, file="")
        start_time = time.monotonic()
        await shutdown(channel)
        assert time.monotonic() - start_time < 3.5, "the answer comes first"
        assert (await stream.read()).result.content[0].text.text == "slept"
    assert plugin.process.wait(30) == 0


async def test_shutdown_waits_no_longer_than_the_drain(start: StartPlugin) -> None:
    plugin = start()
    async with plugin.channel() as channel:
        stream = await started(stub_of(channel), "stuck")
        start_time = time.monotonic()
        await shutdown(channel)
        with pytest.raises(grpc.aio.AioRpcError):
            await stream.read()
    assert await asyncio.to_thread(plugin.process.wait, 30) == 0
    assert 4.5 < time.monotonic() - start_time < 30


async def test_signals(start: StartPlugin) -> None:
    plugin = start()
    plugin.process.send_signal(signal.SIGINT)
    async with plugin.channel() as channel:
        assert await text(stub_of(channel), "add", a=1, b=2) == "3"
    plugin.process.send_signal(signal.SIGTERM)
    assert plugin.process.wait(30) == 0
    assert "Traceback" not in plugin.log()


@pytest.mark.parametrize("busy", [None, "slow", "stuck", "blocks"])
async def test_the_end_of_the_lifeline_ends_the_process(start: StartPlugin, tmp_path: Path, busy: str | None) -> None:
    plugin = start()
    async with plugin.channel() as channel:
        if busy:
            arguments = {"seconds": 60, "file": str(tmp_path / "canceled")} if busy == "slow" else {}
            stream = await started(stub_of(channel), busy, **arguments)
        assert plugin.process.stdin
        plugin.process.stdin.close()
        plugin.process.stdin = None
        assert await asyncio.to_thread(plugin.process.wait, 8) == 0
        if busy:
            stream.cancel()
    assert not Path(plugin.fields[3]).exists()


async def test_a_tool_cannot_read_the_lifeline(start: StartPlugin) -> None:
    async with start().channel() as channel:
        assert await asyncio.wait_for(text(stub_of(channel), "read_stdin"), 5) == "''"


def test_without_a_lifeline_the_death_of_the_parent_ends_the_process(tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(TOOLS)
    parent = textwrap.dedent("""
        import os, subprocess, sys
        plugin = subprocess.Popen([sys.executable, sys.argv[1]], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        while not plugin.stdout.readline().startswith(b"1|"): pass
        print(plugin.pid, flush=True)
        os.kill(os.getpid(), 9)
    """)
    env = {**os.environ, **COOKIE, "PLUGIN_UNIX_SOCKET_DIR": str(tmp_path)}
    out = subprocess.run(
        [sys.executable, "-c", parent, str(tmp_path / "tools.py")], env=env, capture_output=True, text=True
    ).stdout
    pid = int(out)
    end = time.monotonic() + 5
    while (
        Path(f"/proc/{pid}").exists() and "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    ):
        assert time.monotonic() < end
        time.sleep(0.05)


def run(tmp_path: Path, *arguments: str, tools: str = TOOLS) -> "subprocess.Popen[str]":
    (tmp_path / "tools.py").write_text(tools)
    env = {k: v for k, v in os.environ.items() if k not in COOKIE}
    command = [sys.executable, "tools.py", *arguments]
    return subprocess.Popen(command, cwd=tmp_path, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_a_person_gets_the_usage(tmp_path: Path) -> None:
    process = run(tmp_path)
    _, stderr = process.communicate(timeout=30)
    assert process.returncode == 2
    assert "mcpbridge run -- python3 tools.py" in stderr
    assert "python3 tools.py --listen 127.0.0.1:50051" in stderr


@pytest.mark.parametrize("listen", ["127.0.0.1:0", "tcp:127.0.0.1:0", "unix:{}/s", "unix:s", "unix://{}/s"])
async def test_attached(tmp_path: Path, listen: str) -> None:
    process = run(tmp_path, "--listen", listen.format(tmp_path))
    assert process.stderr
    line = process.stderr.readline()
    assert line.startswith("test: listening. Serve it with: mcpbridge run ")
    address = line.split()[-1]
    if listen.startswith("unix"):
        assert address == f"unix://{tmp_path}/s"
    else:
        assert re.fullmatch(r"tcp:127.0.0.1:[1-9]\d*", address)
    async with grpc.aio.insecure_channel(address.removeprefix("tcp:"), options=OPTIONS) as channel:
        assert await text(stub_of(channel), "add", a=1, b=2) == "3"
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)
    assert process.returncode == 0
    assert not (tmp_path / "s").exists()


async def test_the_log_of_an_attached_app_is_text(tmp_path: Path) -> None:
    process = run(tmp_path, "--listen=unix:s")
    assert process.stderr
    process.stderr.readline()
    async with grpc.aio.insecure_channel(f"unix:{tmp_path}/s", options=OPTIONS) as channel:
        await text(stub_of(channel), "fails", text="bad", times=1)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=30)
    first, second, *_ = stderr.splitlines()
    assert first == f'tool "fails" failed at tools.py:{FAILS_AT}: ValueError: bad'
    assert second == "Traceback (most recent call last):"


def test_attached_with_nothing(tmp_path: Path) -> None:
    process = run(tmp_path, "--listen=unix:s", tools=NOTHING)
    assert process.stderr
    assert process.stderr.readline() == "the app has no tools, resources or prompts\n"
    process.stderr.readline()
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=30)


def test_an_address_in_use_is_reported(tmp_path: Path) -> None:
    process = run(tmp_path, "--listen=nowhere.invalid:1")
    _, stderr = process.communicate(timeout=30)
    assert process.returncode == 1
    assert "test: cannot listen at nowhere.invalid:1" in stderr


def test_every_wrong_definition_is_one_line(tmp_path: Path) -> None:
    tools = """from mcpbridge import App
app = App("test")

@app.tool
def forecast(city: str, sky: App) -> str:
    return city

@app.tool(readonly=True)
def measure() -> str:
    return ""

@app.resource("stations://all", mimetype="text/csv")
def stations() -> str:
    return ""

@app.prompt
def packing(city) -> str:
    return ""

@packing.complete("city")
def cities(value: str) -> list[str]:
    return []

app.run()
"""
    process = run(tmp_path, tools=tools)
    _, stderr = process.communicate(timeout=30)
    assert process.returncode == 1
    message = 'parameter "sky" has a type that JSON cannot represent, App; use str'
    assert stderr.startswith(f'tools.py:5: tool "forecast": {message}')
    assert stderr.splitlines()[1:] == [
        'tools.py:8: tool "measure": there is no option "readonly"; did you mean read_only?',
        'tools.py:12: resource "stations://all": there is no option "mimetype"; did you mean mime_type?',
        'tools.py:17: prompt "packing": parameter "city" has no type hint; write city: str',
    ]


def test_other_errors_keep_their_frames(tmp_path: Path) -> None:
    process = run(tmp_path, tools="import mcpbridge\n1 / 0\n")
    _, stderr = process.communicate(timeout=30)
    assert (process.returncode, "Traceback" in stderr, "tools.py" in stderr) == (1, True, True)
