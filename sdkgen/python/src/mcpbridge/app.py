"""App: a set of tools, and how a call of one becomes an answer."""

import asyncio
import contextvars
import difflib
import functools
import inspect
import logging
import re
import sys
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, overload

import grpc
import pydantic_core

from mcpbridge import v1
from mcpbridge.content import failure, success
from mcpbridge.context import Context, Write
from mcpbridge.errors import DefinitionError, McpError, ToolError
from mcpbridge.schema import Object, Signature, signature

F = TypeVar("F", bound=Callable[..., Any])

log = logging.getLogger("mcpbridge")


class StatusError(Exception):
    """Ends a call with a gRPC status: NOT_FOUND and the like, which the bridge knows the JSON-RPC code of."""

    def __init__(self, code: grpc.StatusCode, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True)
class _Tool:
    message: v1.Tool
    fn: Callable[..., Any]
    signature: Signature
    is_async: bool


class App:
    """A set of tools.

    Plain `def` tools run in up to `threads` threads; `async def` tools run on the event loop and must not block it.
    """

    def __init__(
        self,
        name: str,
        *,
        version: str = "0.0.0",
        title: str | None = None,
        instructions: str | None = None,
        threads: int = 32,
    ) -> None:
        self.name = name
        self.info = v1.Implementation(name=name, version=version, title=title)
        self.instructions = instructions
        self._tools: dict[str, _Tool] = {}
        self._listeners: set[Callable[[], None]] = set()
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix=name)
        self._running = 0  # Calls that have not been answered. Of the event loop's thread only.
        self._blocking = 0  # Plain tools that have not returned, even if their call is over.
        self._lock = threading.Lock()  # Guards _blocking.

    # Tools.

    @overload
    def tool(self, fn: F, /) -> F: ...
    @overload
    def tool(
        self,
        fn: None = None,
        /,
        *,
        name: str | None = None,
        title: str | None = None,
        description: str | None = None,
        read_only: bool | None = None,
        destructive: bool | None = None,
        idempotent: bool | None = None,
        open_world: bool | None = None,
        icons: Sequence[str | v1.Icon] = (),
        meta: Mapping[str, Any] | None = None,
    ) -> Callable[[F], F]: ...
    def tool(self, fn: F | None = None, /, **options: Any) -> F | Callable[[F], F]:
        """Makes a function a tool: `@app.tool`, or with options `@app.tool(read_only=True)`.

        Arguments and their checks come from the type hints, descriptions from the docstring. The hints read_only,
        destructive, idempotent and open_world tell clients what to expect; what is not said, clients take for
        destructive, in an open world.
        """
        names = sys._getframe(1).f_locals  # A tool in a function may use that function's types.
        if fn is not None:
            self._add(fn, names)
            return fn

        def decorate(fn: F) -> F:
            self._add(fn, names, **options)
            return fn

        return decorate

    def add_tool(self, fn: Callable[..., Any], **options: Any) -> None:
        """Adds a tool, also while the app runs: clients are told. The options are those of `tool`."""
        self._add(fn, sys._getframe(1).f_locals, **options)

    def remove_tool(self, name: str) -> None:
        """Removes a tool, also while the app runs: clients are told."""
        del self._tools[name]
        self._changed()

    def _add(
        self,
        fn: Callable[..., Any],
        localns: Mapping[str, Any],
        *,
        name: str | None = None,
        title: str | None = None,
        description: str | None = None,
        read_only: bool | None = None,
        destructive: bool | None = None,
        idempotent: bool | None = None,
        open_world: bool | None = None,
        icons: Sequence[str | v1.Icon] = (),
        meta: Mapping[str, Any] | None = None,
    ) -> None:
        name = name or str(getattr(fn, "__name__", ""))
        if not re.fullmatch(r"[A-Za-z0-9_.-]{1,128}", name):
            raise DefinitionError(f"{_at(fn)}: tool {name!r}: a name is 1 to 128 letters, digits, '_', '-' and '.'")
        if name in self._tools:
            raise DefinitionError(f'{_at(fn)}: tool "{name}" is there already, from {_at(self._tools[name].fn)}')
        s = signature(fn, name, Context, localns)
        message = v1.Tool(
            name=name,
            title=title,
            description=description or s.description or None,
            input_schema=s.input_schema,
            output_schema=s.output_schema,
            icons=[v1.Icon(src=i) if isinstance(i, str) else i for i in icons],
            meta=pydantic_core.to_json(meta) if meta else b"",
        )
        # Absent is not false: a tool is taken for destructive until it says otherwise.
        if read_only is not None:
            message.annotations.read_only_hint = read_only
        if destructive is not None:
            message.annotations.destructive_hint = destructive
        if idempotent is not None:
            message.annotations.idempotent_hint = idempotent
        if open_world is not None:
            message.annotations.open_world_hint = open_world
        is_async = inspect.iscoroutinefunction(fn) or inspect.iscoroutinefunction(type(fn).__call__)
        self._tools[name] = _Tool(message, fn, s, is_async)
        self._changed()

    def _changed(self) -> None:
        for tell in tuple(self._listeners):
            tell()

    # Answers.

    def discover(self) -> v1.DiscoverResponse:
        """Answers Discover."""
        capabilities = v1.ServerCapabilities(tools=v1.ToolsCapability(list_changed=True), logging=v1.Capability())
        return v1.DiscoverResponse(server_info=self.info, capabilities=capabilities, instructions=self.instructions)

    def list_tools(self, request: v1.ListToolsRequest) -> v1.ListToolsResponse:
        """Answers ListTools: one page, in the order of definition."""
        if request.HasField("cursor"):
            raise StatusError(grpc.StatusCode.INVALID_ARGUMENT, f"there is no page at cursor {request.cursor!r}")
        return v1.ListToolsResponse(tools=[tool.message for tool in tuple(self._tools.values())])

    async def call_tool(self, request: v1.CallToolRequest, write: Write) -> v1.CallToolResponse:
        """Answers CallTool: writes the events and returns the last one. StatusError and McpError are its errors."""
        tool = self._tools.get(request.name)
        if tool is None:
            asked = request.name[:128]  # A status travels in the trailers, which have little room.
            close = difflib.get_close_matches(asked, self._tools, 1)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            raise StatusError(grpc.StatusCode.NOT_FOUND, f"there is no tool {asked!r}{hint}")
        ctx: Context | None = None
        self._running += 1
        try:
            arguments = tool.signature.parse(request.arguments)
            if tool.signature.context:
                ctx = arguments[tool.signature.context] = Context(request, write)
            if tool.is_async:
                value = await tool.fn(**arguments)
            else:
                value = await self._in_thread(tool.fn, arguments)
            response = success(value, tool.signature.dump)
        except asyncio.CancelledError as e:
            if not _cancelling():
                response = self._failed(tool, e)  # Something that the tool waited for was cancelled: not the call.
            else:
                if ctx is not None:
                    ctx._cancel()
                raise
        except McpError:
            raise
        except ToolError as e:
            response = failure(str(e))
        except (Exception, SystemExit) as e:  # One tool's sys.exit() is not to end the others.
            response = self._failed(tool, e)
        except BaseException:
            # RoundEnd, or a BaseExceptionGroup of an asyncio.TaskGroup that holds it.
            if ctx is None or not ctx._ended:
                raise
        finally:
            self._running -= 1
        if ctx is not None:
            await ctx._close()
            if ctx._ended:  # Whatever the tool made of it: a question was asked, and there is no answer yet.
                try:
                    return ctx._input_required()
                except ValueError as e:
                    return self._failed(tool, e)
        return response

    async def _in_thread(self, fn: Callable[..., Any], arguments: Object) -> Any:
        call = functools.partial(contextvars.copy_context().run, self._block, fn, arguments)
        return await asyncio.get_running_loop().run_in_executor(self._pool, call)

    def _block(self, fn: Callable[..., Any], arguments: Object) -> Any:
        with self._lock:
            self._blocking += 1
        try:
            return fn(**arguments)
        except StopIteration as e:  # A future cannot hold it.
            raise RuntimeError("the tool raised StopIteration") from e
        finally:
            with self._lock:
                self._blocking -= 1

    def _failed(self, tool: _Tool, e: BaseException) -> v1.CallToolResponse:
        """The model gets the message, our log gets the line and the traceback."""
        code = getattr(tool.fn, "__code__", None)
        tb = e.__traceback__
        while tb is not None and tb.tb_frame.f_code is not code and tb.tb_next is not None:
            tb = tb.tb_next  # To the tool's own frame.
        at = ""
        if frames := traceback.extract_tb(tb):
            at = f" at {Path(frames[0].filename).name}:{frames[0].lineno}"
        kind = type(e).__name__
        log.error('tool "%s" failed%s: %s: %s', tool.message.name, at, kind, e, exc_info=(type(e), e, tb))
        # A KeyError's message is only the key, and a SystemExit's the code.
        return failure(f"{kind}: {e}" if isinstance(e, (KeyError, SystemExit)) else str(e) or kind)

    # Serving.

    def run(self, *, listen: str | None = None) -> None:
        """Serves until it is told to stop: the bridge that started this program, or whoever calls at an address.

        `listen`, or `--listen` on the command line, is the address: `127.0.0.1:50051` or `unix:/run/tools.sock`. There is
        no TLS there, so keep it on this machine.
        """
        from mcpbridge import serve

        serve.run(self, listen)


def _cancelling() -> bool:
    """Whether it is the call itself that is being cancelled. Python 3.10 cannot tell, and is told yes."""
    cancelling = getattr(asyncio.current_task(), "cancelling", None)
    return cancelling is None or cancelling() > 0


def _at(fn: Callable[..., Any]) -> str:
    code = getattr(inspect.unwrap(fn), "__code__", None)
    return f"{Path(code.co_filename).name}:{code.co_firstlineno}" if code else repr(fn)
