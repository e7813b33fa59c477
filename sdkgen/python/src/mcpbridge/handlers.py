"""The handlers of an App (tools, resources and prompts), and their calls in flight."""

import asyncio
import functools
import inspect
import logging
import sys
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

import grpc
from google.protobuf import any_pb2
from google.rpc import status_pb2
from typing_extensions import ParamSpec

from mcpbridge import v1
from mcpbridge.content import any_json, failure, prompt_result, resource_result, success
from mcpbridge.context import Context, Response, Write, current
from mcpbridge.errors import DefinitionError, McpError, NotFound, ToolError
from mcpbridge.schema import (
    INVALID_SIGNATURE,
    Kind,
    Object,
    Signature,
    choices,
    definition_error,
    line_of,
    line_of_call,
    signature,
    unwrap,
)
from mcpbridge.template import Template
from mcpbridge.threads import Threads

if TYPE_CHECKING:
    from mcpbridge.app import App

F = TypeVar("F", bound=Callable[..., Any])
P = ParamSpec("P")
R = TypeVar("R")

log = logging.getLogger("mcpbridge")

# SystemExit and KeyboardInterrupt in a tool must not end other calls. Ctrl-C is handled as a signal.
EXITS = (SystemExit, KeyboardInterrupt)

# The version of the contract, mcpbridge.v1, that the SDK was built with.
CONTRACT = 2

# The maximum number of values of a completion in MCP.
MAX_COMPLETIONS = 100


class StatusError(Exception):
    """Fails a call with a gRPC status, such as NOT_FOUND, which the bridge converts to a JSON-RPC code."""

    def __init__(self, code: grpc.StatusCode, message: str) -> None:
        super().__init__(message)
        self.code = code


def check_contract(context: v1.CallContext) -> None:
    """Raises if the bridge that makes a call was built with another version of the contract."""
    version = context.verified.contract_version or 1  # Version 1 had no such field.
    if version != CONTRACT:
        message = (
            f"the bridge has version {version} of the contract, and this SDK has version {CONTRACT}: "
            "install an mcpbridge and an SDK of the same release"
        )
        raise StatusError(grpc.StatusCode.FAILED_PRECONDITION, message)


_CODES = {
    -32600: grpc.StatusCode.INVALID_ARGUMENT,
    -32601: grpc.StatusCode.UNIMPLEMENTED,
    -32602: grpc.StatusCode.INVALID_ARGUMENT,
    -32603: grpc.StatusCode.INTERNAL,
}


def status(e: StatusError | McpError) -> status_pb2.Status:
    """Returns the gRPC status of an error. The details contain the exact JSON-RPC error of an McpError."""
    if isinstance(e, StatusError):
        return status_pb2.Status(code=e.code.value[0], message=str(e))
    code = _CODES.get(e.code, grpc.StatusCode.UNKNOWN)
    data = None if e.data is None else any_json(e.data)
    detail = any_pb2.Any()
    detail.Pack(v1.JsonRpcError(code=e.code, message=e.message, data=data))
    return status_pb2.Status(code=code.value[0], message=e.message, details=[detail])


class Handler(Generic[P, R]):
    """A function, and how it is called. The handler itself is callable like the function."""

    kind: ClassVar[Kind]
    response: ClassVar[type[Response]]

    def __init__(self, fn: Callable[P, R], name: str, sig: Signature) -> None:
        self.fn: Callable[P, R] = fn.fn if isinstance(fn, Handler) else fn  # A function may have several roles.
        functools.update_wrapper(self, self.fn)
        self.name = name
        self.signature = sig
        self.context = sig.context
        self.warned = False  # Whether it was logged that the function repeats events.
        self.is_async = inspect.iscoroutinefunction(self.fn) or inspect.iscoroutinefunction(type(self.fn).__call__)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.fn(*args, **kwargs)

    def success(self, value: Any, request: Any) -> Response:
        """Returns the response for a function that returned value."""
        raise NotImplementedError

    def failure(self, message: str) -> Response:
        """Returns the response for a function that failed: here a JSON-RPC error for the client."""
        raise McpError(-32603, message)


class Tool(Handler[P, R]):
    """A tool of an App."""

    kind = "tool"
    response = v1.CallToolResponse

    def __init__(self, fn: Callable[P, R], name: str, sig: Signature, message: v1.Tool) -> None:
        super().__init__(fn, name, sig)
        self.message = message

    def success(self, value: Any, request: v1.CallToolRequest) -> v1.CallToolResponse:
        return success(value, self.signature.dump, self.signature.returns)

    def failure(self, message: str) -> v1.CallToolResponse:
        return failure(message)  # For the model.


class Completable(Handler[P, R]):
    """A prompt or a resource template, whose arguments can be completed."""

    def __init__(
        self, fn: Callable[P, R], name: str, sig: Signature, report: Callable[[DefinitionError], None]
    ) -> None:
        super().__init__(fn, name, sig)
        self.completers: dict[str, Completer] = {}
        self._report = report

    def complete(self, argument: str) -> Callable[[F], F]:
        """Registers a function that proposes values for an argument: `@greet.complete("name")`.

        The first parameter of the function is the text typed so far. Its other parameters receive the other arguments
        of the same names. It is called only if those without a default have a value. It returns the values, best first.
        """
        localns = sys._getframe(1).f_locals

        def decorate(fn: F) -> F:
            if self.signature is INVALID_SIGNATURE:
                return fn  # The mistake has been recorded.
            try:
                if argument not in self.signature.schema.get("properties", {}):
                    raise definition_error(fn, self.kind, self.name, f'there is no argument "{argument}" to complete')
                self.completers[argument] = Completer(fn, f"{self.name}.{argument}", localns)
            except DefinitionError as e:
                self._report(e)
            return fn

        return decorate

    def completes(self) -> bool:
        """Reports whether any argument has completions."""
        arguments = self.signature.schema.get("properties", {})
        return bool(self.completers) or any(choices(self.signature.schema, argument) for argument in arguments)


class Completer(Handler[..., Any]):
    """A function that proposes values for an argument."""

    kind = "completion"

    def __init__(self, fn: Callable[..., Any], name: str, localns: Mapping[str, Any]) -> None:
        sig = signature(fn, name, Context, localns, "completion")
        super().__init__(fn, name, sig)
        self.parameters = [p for p in inspect.signature(fn).parameters if p != sig.context]
        if not self.parameters:
            raise definition_error(
                fn, self.kind, name, "it has no parameter for what is typed so far; write value: str"
            )

    def arguments(self, value: str, others: Mapping[str, str]) -> Object | None:
        """Returns the arguments of the function, or None if required ones have no value."""
        arguments = {name: others[name] for name in self.parameters[1:] if name in others}
        try:
            return self.signature.parse_strings({**arguments, self.parameters[0]: value})
        except ToolError:
            return None


def completion(values: Iterable[Any] | v1.Completion) -> v1.CompleteResponse:
    """Returns the response with the proposed values."""
    if isinstance(values, v1.Completion):
        return v1.CompleteResponse(completion=values)
    texts = [str(v) for v in values]
    first = texts[:MAX_COMPLETIONS]
    return v1.CompleteResponse(
        completion=v1.Completion(values=first, total=len(texts), has_more=len(texts) > len(first))
    )


class Resource(Completable[P, R]):
    """A resource of an App, or a template of resources."""

    kind = "resource"
    response = v1.ReadResourceResponse

    def __init__(
        self,
        fn: Callable[P, R],
        uri: str,
        sig: Signature,
        message: v1.Resource | v1.ResourceTemplate,
        template: Template | None,
        hints: Mapping[str, Any],
        report: Callable[[DefinitionError], None],
    ) -> None:
        super().__init__(fn, uri, sig, report)
        self.message = message
        self.template = template
        self.hints = hints  # The cache hints of the content.

    def success(self, value: Any, request: v1.ReadResourceRequest) -> v1.ReadResourceResponse:
        response = resource_result(value, request.uri, self.message.mime_type or None)
        if response.HasField("result"):
            present = {field.name for field, _ in response.result.ListFields()}
            for name, hint in self.hints.items():
                if hint is not None and name not in present:
                    setattr(response.result, name, hint)
        return response


class Prompt(Completable[P, R]):
    """A prompt of an App."""

    kind = "prompt"
    response = v1.GetPromptResponse

    def __init__(
        self,
        fn: Callable[P, R],
        name: str,
        sig: Signature,
        message: v1.Prompt,
        report: Callable[[DefinitionError], None],
    ) -> None:
        super().__init__(fn, name, sig, report)
        self.message = message

    def success(self, value: Any, request: v1.GetPromptRequest) -> v1.GetPromptResponse:
        return prompt_result(value, self.message.description or None)


class Calls:
    """The calls in flight. Plain functions run in threads, async ones on the event loop."""

    def __init__(self, app: "App", threads: int) -> None:
        self.app = app
        self.pool = ThreadPoolExecutor(threads, thread_name_prefix=app.name)
        self.running = 0  # Calls without a response. Accessed on the event loop only.
        self.forwarding = False  # Whether logs are forwarded, which requires the current call.
        self._limit = threads
        self._threads: Threads | None = None

    async def run_round(self, handler: Handler[..., Any], arguments: Object, request: Any, write: Write) -> Any:
        """Runs one round: writes the events and returns the last one. Raises StatusError and McpError only."""
        ctx: Context | None = None
        response: Response | None = None
        error: BaseException | None = None
        self.running += 1
        try:
            if handler.context or self.forwarding:
                ctx = Context(self.app, request, write, handler.response)
                if handler.context:
                    arguments[handler.context] = ctx
                if self.forwarding:
                    current.set(ctx)
            if handler.is_async:
                value = await handler.fn(**arguments)
            else:
                value = await self._in_thread(handler.fn, arguments)
            if ctx is not None and not ctx._ended:
                ctx._check_awaited(functools.partial(line_of_call, handler.fn))
            response = handler.success(value, request)
        except asyncio.CancelledError as e:
            if _cancelling():
                if ctx is not None:
                    ctx._cancel()
                raise
            error = e  # Something that the function awaited was canceled, not the call.
        except (Exception, *EXITS) as e:
            error = e
        except BaseException:
            # RoundEnd, or a BaseExceptionGroup of an asyncio.TaskGroup that holds it.
            if ctx is None or not ctx._ended:
                raise
        finally:
            self.running -= 1
        if ctx is not None:
            await ctx._close()
            if ctx._repeated and not handler.warned:
                handler.warned = True
                log.warning(
                    '%s: %s "%s" sends progress or log messages before an answered question, and so again in each '
                    "round; send them after the question or in ctx.once",
                    line_of(handler.fn),
                    handler.kind,
                    handler.name,
                )
            if ctx._ended:  # A question has no answer yet, whatever the function returned.
                try:
                    return ctx._input_required()
                except ValueError as e:
                    error = e
        return response if error is None else self._failed(handler, error)

    async def run(self, handler: Handler[..., Any], arguments: Object) -> Any:
        """Returns the result of the function, without events."""
        return await (handler.fn(**arguments) if handler.is_async else self._in_thread(handler.fn, arguments))

    async def _in_thread(self, fn: Callable[..., Any], arguments: Object) -> Any:
        loop = asyncio.get_running_loop()
        if self._threads is None or self._threads.loop is not loop:
            self._threads = Threads(loop, self.pool, self._limit)
        return await self._threads.run(fn, arguments)

    @property
    def blocking(self) -> int:
        """The number of plain functions that have not returned, even if their calls have ended."""
        return self._threads.blocking if self._threads else 0

    def _failed(self, handler: Handler[..., Any], e: BaseException) -> Response:
        """Returns the response for a function that raised e."""
        if isinstance(e, (McpError, StatusError)):
            raise e
        if isinstance(e, NotFound) and handler.kind != "tool":
            raise StatusError(grpc.StatusCode.NOT_FOUND, str(e)) from e
        return handler.failure(str(e) if isinstance(e, ToolError) else self.explain(handler, e))

    def explain(self, handler: Handler[..., Any], e: BaseException) -> str:
        """Returns the message of an exception for the caller. The line and the traceback are logged."""
        tb, has_own = _own_frames(handler.fn, e.__traceback__)
        at = f"{Path(tb.tb_frame.f_code.co_filename).name}:{tb.tb_lineno}" if tb and has_own else line_of(handler.fn)
        kind = type(e).__name__
        log.error('%s "%s" failed at %s: %s: %s', handler.kind, handler.name, at, kind, e, exc_info=(type(e), e, tb))
        # The message of a KeyError is only the key, and that of a SystemExit the code.
        return f"{kind}: {e}" if isinstance(e, (KeyError, SystemExit)) else str(e) or kind


def _own_frames(fn: Callable[..., Any], tb: TracebackType | None) -> tuple[TracebackType | None, bool]:
    """Returns the traceback from fn's own frame on, and whether fn has a frame in it."""
    code = getattr(unwrap(fn), "__code__", None)
    own = tb
    while own is not None and own.tb_frame.f_code is not code:
        own = own.tb_next
    if own is not None:
        return own, True
    while tb is not None and Path(tb.tb_frame.f_code.co_filename).parent == Path(__file__).parent:
        tb = tb.tb_next  # Frames of the SDK do not help the author.
    return tb, False


def _cancelling() -> bool:
    """Reports whether the call itself is being canceled. Python 3.10 cannot distinguish it, and assumes so."""
    cancelling = getattr(asyncio.current_task(), "cancelling", None)
    return cancelling is None or cancelling() > 0
