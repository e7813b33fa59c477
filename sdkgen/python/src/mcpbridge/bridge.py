"""Starts a backend behind the real bridge, and a client for it, in a test.

async with start([sys.executable, "tools.py"]) as client:
    assert await client.call("add", {"a": 1, "b": 2}) == "3"
"""

import asyncio
import contextlib
import json
import os
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from mcpbridge.errors import McpError

Object = dict[str, Any]

# The time in seconds that a test waits for one message.
TIMEOUT = 30.0

MAX_LINE = 64 << 20

METHOD_NOT_FOUND = -32601

# The capabilities of a client that supports all input requests.
EVERYTHING: Mapping[str, Any] = {"elicitation": {"form": {}, "url": {}}, "sampling": {"tools": {}}, "roots": {}}


@contextlib.asynccontextmanager
async def start(
    command: Sequence[str] | str,
    *,
    answer: Callable[[str, Object], Any] | None = None,
    capabilities: Mapping[str, Any] = EVERYTHING,
    bridge: str | None = None,
    cwd: str | Path | None = None,
) -> "AsyncIterator[Client]":
    """Runs a command behind the bridge, and connects as a client of 2025-11-25, until the end of `async with`.

    If the command is a string, it is the address of a backend that is running, such as `unix:/run/tools.sock`.

    `answer` answers requests of the server, such as "elicitation/create"; without it, they fail. The bridge is the
    program `bridge`, or MCPBRIDGE_BIN, or `mcpbridge` in PATH.
    """
    program = bridge or os.environ.get("MCPBRIDGE_BIN") or "mcpbridge"
    try:
        process = await asyncio.create_subprocess_exec(
            *(program, "run", "--stdio", *([command] if isinstance(command, str) else ["--", *command])),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            limit=MAX_LINE,
            cwd=cwd,
        )
    except FileNotFoundError as e:
        raise FileNotFoundError(f"there is no {program}: build it, or set MCPBRIDGE_BIN to its path") from e
    client = Client(process, answer)
    readers = asyncio.gather(client._read(), client._read_log())
    try:
        try:
            await client._initialize(capabilities)
        except McpError as e:
            client._close()
            await readers
            if await process.wait() == 0:
                raise
            raise ConnectionError(f"the bridge has exited; its output:\n{client.log}") from e
        yield client
    finally:
        client._close()
        await readers
        await process.wait()


class Client:
    """An MCP client of a program behind the real bridge, over stdio. It belongs to one event loop."""

    def __init__(self, process: asyncio.subprocess.Process, answer: Callable[[str, Object], Any] | None) -> None:
        self.notifications: deque[Object] = deque()
        """Notifications that have not been read."""
        self.log = ""
        """The output of the bridge and the backend on stderr."""
        self._process = process
        self._answer = answer
        self._pending: dict[int, asyncio.Future[Object]] = {}
        self._notified = asyncio.Event()
        self._id = 0

    async def _initialize(self, capabilities: Mapping[str, Any]) -> None:
        """Opens the session and waits for the backend.

        The bridge responds to initialize while the backend starts, and to the list request once it has started.
        """
        info = {"name": "mcpbridge.testing", "version": "1"}
        await self.request(
            "initialize", {"protocolVersion": "2025-11-25", "clientInfo": info, "capabilities": dict(capabilities)}
        )
        self.notify("notifications/initialized")
        try:
            await self.request("tools/list")
        except McpError as e:
            if e.code != METHOD_NOT_FOUND:
                raise

    def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Sends a notification."""
        self._send({"method": method, "params": params or {}})

    async def request(self, method: str, params: Mapping[str, Any] | None = None) -> Object:
        """Sends a request and returns its result. A JSON-RPC error is raised, as McpError."""
        self._id += 1
        number = self._id
        self._pending[number] = asyncio.get_running_loop().create_future()
        self._send({"id": number, "method": method, "params": params or {}})
        try:
            message = await asyncio.wait_for(self._pending[number], TIMEOUT)
        finally:
            del self._pending[number]
        if error := message.get("error"):
            raise McpError(error["code"], error["message"], error.get("data"))
        result: Object = message["result"]
        return result

    async def call(self, name: str, arguments: Mapping[str, Any] | None = None) -> str:
        """Calls a tool and returns the text of its result."""
        meta = {"progressToken": self._id}
        result = await self.request("tools/call", {"name": name, "arguments": arguments or {}, "_meta": meta})
        return "".join(block.get("text", "") for block in result["content"])

    async def notification(self, method: str) -> Object:
        """Returns the next notification of a method, or a previous unread one."""
        while True:
            for message in self.notifications:
                if message["method"] == method:
                    self.notifications.remove(message)
                    return message
            self._notified.clear()
            await asyncio.wait_for(self._notified.wait(), TIMEOUT)

    def _send(self, message: Object) -> None:
        stdin = self._process.stdin
        if stdin is not None and not stdin.is_closing():
            stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    async def _read(self) -> None:
        assert self._process.stdout  # noqa: S101  # It is a pipe.
        async for line in self._process.stdout:
            message = json.loads(line)
            if "method" not in message:
                if (pending := self._pending.get(message["id"])) and not pending.done():
                    pending.set_result(message)
            elif "id" not in message:
                self.notifications.append(message)
                self._notified.set()
            else:
                self._send({"id": message["id"], **self._response_to(message)})
        for pending in self._pending.values():
            if not pending.done():
                pending.set_exception(ConnectionError(f"the bridge has exited; its output:\n{self.log}"))

    def _response_to(self, message: Object) -> Object:
        if self._answer is None:
            return {"error": {"code": -32601, "message": "the test has no answer"}}
        return {"result": self._answer(message["method"], message.get("params", {}))}

    async def _read_log(self) -> None:
        assert self._process.stderr  # noqa: S101  # It is a pipe.
        async for line in self._process.stderr:
            self.log += line.decode(errors="replace")

    def _close(self) -> None:
        if self._process.stdin is not None:
            self._process.stdin.close()  # Closing stdin stops a stdio server.
