"""CPU of the plugin per call: starts an app in its own process, calls a tool by frames and over gRPC, reads its CPU
time.

python bench/calls.py [calls] [callers]
"""

import asyncio
import os
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import grpc

from mcpbridge import v1

APP = """
from mcpbridge import App
app = App("bench")

@app.tool
async def echo(text: str, n: int = 0) -> str:
    return text

@app.tool
def echo_sync(text: str, n: int = 0) -> str:
    return text

@app.tool
async def echo_structured(text: str, n: int = 0) -> dict[str, str]:
    return {"text": text}

app.run()
"""

Call = Callable[[bytes], Awaitable[bytes]]
HEADER = struct.Struct(">IIB")


def cpu(pid: int) -> float:
    tasks = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(task.read_text().split()[0]) for task in tasks) / 1e9


class Frames(asyncio.Protocol):
    """The bridge's end of the connection for frames."""

    def __init__(self) -> None:
        self.read = b""
        self.calls: dict[int, asyncio.Future[bytes]] = {}
        self.number = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        self.transport = transport

    def call(self, request: bytes) -> "asyncio.Future[bytes]":
        self.number += 1
        self.calls[self.number] = answer = asyncio.get_running_loop().create_future()
        self.transport.write(HEADER.pack(len(request), self.number, 1) + request)
        return answer

    def data_received(self, data: bytes) -> None:
        self.read += data
        while len(self.read) >= HEADER.size:
            length, number, _ = HEADER.unpack_from(self.read)
            if len(self.read) < HEADER.size + length:
                return
            if number:
                self.calls.pop(number).set_result(self.read[HEADER.size : HEADER.size + length])
            self.read = self.read[HEADER.size + length :]


async def measure(by: str, call: Call, pid: int, tool: str, size: int, calls: int, callers: int) -> None:
    # The client is its own bottleneck unless it leaves the messages alone.
    request = v1.CallToolRequest(name=tool, arguments=b'{"text":"%s","n":7}' % (b"x" * size)).SerializeToString()

    async def work(numbers: Iterator[int]) -> None:
        for _ in numbers:
            assert len(await call(request)) > size

    await work(iter(range(200)))
    began, used = time.monotonic(), cpu(pid)
    shared = iter(range(calls))
    await asyncio.gather(*(work(shared) for _ in range(callers)))
    took, used = time.monotonic() - began, cpu(pid) - used
    print(f"{by:6} {tool:16} {size:6} B  {calls / took:8.0f} calls/s  {used / calls * 10_000:5.2f} CPU-s per 10k")


async def main(calls: int = 10_000, callers: int = 16) -> None:
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"{folder}/frames.sock")
        listener.listen()
        env = {
            **os.environ,
            "MCPBRIDGE_PLUGIN": "mcpbridge.v1",
            "MCPBRIDGE_FRAMES": f"unix:{folder}/frames.sock",
            "PLUGIN_UNIX_SOCKET_DIR": folder,
        }
        app = subprocess.Popen([sys.executable, "-c", APP], env=env, stdout=subprocess.PIPE, text=True)
        try:
            assert app.stdout
            address = app.stdout.readline().split("|")[3]
            connection = listener.accept()[0]
            _, frames = await asyncio.get_running_loop().create_connection(Frames, sock=connection)
            async with grpc.aio.insecure_channel(f"unix:{address}") as channel:
                stream: Any = channel.unary_stream("/mcpbridge.v1.McpService/CallTool")

                async def by_grpc(request: bytes) -> bytes:
                    (answer,) = [answer async for answer in stream(request)]
                    return bytes(answer)

                for by, call in (("frames", frames.call), ("gRPC", by_grpc)):
                    for tool in ("echo", "echo_sync", "echo_structured"):
                        await measure(by, call, app.pid, tool, 200, calls, callers)
                    await measure(by, call, app.pid, "echo", 64 << 10, calls // 5, callers)
        finally:
            app.terminate()
            app.wait()


if __name__ == "__main__":
    asyncio.run(main(*map(int, sys.argv[1:])))
