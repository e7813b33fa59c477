"""The context of a call: progress, logs, and questions to the user, the model and the client."""

import asyncio
import base64
import contextlib
import contextvars
import hashlib
import inspect
import json
import sys
import threading
import warnings
from collections import deque
from collections.abc import Awaitable, Callable, Generator, Iterator, Mapping, Sequence
from pathlib import Path
from types import CoroutineType
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, cast, overload

from mcpbridge import v1
from mcpbridge.content import Meta, Turn, any_json, conversation, json_text, meta_json
from mcpbridge.errors import (
    McpError,
    NoAnswer,
    NotAccepted,
    Refused,
    RoundEnd,
    ToolError,
    Unsupported,
)
from mcpbridge.schema import Form, Object, form

if TYPE_CHECKING:
    from mcpbridge.app import App

T = TypeVar("T")
# The three requests and responses differ only in the result. A response is progress, a log message, the result, or
# input_required; that of a tool can be task_started, too.
Request = v1.CallToolRequest | v1.ReadResourceRequest | v1.GetPromptRequest
Response = v1.CallToolResponse | v1.ReadResourceResponse | v1.GetPromptResponse
Write = Callable[[Any], Awaitable[Any]]
Level = Literal["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]

# The limit of the contract; the bridge refuses more.
MAX_STATE = 32 * 1024

# The maximum number of events waiting to be sent. Above it, events that are not awaited are dropped.
MAX_QUEUE = 1024


# The current call, set if logs are forwarded: see App.forward_logging.
current: "contextvars.ContextVar[Context]" = contextvars.ContextVar("mcpbridge.context")


class Context:
    """One call of a tool, resource or prompt. A parameter with this annotation receives it, whatever its name.

    A call can take several rounds. `elicit` and the other questions return their answer if it has arrived. Otherwise
    they end the round, and the function runs again from the top when the client has answered. Work before a question is
    therefore repeated in each round; put work that must happen only once into `once`.

    In a plain `def` everything works without `await`.
    """

    __slots__ = (
        "_answers",
        "_app",
        "_ask_all_depth",
        "_asked",
        "_call",
        "_closed",
        "_counts",
        "_ended",
        "_loop",
        "_meta",
        "_once",
        "_question_lines",
        "_questions",
        "_queue",
        "_repeated",
        "_request",
        "_response",
        "_sender",
        "_sent",
        "_thread",
        "_unawaited",
        "_write",
        "cancelled",
        "log",
    )

    def __init__(self, app: "App", request: Request, write: Write, response: type[Response]) -> None:
        self.cancelled = False
        """Reports whether the call was canceled. For plain `def` tools; an async tool gets asyncio.CancelledError."""
        self.log = Log(self)
        """The log of the call. Records below the level that the caller requested are not sent."""
        self._app = app
        self._request = request
        self._response = response
        self._call = request.context
        self._write = write
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._closed = False
        self._queue: deque[Response] = deque()
        self._sender: asyncio.Task[None] | None = None
        self._meta: Object | None = None
        # Loaded from the state by the first question.
        self._answers: dict[str, v1.InputResponse] | None = None
        self._asked: set[str] = set()  # The keys of the questions of this round and of earlier ones.
        self._once: dict[str, tuple[Any, bool]] = {}
        self._counts: dict[str, int] = {}
        self._questions: dict[str, v1.InputRequest] = {}
        self._question_lines: dict[str, tuple[str, str]] = {}  # The source lines of questions that were not awaited.
        self._unawaited: str | None = None  # A coroutine of the call that was not awaited.
        self._ask_all_depth = 0
        self._ended = False
        self._sent = False  # Whether an event was sent.
        self._repeated = False  # Whether an event before an answered question was sent again in this round.

    # The caller.

    @property
    def request(self) -> Any:
        """The unmodified request: CallToolRequest, ReadResourceRequest or GetPromptRequest."""
        return self._request

    @property
    def request_state(self) -> bytes | None:
        """The request state of the InputRequired that the previous round of this call returned.

        For functions that return InputRequired themselves. `elicit` and the other questions use the state too, so a
        function cannot combine both.
        """
        return self._request.request_state if self._request.HasField("request_state") else None

    @property
    def client_info(self) -> v1.Implementation:
        """The name and version of the client, as it declares them. Not verified."""
        return self._call.client_info

    @property
    def client_capabilities(self) -> v1.ClientCapabilities:
        """The capabilities of the client. Questions that it does not support raise Unsupported."""
        return self._call.client_capabilities

    @property
    def protocol_version(self) -> str:
        """The MCP revision of the call, such as "2026-07-28"."""
        return self._call.verified.protocol_version

    @property
    def principal(self) -> v1.Principal | None:
        """The authenticated caller, if authentication is configured."""
        return self._call.verified.principal if self._call.verified.HasField("principal") else None

    @property
    def headers(self) -> dict[str, str]:
        """The HTTP headers in serve.http.passHeaders of the bridge, by lower-case names."""
        return dict(self._call.verified.headers)

    @property
    def meta(self) -> Object:
        """MCP `_meta` of the request."""
        if self._meta is None:
            self._meta = json.loads(self._call.meta or "{}")
        return self._meta

    # Progress and changes.

    def progress(self, done: float, total: float | None = None, message: str | None = None) -> Awaitable[None]:
        """Reports progress. `done` must increase with each report."""
        if threading.get_ident() != self._thread:
            self.check()
        if not self._call.progress_wanted:
            return _DONE
        self._sent = True
        return self._emit(self._response(progress=v1.Progress(progress=done, total=total, message=message)))

    def start_task(self) -> Awaitable[None]:
        """Continues the call as a task, if the client supports tasks. For tools with `Task(starts_later=True)`."""
        if self._response is not v1.CallToolResponse:
            raise TypeError("only a tool can start a task")
        return self._emit(v1.CallToolResponse(task_started=v1.TaskStarted()))

    def check(self) -> None:
        """Raises asyncio.CancelledError if the call was canceled, for plain `def` tools. `progress` does the same."""
        if self.cancelled:
            raise asyncio.CancelledError

    def notify_updated(self, uri: str) -> None:
        """Notifies subscribers that the resource with this URI has changed, like App.notify_updated."""
        self._app.notify_updated(uri)

    # Questions.

    @overload
    def elicit(self, message: str, schema: type[T], *, key: str | None = None) -> "Answer[T]": ...
    @overload
    def elicit(self, message: str, schema: Object | None = None, *, key: str | None = None) -> "Answer[Object]": ...
    @overload
    def elicit(self, message: str, schema: Any, *, key: str | None = None) -> "Answer[Any]": ...
    def elicit(self, message: str, schema: Any = None, *, key: str | None = None) -> "Answer[Any]":
        """Asks the user to fill in a form: a pydantic model, dataclass, TypedDict, simple type, or JSON Schema.

        If the message or the schema changes between rounds, the question is asked again. Set `key` if the message
        varies between rounds, for example with the time.
        """
        can = self._call.client_capabilities
        # No mode means form, as in 2025-06-18.
        if not can.HasField("elicitation") or (
            can.elicitation.HasField("url") and not can.elicitation.HasField("form")
        ):
            raise Unsupported(_unsupported_message("show a form to its user", message))
        fields = form(schema)
        request = v1.ElicitForm(message=message, requested_schema=fields.schema)
        return Answer(self, key, message, v1.InputRequest(elicit=v1.ElicitRequest(form=request)), fields)

    def elicit_url(self, message: str, url: str, *, key: str | None = None) -> "Answer[None]":
        """Asks the user to visit a web page. Accepted means that they agreed, not that they have completed it."""
        if not self._call.client_capabilities.elicitation.HasField("url"):
            raise Unsupported(_unsupported_message("open a web page for its user", f"{message} {url}"))
        request = v1.ElicitRequest(url=v1.ElicitUrl(message=message, url=url))
        return Answer(self, key, message, v1.InputRequest(elicit=request), None)

    def sample(
        self,
        prompt: str | Turn | Sequence[Turn],
        *,
        max_tokens: int = 1024,
        system: str | None = None,
        temperature: float | None = None,
        stop: Sequence[str] = (),
        model: str | Sequence[str] | v1.ModelPreferences = (),
        tools: Sequence[str | v1.Tool] = (),
        tool_choice: Literal["auto", "required", "none"] | v1.ToolChoice | None = None,
        include_context: Literal["none", "thisServer", "allServers"] | None = None,
        metadata: Mapping[str, Any] | None = None,
        meta: Meta | None = None,
        key: str | None = None,
    ) -> "Sample":
        """Asks the client's model. Deprecated by MCP 2026-07-28: call the API of a model instead.

        `model` has the names of the preferred models, best first. `tools` are the tools that the model may call: names
        of this app's tools, or messages of the contract. The answer's `tool_calls` has the model's calls; return the
        result of each as a `tool_result` in the next turn.
        """
        self._check_sampling(tools)
        if not isinstance(model, v1.ModelPreferences):
            names = [model] if isinstance(model, str) else model
            model = v1.ModelPreferences(hints=[v1.ModelHint(name=name) for name in names])
        request = v1.CreateMessageRequest(
            messages=conversation(prompt),
            model_preferences=model if model.ByteSize() else None,
            system_prompt=system,
            include_context=include_context,
            temperature=temperature,
            max_tokens=max_tokens,
            stop_sequences=stop,
            metadata=meta_json(metadata),
            tools=[self._app.tool_message(tool) if isinstance(tool, str) else tool for tool in tools],
            tool_choice=v1.ToolChoice(mode=tool_choice) if isinstance(tool_choice, str) else tool_choice,
            meta=meta_json(meta),
        )
        return Sample(self, key, v1.InputRequest(create_message=request))

    def sample_raw(self, params: Mapping[str, Any], *, key: str | None = None) -> "Sample":
        """Like `sample`, with params in MCP's format, sent unchanged: `{"messages": [...], "maxTokens": 9}`."""
        self._check_sampling(params.get("tools"))
        raw = json_text({"method": "sampling/createMessage", "params": params})
        return Sample(self, key, v1.InputRequest(raw=raw))

    def _check_sampling(self, tools: Any) -> None:
        """Raises if the client does not support sampling, or not with tools."""
        can = self._call.client_capabilities
        instead = "Answer this yourself and go on without the tool."
        if not can.HasField("sampling"):
            raise Unsupported(f"This client does not let tools ask its model. {instead}")
        if tools and not can.sampling.HasField("tools"):
            raise Unsupported(f"This client does not give its model tools. {instead}")

    def roots(self, *, key: str | None = None) -> "Roots":
        """Requests the root directories of the client. Deprecated by MCP 2026-07-28: take them as arguments instead."""
        if not self._call.client_capabilities.HasField("roots"):
            raise Unsupported(_unsupported_message("list the folders that it works in", "Which folder is meant?"))
        return Roots(self, key, v1.InputRequest(list_roots=v1.ListRootsRequest()))

    @contextlib.contextmanager
    def ask_all(self) -> Iterator[None]:
        """Asks all questions in this `with` block in one round, in a plain `def` too, and waits at its end.

        with ctx.ask_all():
            name = ctx.elicit("Who are you?", str)
            roots = ctx.roots()

        In an `async def`, asyncio.gather does the same.
        """
        self._ask_all_depth += 1
        try:
            yield
        finally:
            self._ask_all_depth -= 1
        if self._questions and not self._ask_all_depth:
            self._end_round()

    @overload
    def once(self, key: str, fn: Callable[[], Awaitable[T]]) -> Awaitable[T]: ...
    @overload
    def once(self, key: str, fn: Callable[[], T]) -> T: ...
    def once(self, key: str, fn: Callable[[], Any]) -> Any:
        """Calls fn in the first round only, and returns its result, which must be JSON, in every round.

        With an async fn: `await ctx.once(...)`; with a plain one without await.
        """
        self._load()
        if key in self._once:
            value, asynchronous = self._once[key]
            return _awaitable(value) if asynchronous else value
        value = fn()
        if not inspect.isawaitable(value):
            return self._remember(key, value, False)

        async def once() -> Any:  # The name appears in the warning if it is not awaited.
            return self._remember(key, await value, True)

        return once()

    # Internal methods.

    def _remember(self, key: str, value: Any, asynchronous: bool) -> Any:
        try:
            value = json.loads(json.dumps(value))  # The same value in every round: a tuple becomes a list.
        except TypeError as e:
            raise TypeError(f"ctx.once({key!r}) must return JSON (dict, list, str, number, bool, None): {e}") from e
        self._once[key] = (value, asynchronous)
        return value

    def _load(self) -> dict[str, v1.InputResponse]:
        """Loads the state of earlier rounds and the answers of the last one."""
        if self._answers is None:
            self._answers = {}
            if self._request.request_state:
                try:
                    state = json.loads(self._request.request_state)
                    for key, answer in state["answers"].items():
                        self._answers[key] = v1.InputResponse.FromString(base64.b64decode(answer))
                    self._once = {key: (value, asynchronous) for key, (value, asynchronous) in state["once"].items()}
                    self._asked = {*self._answers, *state["asked"]}
                except Exception as e:
                    raise McpError(-32602, "the request's state is not one that this tool returned") from e
            self._answers.update(self._request.input_responses)
        return self._answers

    def _ask(self, request: v1.InputRequest, key: str | None) -> v1.InputResponse | None:
        """Returns the answer to a question, if any. Outside the event loop, a missing answer ends the round at once."""
        answers = self._load()
        kind = request.WhichOneof("request")
        if kind == "raw":
            kind = "create_message"  # Only sampling is sent in MCP's format.
        if key is None:
            digest = hashlib.sha256(request.SerializeToString(deterministic=True)).hexdigest()[:12]
            count = self._counts[digest] = self._counts.get(digest, 0) + 1
            key = f"{kind}-{digest}" if count == 1 else f"{kind}-{digest}-{count}"
        self._asked.add(key)
        answer = answers.get(key)
        self._repeated = self._repeated or (self._sent and answer is not None)
        # An answer of another kind is ignored: the question is asked again.
        if answer is None or answer.WhichOneof("response") not in (kind, "error"):
            request.key = key
            self._questions[key] = request
            self._question_lines[key] = _line_of_caller()
            if threading.get_ident() != self._thread and not self._ask_all_depth:
                self._end_round()
            return None
        return answer

    def _end_round(self) -> None:
        self._ended = True
        raise RoundEnd

    def _check_awaited(self, called: Callable[[str], str]) -> None:
        """Raises if the function returned without awaiting the answer to a question.

        The returned value cannot contain the answer then. `called` returns the line where the function calls another
        one.
        """
        for at, name in self._question_lines.values():
            raise RuntimeError(f"the question at {at} was not awaited; write: await ctx.{name}(...)")
        if self._unawaited is not None:
            name = self._unawaited.rpartition(".")[2]
            raise RuntimeError(f"{name}(...) at {called(name)} was not awaited; write: await {name}(...)")

    def _input_required(self) -> Any:
        """Returns the InputRequired of a round with unanswered questions."""
        # Do not keep answers to questions that were not asked.
        used = {key: a for key, a in self._load().items() if key in self._asked and key not in self._questions}
        answers = {key: base64.b64encode(a.SerializeToString()).decode() for key, a in used.items()}
        content = {"answers": answers, "asked": [*self._questions], "once": self._once}
        state = json.dumps(content, separators=(",", ":"), ensure_ascii=False).encode()
        if len(state) > MAX_STATE:
            sizes = {f"ctx.once({k!r})": len(json.dumps(v)) for k, v in self._once.items()}
            sizes |= {f"the answer {k}": len(a) for k, a in answers.items()}
            largest = max(sizes, key=lambda k: sizes[k])
            raise ValueError(
                f"the request state has {len(state)} bytes, more than the maximum of {MAX_STATE}; "
                f"the largest part is {largest}, {sizes[largest]} bytes"
            )
        required = v1.InputRequired(input_requests=self._questions.values(), request_state=state)
        return self._response(input_required=required)

    def _emit(self, event: Response) -> Awaitable[None]:
        """Sends an event. Awaiting it waits until it has been sent; a thread always waits."""
        if threading.get_ident() != self._thread:
            if not self._closed:
                asyncio.run_coroutine_threadsafe(self._emit_and_wait(event), self._loop).result()
            return _DONE
        if not self._closed:
            self._queue.append(event)
            if self._sender is None or self._sender.done():
                self._sender = self._loop.create_task(self._send())
        return _Sent(self)

    async def _emit_and_wait(self, event: Response) -> None:
        await self._emit(event)

    async def _send(self) -> None:
        """Writes one event at a time, in order: a stream does not permit concurrent writes."""
        try:
            while self._queue:
                await self._write(self._queue.popleft())
        except Exception:  # The caller disconnected; its call is being canceled.
            self._closed = True
            self._queue.clear()

    async def _wait_until_sent(self) -> None:
        if self._sender is not None:
            await asyncio.shield(self._sender)

    async def _close(self) -> None:
        """Stops sending events: the result comes last."""
        if self._sender is not None:
            await self._wait_until_sent()
        self._closed = True

    def _cancel(self) -> None:
        self.cancelled = self._closed = True
        if self._sender is not None:
            self._sender.cancel()


def _line_of_caller() -> tuple[str, str]:
    """Returns the line of the caller outside of the SDK, and the name of the method that it called."""
    frame, name = sys._getframe(1), ""
    while frame.f_back and frame.f_code.co_filename == __file__:
        frame, name = frame.f_back, frame.f_code.co_name
    return f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}", name


def _detect_unawaited() -> None:
    """Makes a Context detect its coroutines that are not awaited. Python only warns about them."""
    warn = getattr(warnings, "_warn_unawaited_coroutine", None)
    if warn is None:
        return

    def detect(coroutine: "CoroutineType[Any, Any, Any]") -> None:
        for value in coroutine.cr_frame.f_locals.values() if coroutine.cr_frame else ():
            if isinstance(value, Context) and not value._closed:
                value._unawaited = value._unawaited or coroutine.__qualname__
        warn(coroutine)

    warnings._warn_unawaited_coroutine = detect  # type: ignore[attr-defined]


_detect_unawaited()


class _Done:
    def __await__(self) -> Generator[Any, None, None]:
        return
        yield


_DONE = _Done()


class _Sent:
    __slots__ = ("_ctx",)

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx

    def __await__(self) -> Generator[Any, None, None]:
        return self._ctx._wait_until_sent().__await__()


async def _awaitable(value: T) -> T:
    return value


def _unsupported_message(cannot: str, question: str) -> str:
    return f"This client cannot {cannot}. Ask the user yourself: {question!r}, and call the tool again with the answer."


class Log:
    """Writes to the call's log. Nothing is sent below the level that the caller requested, or if it requested none."""

    __slots__ = ("_ctx",)

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx

    def log(self, level: Level, data: Any, logger: str | None = None) -> Awaitable[None]:
        """Logs any JSON value."""
        event = self._event(level, data, logger)
        return _DONE if event is None else self._ctx._emit(event)

    def forward(self, level: Level, data: Any, logger: str | None = None) -> None:
        """Logs from any thread without blocking: a logging.Handler holds a lock."""
        event = self._event(level, data, logger)
        if event is None or len(self._ctx._queue) >= MAX_QUEUE:
            return
        if threading.get_ident() == self._ctx._thread:
            self._ctx._emit(event)
        else:
            self._ctx._loop.call_soon_threadsafe(self._ctx._emit, event)

    def _event(self, level: Level, data: Any, logger: str | None) -> Response | None:
        severity = cast("v1.LogLevel", v1.LogLevel.Value(f"LOG_LEVEL_{level.upper()}"))
        requested = self._ctx._call.log_level
        if requested == v1.LOG_LEVEL_UNSPECIFIED or severity < requested:
            return None
        self._ctx._sent = True
        return self._ctx._response(log=v1.LogMessage(level=severity, logger=logger, data=any_json(data)))

    def debug(self, data: Any, logger: str | None = None) -> Awaitable[None]:
        return self.log("debug", data, logger)

    def info(self, data: Any, logger: str | None = None) -> Awaitable[None]:
        return self.log("info", data, logger)

    def notice(self, data: Any, logger: str | None = None) -> Awaitable[None]:
        return self.log("notice", data, logger)

    def warning(self, data: Any, logger: str | None = None) -> Awaitable[None]:
        return self.log("warning", data, logger)

    def error(self, data: Any, logger: str | None = None) -> Awaitable[None]:
        return self.log("error", data, logger)

    def critical(self, data: Any, logger: str | None = None) -> Awaitable[None]:
        return self.log("critical", data, logger)

    def alert(self, data: Any, logger: str | None = None) -> Awaitable[None]:
        return self.log("alert", data, logger)

    def emergency(self, data: Any, logger: str | None = None) -> Awaitable[None]:
        return self.log("emergency", data, logger)


Q = TypeVar("Q", bound="_Question")


class _Question:
    """A question and its answer. Without an answer, awaiting or reading it ends the round.

    Creating it only adds it to the round, so all questions of an asyncio.gather are asked in one round.
    """

    __slots__ = ("_ctx", "_response")

    def __init__(self, ctx: Context, key: str | None, request: v1.InputRequest) -> None:
        self._ctx = ctx
        self._response = ctx._ask(request, key)

    def __await__(self: Q) -> Generator[Any, None, Q]:
        if self._response is not None or not self._ctx._ask_all_depth:
            self._read()
        return self
        yield

    def _read(self) -> None:
        """Ends the round if there is no answer, and raises the error if the question failed."""

    def _get(self) -> v1.InputResponse:
        if self._response is None:
            self._ctx._end_round()
        response = cast("v1.InputResponse", self._response)
        if response.HasField("error"):
            raise _error_of(response.error)
        return response


def _error_of(error: v1.InputError) -> ToolError:
    if error.reason == v1.InputError.REASON_UNSUPPORTED:
        return Unsupported(f"This client cannot be asked this: {error.message}. Ask the user yourself and call again.")
    if error.reason == v1.InputError.REASON_NO_ANSWER:
        return NoAnswer(error.message or "the client did not answer in time")
    return Refused(error.message or "the client refused to answer")


class Answer(_Question, Generic[T]):
    """The user's answer. True if they accepted, unless the answer is `False`.

    answer = await ctx.elicit("Which colour?", Colour)
    if answer:
        paint(answer.data)
    elif answer.action == "decline": ...
    """

    __slots__ = ("_data", "_form", "_message", "_parsed")

    def __init__(self, ctx: Context, key: str | None, message: str, request: v1.InputRequest, fields: Form[T] | None):
        self._form = fields
        self._message = message
        self._parsed = False
        super().__init__(ctx, key, request)
        if self._response is not None:
            self._read()

    @property
    def action(self) -> Literal["accept", "decline", "cancel"]:
        """The action of the user; "cancel" means that the question was closed without an answer."""
        action = self._get().elicit.action
        return "accept" if action == "accept" else "decline" if action == "decline" else "cancel"

    @property
    def data(self) -> T:
        """The content of the form. Raises NotAccepted, which the model reads, if the user declined or canceled."""
        self._read()
        if self.action != "accept":
            raise NotAccepted(f"the user {_ACTION_TEXTS[self.action]}: {self._message}")
        return self._data

    def __bool__(self) -> bool:
        self._read()
        return self.action == "accept" and self._data is not False

    def __repr__(self) -> str:
        if self._response is None:
            return f"Answer({self._message!r}, not answered yet)"
        return f"Answer({self._message!r}, {self.action})"

    def _read(self) -> None:
        if self._parsed:
            return
        result = self._get().elicit
        if result.action == "accept":
            self._data: T = self._form.parse(result.content) if self._form else cast("T", None)
        self._parsed = True


_ACTION_TEXTS = {"decline": "declined", "cancel": "closed the question without an answer"}


class Sample(_Question):
    """The model's answer."""

    __slots__ = ()

    @property
    def message(self) -> v1.CreateMessageResult:
        """The whole message."""
        return self._get().create_message

    @property
    def text(self) -> str:
        """The text of the message."""
        return "".join(block.text.text for block in self.message.content)

    @property
    def turn(self) -> v1.SamplingMessage:
        """The answer as a turn of the conversation, for the next question."""
        return v1.SamplingMessage(role=self.message.role, content=self.message.content)

    @property
    def tool_calls(self) -> list[v1.ToolUseContent]:
        """The tool calls of the model."""
        return [block.tool_use for block in self.message.content if block.HasField("tool_use")]

    def _read(self) -> None:
        self._get()


class Roots(_Question, Sequence[v1.Root]):
    """The client's root directories."""

    __slots__ = ()

    def _read(self) -> None:
        self._get()

    def _list(self) -> Sequence[v1.Root]:
        return self._get().list_roots.roots

    @overload
    def __getitem__(self, index: int) -> v1.Root: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[v1.Root]: ...
    def __getitem__(self, index: int | slice) -> v1.Root | Sequence[v1.Root]:
        return self._list()[index]

    def __len__(self) -> int:
        return len(self._list())

    def __iter__(self) -> Iterator[v1.Root]:
        return iter(self._list())
