"""A real process that receives tool calls as frames from a socket such as the bridge's, and other calls over gRPC."""

import asyncio
import collections
import contextlib
import itertools
import json
import os
import socket
import struct
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.rpc import code_pb2, status_pb2
from test_serve import COOKIE, Plugin, shutdown, started, stub_of, text, until

from mcpbridge import v1
from mcpbridge.testing import EVERYTHING

# As in proto/mcpbridge/v1/frames.md, independent of the SDK.
CALL, CANCEL, TAKEN, HELLO, EVENT, RESULT, ERROR, LAST = 1, 2, 3, 16, 17, 18, 19, 20
UNREAD = 64
LIMIT = 64 << 20

TOOLS = """
import asyncio, os, subprocess, threading, time
from mcpbridge import *
app = App("test")
shouted = 0

@app.tool
async def add(a: int, b: int) -> int:
    return a + b

@app.tool
async def add_later(a: int, b: int) -> int:
    await asyncio.sleep(0.0001 * (a % 7))
    return a + b

@app.tool
def add_sync(a: int, b: int, ctx: Context) -> int:
    ctx.progress(a)
    return a + b

@app.tool
def echo(text: str) -> str:
    return text

@app.tool
async def large(size: int) -> str:
    return "x" * size

@app.tool
async def slow(seconds: float, file: str, ctx: Context) -> str:
    try:
        ctx.progress(0)
        await asyncio.sleep(seconds)
    except asyncio.CancelledError:
        open(file, "w").write("cancelled")
        raise
    return "slept"

@app.tool
def slow_sync(seconds: float, file: str, ctx: Context) -> str:
    ctx.progress(0)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(0.01)
        if ctx.cancelled:
            open(file, "w").write("cancelled")
            return ""
    return "slept"

@app.tool
async def stubborn(file: str, ctx: Context) -> str:
    for i in range(100):
        ctx.progress(i)  # They are not read.
    try:
        await asyncio.sleep(60)
    except asyncio.CancelledError:
        open(file, "w").write("goes on")
    return "done"

@app.tool
async def burst(n: int, ctx: Context) -> str:
    for i in range(n):
        ctx.progress(i)
    return "done"

@app.tool
def stuck(ctx: Context) -> None:
    ctx.progress(0)
    time.sleep(60)

@app.tool
async def computes(seconds: float) -> str:
    time.sleep(seconds)
    return "computed"

@app.tool
async def steps(n: int, ctx: Context) -> str:
    for i in range(n):
        await ctx.progress(i, n)
        await ctx.log.info(i)
    return "done"

@app.tool
async def shout(n: int, size: int, ctx: Context) -> str:
    global shouted
    for i in range(n):
        await ctx.log.info("x" * size)
        shouted += 1
    return "done"

@app.tool
async def has_shouted() -> int:
    return shouted

@app.tool
async def survey(ctx: Context) -> str:
    name, colour = await asyncio.gather(ctx.elicit("Name?", str), ctx.elicit("Colour?", str))
    size = await ctx.elicit(f"Size, {name.data}?", int)
    return f"{name.data} {colour.data} {size.data}"

@app.tool
def exact() -> None:
    raise McpError(-32042, "exactly this", {"n": 9007199254740993})

@app.tool
async def own() -> None:
    raise BaseException("of its own")

@app.tool
async def cancels_itself() -> None:
    raise asyncio.CancelledError

@app.tool
def children_have() -> str:
    return subprocess.run(["env"], capture_output=True, text=True).stdout

app.run()
"""


class Bridge:
    """The bridge's end of the connection: it sends frames, and keeps what each call receives."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writer = writer
        self._reader = reader
        self._numbers = itertools.count(1)
        self.received: dict[int, asyncio.Queue[tuple[int, bytes]]] = collections.defaultdict(asyncio.Queue)
        self.ended = asyncio.Event()
        self.last: asyncio.Queue[int] = asyncio.Queue()  # The last call that a draining plugin started.
        self.reader = asyncio.create_task(self._read())

    async def _read(self) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                length, number, kind = struct.unpack(">IIB", await self._reader.readexactly(9))
                payload = await self._reader.readexactly(length)
                if kind == LAST:
                    self.last.put_nowait(number)
                else:
                    self.received[number].put_nowait((kind, payload))
        self.ended.set()

    def send_frame(self, kind: int, number: int, payload: bytes = b"") -> None:
        self.writer.write(struct.pack(">IIB", len(payload), number, kind) + payload)

    def call(self, name: str, /, **arguments: Any) -> int:
        return self.ask(v1.CallToolRequest(context=EVERYTHING, name=name, arguments=json.dumps(arguments).encode()))

    def ask(self, request: v1.CallToolRequest) -> int:
        number = next(self._numbers)
        self.send_frame(CALL, number, request.SerializeToString())
        return number

    async def next(self, number: int) -> tuple[int, bytes]:
        return await asyncio.wait_for(self.received[number].get(), 20)

    async def event(self, number: int) -> v1.CallToolResponse:
        kind, payload = await self.next(number)
        assert kind == EVENT
        return v1.CallToolResponse.FromString(payload)

    async def end(self, number: int) -> tuple[list[v1.CallToolResponse], int, bytes]:
        """Returns the events of a call and its response, and acknowledges each event."""
        events: list[v1.CallToolResponse] = []
        while True:
            kind, payload = await self.next(number)
            if kind != EVENT:
                return events, kind, payload
            self.send_frame(TAKEN, number)
            events.append(v1.CallToolResponse.FromString(payload))

    async def result(self, number: int) -> v1.CallToolResponse:
        _, kind, payload = await self.end(number)
        assert kind == RESULT
        return v1.CallToolResponse.FromString(payload)

    async def text(self, name: str, /, **arguments: Any) -> str:
        return (await self.result(self.call(name, **arguments))).result.content[0].text.text

    async def error(self, number: int) -> status_pb2.Status:
        _, kind, payload = await self.end(number)
        assert kind == ERROR
        return status_pb2.Status.FromString(payload)


class BridgeSocket:
    """A socket where a plugin may connect."""

    def __init__(self, folder: Path) -> None:
        self.listener = socket.socket(socket.AF_UNIX)
        self.path = folder / "frames.sock"
        self.listener.bind(str(self.path))
        self.listener.listen()
        self.listener.settimeout(20)

    def start(self, folder: Path, variable: str | None = None) -> Plugin:
        return Plugin(folder, {**COOKIE, "MCPBRIDGE_FRAMES": variable or f"unix:{self.path}"}, tools=TOOLS)

    def accept(self) -> socket.socket:
        return self.listener.accept()[0]


@pytest.fixture
def bridge_socket(tmp_path: Path) -> Iterator[BridgeSocket]:
    bridge_socket = BridgeSocket(tmp_path)
    with bridge_socket.listener:
        yield bridge_socket


@asynccontextmanager
async def running(plugin: Plugin) -> AsyncIterator[Plugin]:
    try:
        yield plugin
    finally:
        plugin.process.kill()
        plugin.process.communicate()


@asynccontextmanager
async def bridge_of(accepted: socket.socket) -> AsyncIterator[Bridge]:
    bridge = Bridge(*await asyncio.open_unix_connection(sock=accepted))
    try:
        assert await bridge.next(0) == (HELLO, b"\x01")
        yield bridge
    finally:
        bridge.writer.close()
        await bridge.reader


@asynccontextmanager
async def start_and_connect(bridge_socket: BridgeSocket, folder: Path) -> AsyncIterator[tuple[Plugin, Bridge]]:
    async with running(bridge_socket.start(folder)) as plugin, bridge_of(bridge_socket.accept()) as bridge:
        yield plugin, bridge


async def test_concurrent_calls_get_their_own_responses(bridge_socket: BridgeSocket, tmp_path: Path) -> None:
    async with start_and_connect(bridge_socket, tmp_path) as (_, bridge):
        shared = iter(range(10_000))

        async def caller() -> None:
            for i in shared:
                assert await bridge.text(("add", "add_later", "add_sync")[i % 3], a=i, b=1) == str(i + 1)

        await asyncio.gather(*(caller() for _ in range(64)))
        assert not any(queue.qsize() for queue in bridge.received.values()), "a frame followed the end of a call"


async def test_frames_may_be_split(bridge_socket: BridgeSocket, tmp_path: Path) -> None:
    async with start_and_connect(bridge_socket, tmp_path) as (_, bridge):
        request = v1.CallToolRequest(context=EVERYTHING, name="add", arguments=b'{"a":1,"b":2}').SerializeToString()
        frames = b"".join(struct.pack(">IIB", len(request), number, CALL) + request for number in (1001, 1002))
        for i in range(len(frames)):
            bridge.writer.write(frames[i : i + 1])
            await bridge.writer.drain()
            await asyncio.sleep(0)
        for number in (1001, 1002):
            assert (await bridge.result(number)).result.content[0].text.text == "3"


async def test_long_messages(bridge_socket: BridgeSocket, tmp_path: Path) -> None:
    async with start_and_connect(bridge_socket, tmp_path) as (_, bridge):
        large = "x" * (20 << 20)
        numbers = [bridge.call("echo", text=text) for text in ("a", large, "b", large, "c")]
        texts = [(await bridge.result(number)).result.content[0].text.text for number in numbers]
        assert texts == ["a", large, "b", large, "c"]


async def test_events_are_in_order_and_the_result_is_last(bridge_socket: BridgeSocket, tmp_path: Path) -> None:
    async with start_and_connect(bridge_socket, tmp_path) as (_, bridge):
        numbers = [bridge.call("steps", n=1000) for _ in range(3)]
        for number in numbers:
            events, kind, _ = await bridge.end(number)
            assert kind == RESULT
            assert [e.WhichOneof("event") for e in events] == ["progress", "log"] * 1000
            assert [e.progress.progress for e in events[::2]] == list(range(1000))


async def test_unread_events_block_only_their_call(bridge_socket: BridgeSocket, tmp_path: Path) -> None:
    async with start_and_connect(bridge_socket, tmp_path) as (_, bridge):
        waits = bridge.call("steps", n=UNREAD)
        for _ in range(UNREAD):
            await bridge.event(waits)
        for i in range(100):
            assert await bridge.text("add", a=i, b=1) == str(i + 1)
        assert bridge.received[waits].empty()
        for _ in range(3):
            bridge.send_frame(TAKEN, waits)
            await bridge.event(waits)
            assert await bridge.text("add", a=1, b=2) == "3"
            assert bridge.received[waits].empty()
        for _ in range(UNREAD):
            bridge.send_frame(TAKEN, waits)
        assert (await bridge.result(waits)).result.content[0].text.text == "done"


async def test_events_wait_for_a_bridge_that_does_not_read(bridge_socket: BridgeSocket, tmp_path: Path) -> None:
    async with running(bridge_socket.start(tmp_path)) as plugin, plugin.channel() as channel:
        stub = stub_of(channel)
        request = v1.CallToolRequest(context=EVERYTHING, name="shout", arguments=b'{"n":64,"size":1000000}')
        payload = request.SerializeToString()
        accepted = bridge_socket.accept()
        accepted.sendall(struct.pack(">IIB", len(payload), 1, CALL) + payload)
        while await text(stub, "has_shouted") == "0":
            pass
        # In each of these turns of its event loop, it could send another event.
        for _ in range(100):
            sent = await text(stub, "has_shouted")
        assert int(sent) < 5
        async with bridge_of(accepted) as bridge:
            events, kind, _ = await bridge.end(1)
            assert (len(events), kind) == (64, RESULT)


@pytest.mark.parametrize("tool", ["slow", "slow_sync"])
async def test_a_cancelled_call_stops_and_ends(bridge_socket: BridgeSocket, tmp_path: Path, tool: str) -> None:
    file = tmp_path / "canceled"
    async with start_and_connect(bridge_socket, tmp_path) as (plugin, bridge):
        number = bridge.call(tool, seconds=60, file=str(file))
        await bridge.event(number)
        bridge.send_frame(CANCEL, number)
        bridge.send_frame(CANCEL, number)
        assert (await bridge.error(number)).code == code_pb2.CANCELLED
        await until(file.exists)
        # Its id can be reused.
        bridge.send_frame(
            CALL,
            number,
            v1.CallToolRequest(context=EVERYTHING, name="add", arguments=b'{"a":1,"b":2}').SerializeToString(),
        )
        assert (await bridge.result(number)).result.content[0].text.text == "3"
        assert bridge.received[number].empty()
        assert "Traceback" not in plugin.log()


async def test_a_call_that_is_cancelled_before_it_begins_ends(bridge_socket: BridgeSocket, tmp_path: Path) -> None:
    async with start_and_connect(bridge_socket, tmp_path) as (_, bridge):
        numbers = []
        for _ in range(100):
            numbers.append(bridge.call("add_later", a=6, b=1))
            bridge.send_frame(CANCEL, numbers[-1])
        for number in numbers:
            assert (await bridge.error(number)).code == code_pb2.CANCELLED
        bridge.send_frame(CANCEL, numbers[0])
        bridge.send_frame(TAKEN, numbers[0])
        assert await bridge.text("add", a=1, b=2) == "3"


async def test_unread_events_of_a_cancelled_call_block_nothing(bridge_socket: BridgeSocket, tmp_path: Path) -> None:
    file = tmp_path / "canceled"
    async with start_and_connect(bridge_socket, tmp_path) as (_, bridge):
        number = bridge.call("stubborn", file=str(file))
        for _ in range(UNREAD):
            await bridge.event(number)
        bridge.send_frame(CANCEL, number)
        assert (await bridge.next(number))[0] in (RESULT, ERROR)
        assert file.exists()


async def test_an_answer_does_not_wait_for_calls_that_compute(bridge_socket: BridgeSocket, tmp_path: Path) -> None:
    async with start_and_connect(bridge_socket, tmp_path) as (_, bridge):
        numbers = [bridge.call("computes", seconds=0.3) for _ in range(3)]
        await bridge.result(numbers[0])
        start = asyncio.get_running_loop().time()
        await bridge.result(numbers[-1])
        assert asyncio.get_running_loop().time() - start > 0.4


async def test_errors_are_the_statuses_of_grpc(bridge_socket: BridgeSocket, tmp_path: Path) -> None:
    async with start_and_connect(bridge_socket, tmp_path) as (plugin, bridge), plugin.channel() as channel:
        for name in ("exact", "ad"):
            status = await bridge.error(bridge.call(name))
            with pytest.raises(grpc.aio.AioRpcError) as e:
                await text(stub_of(channel), name)
            assert (status.code, status.message) == (e.value.code().value[0], e.value.details())
            trailers = dict(e.value.trailing_metadata() or ())
            if status.details:
                assert status_pb2.Status.FromString(trailers["grpc-status-details-bin"]) == status
        detail = v1.JsonRpcError()
        assert (await bridge.error(bridge.call("exact"))).details[0].Unpack(detail)
        assert detail == v1.JsonRpcError(code=-32042, message="exactly this", data='{"n":9007199254740993}')
        wrong = await bridge.result(bridge.call("add", a="x"))
        assert wrong.result.is_error
        assert "b: is required" in wrong.result.content[0].text.text


async def test_any_exception_ends_only_its_call(bridge_socket: BridgeSocket, tmp_path: Path) -> None:
    async with start_and_connect(bridge_socket, tmp_path) as (_, bridge):
        status = await bridge.error(bridge.call("own"))
        assert (status.code, status.message) == (code_pb2.UNKNOWN, "of its own")
        await bridge.end(bridge.call("cancels_itself"))
        bridge.send_frame(CALL, 5000, b"\xff\xff\xff")
        assert (await bridge.error(5000)).code == code_pb2.UNKNOWN
        assert await bridge.text("add", a=1, b=2) == "3"


async def test_questions_take_several_calls(bridge_socket: BridgeSocket, tmp_path: Path) -> None:
    answers = {"Name?": '{"value":"Ada"}', "Colour?": '{"value":"red"}', "Size, Ada?": '{"value":3}'}
    async with start_and_connect(bridge_socket, tmp_path) as (_, bridge):
        request = v1.CallToolRequest(context=EVERYTHING, name="survey")
        rounds = []
        while (response := await bridge.result(bridge.ask(request))).HasField("input_required"):
            request = v1.CallToolRequest(
                context=EVERYTHING, name="survey", request_state=response.input_required.request_state
            )
            rounds.append(len(response.input_required.input_requests))
            for asked in response.input_required.input_requests:
                content = answers[asked.elicit.form.message]
                answer = v1.ElicitResult(action="accept", content=content)
                request.input_responses[asked.key].elicit.CopyFrom(answer)
        assert (rounds, response.result.content[0].text.text) == ([2, 1], "Ada red 3")


@pytest.mark.parametrize("mistake", ["too long", "twice"])
async def test_a_protocol_violation_of_the_bridge_closes_only_the_connection(
    bridge_socket: BridgeSocket, tmp_path: Path, mistake: str
) -> None:
    file = tmp_path / "canceled"
    async with start_and_connect(bridge_socket, tmp_path) as (plugin, bridge):
        number = bridge.call("slow", seconds=60, file=str(file))
        await bridge.event(number)
        if mistake == "too long":
            bridge.writer.write(struct.pack(">IIB", LIMIT + 1, number, TAKEN))
        else:
            bridge.send_frame(CALL, number)
        await asyncio.wait_for(bridge.ended.wait(), 10)
        await until(file.exists)
        async with plugin.channel() as channel:
            assert await text(stub_of(channel), "add", a=1, b=2) == "3"
        assert "calls use gRPC" in plugin.log()


async def test_the_end_of_the_connection_cancels_its_calls_only(bridge_socket: BridgeSocket, tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("slow", "slow_sync", "grpc")]
    async with start_and_connect(bridge_socket, tmp_path) as (plugin, bridge), plugin.channel() as channel:
        by_grpc = await started(stub_of(channel), "slow", seconds=1, file=str(files[2]))
        for file in files[:2]:
            await bridge.event(bridge.call(file.name, seconds=60, file=str(file)))
        bridge.writer.close()
        for file in files[:2]:
            await until(file.exists)
        assert (await by_grpc.read()).result.content[0].text.text == "slept"
        assert await text(stub_of(channel), "add", a=1, b=2) == "3"


async def test_shutdown_waits_for_calls_and_accepts_no_more(bridge_socket: BridgeSocket, tmp_path: Path) -> None:
    async with start_and_connect(bridge_socket, tmp_path) as (plugin, bridge), plugin.channel() as channel:
        number = bridge.call("slow", seconds=1, file="")
        await bridge.event(number)
        await shutdown(channel)
        assert await asyncio.wait_for(bridge.last.get(), 20) == number
        late = bridge.call("add", a=1, b=2)
        assert (await bridge.result(number)).result.content[0].text.text == "slept"
        bridge.writer.close()  # As the bridge does once it has all responses.
        assert await asyncio.to_thread(plugin.process.wait, 5) == 0
        assert bridge.received[late].empty()


async def test_shutdown_waits_until_events_are_read(bridge_socket: BridgeSocket, tmp_path: Path) -> None:
    async with start_and_connect(bridge_socket, tmp_path) as (plugin, bridge), plugin.channel() as channel:
        number = bridge.call("burst", n=2 * UNREAD)
        for _ in range(UNREAD):
            await bridge.event(number)
        await shutdown(channel)
        await asyncio.wait_for(bridge.last.get(), 20)
        for _ in range(UNREAD):
            bridge.send_frame(TAKEN, number)
        events, kind, _ = await bridge.end(number)
        assert (len(events), kind) == (UNREAD, RESULT)


async def test_shutdown_waits_no_longer_than_the_drain(bridge_socket: BridgeSocket, tmp_path: Path) -> None:
    async with start_and_connect(bridge_socket, tmp_path) as (plugin, bridge), plugin.channel() as channel:
        number = bridge.call("stuck")
        await bridge.event(number)
        start = asyncio.get_running_loop().time()
        await shutdown(channel)
        await asyncio.wait_for(bridge.ended.wait(), 10)
        assert 4.5 < asyncio.get_running_loop().time() - start < 8
        assert await asyncio.to_thread(plugin.process.wait, 5) == 0


async def test_a_large_last_answer_is_written_to_its_end(bridge_socket: BridgeSocket, tmp_path: Path) -> None:
    async with start_and_connect(bridge_socket, tmp_path) as (plugin, bridge), plugin.channel() as channel:
        large = "x" * (20 << 20)
        number = bridge.call("echo", text=large)
        await bridge.writer.drain()
        await text(stub_of(channel), "add", a=1, b=2)
        await shutdown(channel)
        _, kind, payload = await bridge.end(number)
        assert (kind, len(payload) > len(large)) == (RESULT, True)


async def test_a_message_that_is_too_large_fails_only_its_call(bridge_socket: BridgeSocket, tmp_path: Path) -> None:
    async with start_and_connect(bridge_socket, tmp_path) as (_, bridge):
        numbers = [bridge.call("large", size=LIMIT), bridge.call("shout", n=2, size=LIMIT)]
        for number in numbers:
            status = await bridge.error(number)
            assert status.code == code_pb2.RESOURCE_EXHAUSTED
            assert status.message.startswith("the call was executed, but its response of 6710")
        assert await bridge.text("add", a=1, b=2) == "3"
        assert len(await bridge.text("large", size=LIMIT - 100)) == LIMIT - 100
        assert not any(bridge.received[number].qsize() for number in numbers)


async def test_child_processes_do_not_inherit_the_address(bridge_socket: BridgeSocket, tmp_path: Path) -> None:
    async with start_and_connect(bridge_socket, tmp_path) as (_, bridge):
        assert "MCPBRIDGE_FRAMES" not in await bridge.text("children_have")


@pytest.mark.parametrize("variable", ["unix:{}/none", "unix:{}/tools.py", "unix:", "tcp:127.0.0.1:1", "x"])
async def test_without_a_connection_calls_use_grpc(bridge_socket: BridgeSocket, tmp_path: Path, variable: str) -> None:
    async with running(bridge_socket.start(tmp_path, variable.format(tmp_path))) as plugin, plugin.channel() as channel:
        assert await text(stub_of(channel), "add", a=1, b=2) == "3"
        await shutdown(channel)
        assert await asyncio.to_thread(plugin.process.wait, 5) == 0


def test_the_address_is_removed_at_import(bridge_socket: BridgeSocket) -> None:
    """A program may start others before it serves."""
    program = "import mcpbridge, os; print(os.environ.get('MCPBRIDGE_FRAMES'))"
    env = {**os.environ, "MCPBRIDGE_FRAMES": f"unix:{bridge_socket.path}"}
    run = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True)
    assert run.stdout == "None\n"
