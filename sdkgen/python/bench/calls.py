"""CPU of the plugin per call: starts an app in its own process, calls a tool over gRPC, reads the process's CPU time.

python bench/calls.py [calls] [callers]
"""

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

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


def cpu(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def measure(address: str, pid: int, tool: str, size: int, calls: int, callers: int) -> None:
    # The client is its own bottleneck unless it leaves the messages alone.
    request = v1.CallToolRequest(name=tool, arguments=b'{"text":"%s","n":7}' % (b"x" * size)).SerializeToString()
    async with grpc.aio.insecure_channel(address) as channel:
        call = channel.unary_stream("/mcpbridge.v1.McpService/CallTool")

        async def work(numbers: Iterator[int]) -> None:
            for _ in numbers:
                async for answer in call(request):
                    assert len(answer) > size

        await work(iter(range(200)))
        began, used = time.monotonic(), cpu(pid)
        shared = iter(range(calls))
        await asyncio.gather(*(work(shared) for _ in range(callers)))
        took, used = time.monotonic() - began, cpu(pid) - used
    print(f"{tool:16} {size:6} B  {calls / took:8.0f} calls/s  {used / calls * 10_000:5.2f} CPU-s per 10k")


async def main(calls: int = 10_000, callers: int = 16) -> None:
    with tempfile.TemporaryDirectory() as folder:
        address = f"unix:{folder}/s"
        app = subprocess.Popen([sys.executable, "-c", APP, "--listen", address], stderr=subprocess.PIPE)
        try:
            assert app.stderr
            app.stderr.readline()
            for tool in ("echo", "echo_sync", "echo_structured"):
                await measure(address, app.pid, tool, 200, calls, callers)
            await measure(address, app.pid, "echo", 64 << 10, calls // 5, callers)
        finally:
            app.terminate()
            app.wait()


if __name__ == "__main__":
    asyncio.run(main(*map(int, sys.argv[1:])))
