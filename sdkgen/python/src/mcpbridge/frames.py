"""Tool calls as frames on one connection with the bridge that launched this program, instead of CallTool over gRPC.

proto/mcpbridge/v1/frames.md specifies the protocol. Other methods use gRPC, and without the connection CallTool does
too.
"""

import asyncio
import os
import struct
import time
from typing import TYPE_CHECKING, cast

import grpc

from mcpbridge import v1
from mcpbridge.errors import McpError
from mcpbridge.handlers import StatusError, check_contract, log, status

if TYPE_CHECKING:
    from mcpbridge.app import App

# The kinds of frames: from the bridge, and to it.
CALL, CANCEL, TAKEN = 1, 2, 3
HELLO, EVENT, RESULT, ERROR, LAST = 16, 17, 18, 19, 20

VERSION = b"\x01"
HEADER = struct.Struct(">IIB")  # The payload's length, the call's id, the kind.
MAX_UNREAD = 64  # The maximum number of unread events of a call.
MAX_FRAME = 64 << 20  # The bridge fails a call above its own limit, and closes the connection above this.
BUFFER = 256 << 10  # The size of the read buffer. A longer frame gets a temporary buffer.
MAX_BATCH = 64 << 10  # Output of this size is written at once instead of being batched.
MAX_DELAY = 0.001  # The maximum delay of batched output in seconds.


# The address of the bridge. Removed from the environment at import, so that child processes do not inherit it.
ADDRESS = os.environ.pop("MCPBRIDGE_FRAMES", "")


async def connect(app: "App", max_message: int) -> "Frames | None":
    """Connects to the bridge, if it supports frames. Otherwise gRPC is used."""
    scheme, _, path = ADDRESS.partition(":")
    if scheme != "unix":
        return None
    frames = Frames(app, max_message)
    try:
        await asyncio.get_running_loop().create_unix_connection(lambda: frames, path)
    except (OSError, NotImplementedError) as e:
        log.debug("cannot connect for frames at %s, calls use gRPC: %s", path, e)
        return None
    return frames


class Frames(asyncio.BufferedProtocol):
    """The connection of an App. It belongs to one event loop."""

    def __init__(self, app: "App", max_message: int) -> None:
        self.app = app
        self.max_message = max_message
        self.loop = asyncio.get_running_loop()
        self.calls: dict[int, _Call] = {}  # Calls in flight, by id.
        self._last_id = 0  # The id of the last call that was started.
        self._draining = False
        self.closed = self.loop.create_future()
        self._transport: asyncio.Transport | None = None
        self._buffer = memoryview(bytearray(BUFFER))
        self._end = 0  # The end of the data in the buffer, which starts with a frame.
        self._out: list[bytes] = []
        self._size = 0  # The size of out.
        self._flushed = 0.0
        self._flushing = False
        self.full = False  # Whether the write buffer is full, so that events must wait.

    def drain(self) -> None:
        """Refuses new calls. The bridge closes the connection when calls in flight have been answered."""
        self._draining = True
        self.send(LAST, self._last_id, b"")

    async def close(self) -> None:
        """Closes the connection after pending output has been written, or a short time."""
        if self._transport is not None:
            self._flush()
            self._transport.close()
        await asyncio.wait({self.closed}, timeout=1)

    # Callbacks of asyncio.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._transport.write(HEADER.pack(len(VERSION), 0, HELLO) + VERSION)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        if not self.closed.done():
            self.closed.set_result(None)
        for call in tuple(self.calls.values()):
            call.cancel()

    def pause_writing(self) -> None:
        self.full = True

    def resume_writing(self) -> None:
        self.full = False
        for call in self.calls.values():
            call.wake()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer[self._end :]

    def buffer_updated(self, nbytes: int) -> None:
        buffer, at, end, size = self._buffer, 0, self._end + nbytes, HEADER.size
        self._flushed = time.monotonic()
        while end - at >= HEADER.size:
            length, number, kind = HEADER.unpack_from(buffer, at)
            size = HEADER.size + length
            if length > self.max_message:
                self._protocol_error(f"a frame of {length} bytes, more than the maximum of {self.max_message}")
                return
            if end - at < size:
                break
            if kind == CALL:
                if number in self.calls:
                    self._protocol_error(f"a call with the id {number}, which is in flight")
                    return
                if not self._draining:  # While draining, the LAST frame has informed the bridge.
                    self._last_id = number
                    self.calls[number] = _Call(self, number, bytes(buffer[at + HEADER.size : at + size]))
            elif call := self.calls.get(number):
                if kind == CANCEL:
                    call.cancel()
                elif kind == TAKEN:
                    call.handle_taken()
            at += size
            size = HEADER.size
        rest = buffer[at:end]
        if size > len(buffer) or size <= BUFFER < len(buffer):
            self._buffer = memoryview(bytearray(max(size, BUFFER)))
        if at or buffer is not self._buffer:
            self._buffer[: len(rest)] = rest
        self._end = len(rest)
        if self.calls and not self._flushing:
            # After the calls of these frames, so that immediate responses are written together.
            self._flushing = True
            self.loop.call_soon(self._flush)

    # Output.

    def send(self, kind: int, number: int, payload: bytes) -> None:
        self._out += (HEADER.pack(len(payload), number, kind), payload)
        self._size += len(payload)
        if self._size > MAX_BATCH or time.monotonic() - self._flushed > MAX_DELAY:
            self._write()
        elif not self._flushing:
            self._flushing = True
            self.loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._flushing = False
        if self._out:
            self._write()

    def _write(self) -> None:
        frames = b"".join(self._out)
        self._out.clear()
        self._size = 0
        self._flushed = time.monotonic()
        if self._transport is not None:
            self._transport.write(frames)

    def _protocol_error(self, what: str) -> None:
        log.error(
            "protocol violation: the bridge sent %s; the connection for frames is closed, and calls use gRPC", what
        )
        if self._transport is not None:
            self._transport.abort()
        self._transport = None


class _Call:
    """A call received as a frame."""

    __slots__ = ("_canceled", "_frames", "_number", "_task", "_unread", "_writable")

    def __init__(self, frames: Frames, number: int, request: bytes) -> None:
        self._frames = frames
        self._number = number
        self._canceled = False
        self._unread = 0
        self._writable: asyncio.Future[None] | None = None
        self._task = frames.loop.create_task(self._respond(request))

    async def _respond(self, request: bytes) -> None:
        """Sends exactly one response, whatever happens: the bridge waits for it."""
        try:
            call = v1.CallToolRequest.FromString(request)
            check_contract(call.context)
            response = await self._frames.app.call_tool(call, self.write)
            self._finish(RESULT, response.SerializeToString())
        except (StatusError, McpError) as e:
            self._fail(e)
        except asyncio.CancelledError:
            self._fail_canceled()
        except BaseException as e:
            log.exception("a call failed outside its tool")
            self._fail(StatusError(grpc.StatusCode.UNKNOWN, str(e)))

    async def write(self, event: v1.CallToolResponse) -> None:
        frames = self._frames
        while not self._canceled and (self._unread >= MAX_UNREAD or frames.full):
            self._writable = frames.loop.create_future()
            await self._writable
        if self._canceled:
            raise ConnectionError("the call was canceled")
        payload = event.SerializeToString()
        if len(payload) > MAX_FRAME:
            self._finish(EVENT, payload)
            self.cancel()
            return
        self._unread += 1
        frames.send(EVENT, self._number, payload)

    def handle_taken(self) -> None:
        """Handles a TAKEN frame: the bridge has read an event."""
        self._unread = max(self._unread - 1, 0)
        self.wake()

    def wake(self) -> None:
        if self._writable is not None and not self._writable.done():
            self._writable.set_result(None)

    def cancel(self) -> None:
        """Cancels the call."""
        if self._canceled:
            return
        self._canceled = True
        self.wake()
        self._task.cancel()
        # A task that is canceled before it starts never runs.
        self._task.add_done_callback(lambda _: self._fail_canceled())

    def _fail_canceled(self) -> None:
        self._fail(StatusError(grpc.StatusCode.CANCELLED, "the call was cancelled"))

    def _fail(self, e: StatusError | McpError) -> None:
        self._finish(ERROR, status(e).SerializeToString())

    def _finish(self, kind: int, payload: bytes) -> None:
        if len(payload) > MAX_FRAME:
            size = f"its response of {len(payload)} bytes exceeds the maximum of {MAX_FRAME} bytes"
            what = f"the call was executed, but {size}"
            kind, payload = ERROR, status(StatusError(grpc.StatusCode.RESOURCE_EXHAUSTED, what)).SerializeToString()
        if self._frames.calls.get(self._number) is self:
            del self._frames.calls[self._number]
            self._frames.send(kind, self._number, payload)
