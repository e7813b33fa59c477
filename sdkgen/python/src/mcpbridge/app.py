"""App: a set of tools, resources and prompts, and the methods that serve the bridge."""

import difflib
import inspect
import json
import logging
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar, overload

import grpc
from typing_extensions import ParamSpec, TypedDict, Unpack

from mcpbridge import v1
from mcpbridge.changes import Changes
from mcpbridge.changes import List as ListName
from mcpbridge.content import Meta, json_text, meta_json
from mcpbridge.context import Context, Level, Write, current
from mcpbridge.errors import DefinitionError, McpError, ToolError
from mcpbridge.handlers import (
    CONTRACT,
    EXITS,
    Calls,
    Completable,
    Handler,
    Prompt,
    Resource,
    StatusError,
    Tool,
    completion,
)
from mcpbridge.schema import INVALID_SIGNATURE, choices, definition_error, signature
from mcpbridge.template import Template

F = TypeVar("F", bound=Callable[..., Any])
P = ParamSpec("P")
R = TypeVar("R")
Icons = Sequence[str | v1.Icon]
Scope = Literal["public", "private"]

# Extensions of MCP: tasks, and user interfaces (MCP Apps).
TASKS = "io.modelcontextprotocol/tasks"
UI = "io.modelcontextprotocol/ui"

UI_SCHEME = "ui://"
UI_TYPE = "text/html;profile=mcp-app"


@dataclass(frozen=True, kw_only=True)
class Task:
    """How calls of a tool become tasks: `@app.tool(task=Task(retry=True))`. `task=True` means `Task()`."""

    required: bool = False
    """Calls of clients that do not support tasks are errors. Otherwise such clients wait for the result."""
    retry: bool = False
    """The bridge calls the tool again, once, if the program ends during the call. Otherwise the task fails."""
    starts_later: bool = False
    """A call becomes a task when the tool calls `ctx.start_task`, for example after a question, and not before."""


class ToolOptions(TypedDict, total=False):
    """The options of a tool."""

    name: str | None
    title: str | None
    description: str | None
    read_only: bool | None
    destructive: bool | None
    idempotent: bool | None
    open_world: bool | None
    input_schema: Mapping[str, Any] | None
    output_schema: Mapping[str, Any] | None
    icons: Icons
    meta: Meta | None
    task: bool | Task
    ui: str | None


class ResourceOptions(TypedDict, total=False):
    """The options of a resource."""

    name: str | None
    title: str | None
    description: str | None
    mime_type: str | None
    size: int | None
    annotations: v1.Annotations | None
    cache_ttl: float | None
    cache_scope: Scope | None
    icons: Icons
    meta: Meta | None


class PromptOptions(TypedDict, total=False):
    """The options of a prompt."""

    name: str | None
    title: str | None
    description: str | None
    icons: Icons
    meta: Meta | None


# To stderr.
DEFAULT_HANDLER = logging.StreamHandler()


class App:
    """A set of tools, resources and prompts.

    Plain `def` functions run in up to `threads` threads; `async def` functions run on the event loop, and must not
    block it.

    `cache_ttl` is the time in seconds for which clients may cache the lists, and `cache_scope` whether they may share
    them. The lists are the same for all callers. `declares` names lists that are empty at startup and get entries
    later.
    """

    def __init__(
        self,
        name: str,
        *,
        version: str = "0.0.0",
        title: str | None = None,
        description: str | None = None,
        website: str | None = None,
        icons: Icons = (),
        instructions: str | None = None,
        cache_ttl: float | None = None,
        cache_scope: Scope | None = None,
        declares: Iterable[ListName] = (),
        max_calls: int | None = None,
        meta: Meta | None = None,
        threads: int = 32,
    ) -> None:
        self.name = name
        self.info = v1.Implementation(
            name=name, version=version, title=title, description=description, website_url=website, icons=_icons(icons)
        )
        self.instructions = instructions
        self._meta = meta_json(meta)
        self._hints: dict[str, Any] = _cache(cache_ttl, cache_scope)
        self._max_calls = max_calls
        self._tools: dict[str, Tool[..., Any]] = {}
        self._resources: dict[str, Resource[..., Any]] = {}
        self._templates: dict[str, Resource[..., Any]] = {}
        self._prompts: dict[str, Prompt[..., Any]] = {}
        self._capabilities: set[ListName] = set(declares)  # Capabilities that have been declared to clients.
        self._changes = Changes()
        self._calls = Calls(self, threads)
        self._mistakes: list[DefinitionError] = []
        self._running = False

    def check(self) -> None:
        """Raises DefinitionError with all mistakes in definitions of tools, resources and prompts, each with its line.

        `run` calls it first. Invalid definitions that are added while the app runs raise immediately.
        """
        if self._mistakes:
            raise DefinitionError("\n".join(map(str, self._mistakes)))

    def _report(self, e: DefinitionError) -> None:
        if self._running:
            raise e
        self._mistakes.append(e)

    def _definer(
        self, kind: str, add: Callable[..., Any], options: Mapping[str, Any], *first: Any
    ) -> Callable[[Any], Any]:
        """Returns a function that adds a definition or records the mistake. For public methods only."""
        caller = sys._getframe(2)
        at = f"{Path(caller.f_code.co_filename).name}:{caller.f_lineno}"

        def define(fn: Any) -> Any:
            label = options.get("name") or (first[0] if first else getattr(fn, "__name__", fn))
            try:
                if not callable(fn):
                    how = f"pass the name by keyword; write @app.{kind}(name={fn!r})"
                    raise DefinitionError(f'{at}: {kind} "{fn}": {how}')
                option_names = [p.name for p in inspect.signature(add).parameters.values() if p.kind == p.KEYWORD_ONLY]
                for option in options:
                    if option not in option_names:
                        close = difflib.get_close_matches(option, option_names, 1)
                        instead = f"did you mean {close[0]}?" if close else f"there are {', '.join(option_names)}"
                        what = f'there is no option "{option}"; {instead}'
                        self._report(DefinitionError(f'{at}: {kind} "{label}": {what}'))
                # A tool in a function may use that function's types.
                return add(
                    *first, fn, caller.f_locals, **{name: options[name] for name in option_names if name in options}
                )
            except DefinitionError as e:
                self._report(e)
                return None

        return define

    # Tools.

    @overload
    def tool(self, fn: F, /) -> F: ...
    @overload
    def tool(self, fn: None = None, /, **options: Unpack[ToolOptions]) -> Callable[[F], F]: ...
    def tool(self, fn: F | None = None, /, **options: Unpack[ToolOptions]) -> F | Callable[[F], F]:
        """Registers a function as a tool: `@app.tool`, or with options `@app.tool(read_only=True)`.

        The schema of the arguments is derived from the type hints, descriptions from the docstring. read_only,
        destructive, idempotent and open_world are hints for clients; by default, clients assume a destructive tool in
        an open world. An input_schema is sent unchanged, and the bridge validates the arguments against it; the
        function may then take them as `**arguments`. With task, a call becomes a task, which continues in the
        background, if the client supports tasks. With ui, the URI of a resource, `ui://...`, clients that support MCP
        Apps show the results in that HTML page.
        """
        define = self._definer("tool", self._add_tool, options)

        def decorate(fn: F) -> F:
            define(fn)
            return fn

        if fn is None or callable(fn):
            return decorate if fn is None else decorate(fn)
        define(fn)
        return lambda fn: fn

    def add_tool(self, fn: Callable[..., Any], **options: Unpack[ToolOptions]) -> None:
        """Adds a tool, also while the app runs; clients are notified. The options are those of `tool`."""
        self._definer("tool", self._add_tool, options)(fn)

    def remove_tool(self, name: str) -> None:
        """Removes a tool, also while the app runs; clients are notified."""
        del self._tools[name]
        self._changes.notify(("list", "tools"))

    def tool_message(self, name: str) -> v1.Tool:
        """Returns the definition of a tool as clients receive it."""
        return self._tools[name].message

    def _add_tool(
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
        input_schema: Mapping[str, Any] | None = None,
        output_schema: Mapping[str, Any] | None = None,
        icons: Icons = (),
        meta: Meta | None = None,
        task: bool | Task = False,
        ui: str | None = None,
    ) -> None:
        name = name or str(getattr(fn, "__name__", ""))
        if not re.fullmatch(r"[A-Za-z0-9_.-]{1,128}", name):
            rule = "a name is 1 to 128 letters, digits, '_', '-' and '.'"
            raise DefinitionError(f"{_location(fn)}: tool {name!r}: {rule}")
        _check_unique("tool", name, fn, self._tools)
        if ui is not None:
            if not ui.startswith(UI_SCHEME):
                rule = f"the URI of a user interface starts with {UI_SCHEME}"
                raise definition_error(fn, "tool", name, f"ui={ui!r}: {rule}")
            meta = {**(meta or {}), "ui": {**(meta or {}).get("ui", {}), "resourceUri": ui}}
        s = signature(fn, name, Context, localns, "tool", dict(input_schema) if input_schema is not None else None)
        message = v1.Tool(
            name=name,
            title=title,
            description=description or s.description or None,
            input_schema=json_text(s.schema if input_schema is None else input_schema),
            output_schema=s.output_schema if output_schema is None else json_text(output_schema),
            icons=_icons(icons),
            meta=meta_json(meta),
        )
        # Absent is not false: a tool is destructive by default.
        if read_only is not None:
            message.annotations.read_only_hint = read_only
        if destructive is not None:
            message.annotations.destructive_hint = destructive
        if idempotent is not None:
            message.annotations.idempotent_hint = idempotent
        if open_world is not None:
            message.annotations.open_world_hint = open_world
        if task:
            options = task if isinstance(task, Task) else Task()
            message.execution.task_support = "required" if options.required else "optional"
            message.execution.starts_later = options.starts_later
            message.execution.retry = options.retry
        self._tools[name] = Tool(fn, name, s, message)
        self._changed("tools")

    # Resources.

    def resource(self, uri: str, /, **options: Unpack[ResourceOptions]) -> Callable[[Callable[P, R]], Resource[P, R]]:
        """Registers a function as a resource, `@app.resource("config://main")`, or as a template of resources.

        The parameters of `@app.resource("weather://{city}")` are the template's variables, as in RFC 6570 up to level
        3: `{name}` matches no slash, `{+path}` also matches slashes, and those of `{?a,b}`, `{&a,b}` and `{;a,b}` are
        optional. Variables of `{/a,b}`, `{.a}` and `{#a}` are optional if they have a default. Raise NotFound if it
        does not exist.

        The function returns text, bytes, or a value to convert to JSON. `cache_ttl` and `cache_scope` apply to its
        content.
        """
        define = self._definer("resource", self._add_resource, options, uri)
        return lambda fn: define(fn) or Resource(fn, uri, INVALID_SIGNATURE, v1.Resource(), None, {}, self._report)

    def add_resource(self, uri: str, fn: Callable[..., Any], **options: Unpack[ResourceOptions]) -> None:
        """Adds a resource or a template, with the options of `resource`. Clients are notified if the app runs."""
        self._definer("resource", self._add_resource, options, uri)(fn)

    def remove_resource(self, uri: str) -> None:
        """Removes a resource or a template, also while the app runs; clients are notified."""
        del (self._templates if uri in self._templates else self._resources)[uri]
        self._changes.notify(("list", "resources"))

    def notify_updated(self, uri: str) -> None:
        """Notifies subscribers of the resource with this URI that it has changed. May be called from any thread."""
        self._changes.notify(("resource", uri))

    def _add_resource(
        self,
        uri: str,
        fn: Callable[P, R],
        localns: Mapping[str, Any],
        *,
        name: str | None = None,
        title: str | None = None,
        description: str | None = None,
        mime_type: str | None = None,
        size: int | None = None,
        annotations: v1.Annotations | None = None,
        cache_ttl: float | None = None,
        cache_scope: Scope | None = None,
        icons: Icons = (),
        meta: Meta | None = None,
    ) -> Resource[P, R]:
        try:
            template = Template(uri) if "{" in uri or "}" in uri else None
        except ValueError as e:
            raise definition_error(fn, "resource", uri, str(e)) from None
        if not re.match(r"[A-Za-z][A-Za-z0-9+.-]*:", uri):
            raise definition_error(fn, "resource", uri, "a URI starts with a scheme, such as file: or weather:")
        entries = self._resources if template is None else self._templates
        _check_unique("resource", uri, fn, entries)
        s = signature(fn, uri, Context, localns, "resource")
        _check_variables(fn, uri, template, set(s.schema.get("properties", ())), s.schema.get("required", ()))
        options: dict[str, Any] = {
            "name": name or getattr(fn, "__name__", uri),
            "title": title,
            "mime_type": UI_TYPE if mime_type is None and uri.startswith(UI_SCHEME) else mime_type,
            "annotations": annotations,
            "description": description or s.description or None,
            "icons": _icons(icons),
            "meta": meta_json(meta),
        }
        message: v1.Resource | v1.ResourceTemplate
        if template is None:
            message = v1.Resource(uri=uri, size=size, **options)
        else:
            message = v1.ResourceTemplate(uri_template=uri, **options)
        resource = Resource(fn, uri, s, message, template, _cache(cache_ttl, cache_scope), self._report)
        entries[uri] = resource
        self._changed("resources")
        return resource

    def notify_visited(self, id: str) -> None:  # noqa: A002
        """Notifies the client of a VisitRequired with this id that its user has completed the page."""
        self._changes.notify(("visit", id))

    # Prompts.

    @overload
    def prompt(self, fn: Callable[P, R], /) -> Prompt[P, R]: ...
    @overload
    def prompt(
        self, fn: None = None, /, **options: Unpack[PromptOptions]
    ) -> Callable[[Callable[P, R]], Prompt[P, R]]: ...
    def prompt(self, fn: Callable[..., Any] | None = None, /, **options: Unpack[PromptOptions]) -> Any:
        """Registers a function as a prompt: `@app.prompt`, or with options `@app.prompt(title="Greeting")`.

        It returns a message of the user, as text or other content, or a list of messages: see `user` and `assistant`.
        Its arguments are text in the protocol, and are converted according to the type hints.
        """
        define = self._definer("prompt", self._add_prompt, options)

        def invalid(fn: Callable[..., Any]) -> Any:
            return Prompt(fn, "", INVALID_SIGNATURE, v1.Prompt(), self._report)

        def decorate(fn: Callable[..., Any]) -> Any:
            return define(fn) or invalid(fn)

        if fn is None or callable(fn):
            return decorate if fn is None else decorate(fn)
        define(fn)
        return invalid

    def add_prompt(self, fn: Callable[..., Any], **options: Unpack[PromptOptions]) -> None:
        """Adds a prompt, also while the app runs; clients are notified. The options are those of `prompt`."""
        self._definer("prompt", self._add_prompt, options)(fn)

    def remove_prompt(self, name: str) -> None:
        """Removes a prompt, also while the app runs; clients are notified."""
        del self._prompts[name]
        self._changes.notify(("list", "prompts"))

    def _add_prompt(
        self,
        fn: Callable[P, R],
        localns: Mapping[str, Any],
        *,
        name: str | None = None,
        title: str | None = None,
        description: str | None = None,
        icons: Icons = (),
        meta: Meta | None = None,
    ) -> Prompt[P, R]:
        name = name or str(getattr(fn, "__name__", ""))
        _check_unique("prompt", name, fn, self._prompts)
        s = signature(fn, name, Context, localns, "prompt")
        required = s.schema.get("required", ())
        arguments = [
            v1.PromptArgument(name=a, title=of.get("title"), description=of.get("description"), required=a in required)
            for a, of in s.schema.get("properties", {}).items()
        ]
        message = v1.Prompt(
            name=name,
            title=title,
            description=description or s.description or None,
            arguments=arguments,
            icons=_icons(icons),
            meta=meta_json(meta),
        )
        self._prompts[name] = prompt = Prompt(fn, name, s, message, self._report)
        self._changed("prompts")
        return prompt

    # Logs.

    def forward_logging(self, logger: logging.Logger | str | None = None) -> None:
        """Also sends log records during a call to its caller, if it requested that level. Without a name, of all
        loggers.

        The records must not contain secrets.
        """
        logger = logger if isinstance(logger, logging.Logger) else logging.getLogger(logger)
        if not logger.hasHandlers():
            logger.addHandler(DEFAULT_HANDLER)  # Keep the default output: our handler must not replace it.
        logger.addHandler(_LogForwarder())
        self._calls.forwarding = True

    # Methods of the contract.

    def discover(self, request: v1.DiscoverRequest | None = None) -> v1.DiscoverResponse:
        """Implements Discover."""
        capabilities = v1.ServerCapabilities(logging=v1.Capability())
        if "tools" in self._capabilities:
            capabilities.tools.list_changed = True
        if "resources" in self._capabilities:
            capabilities.resources.list_changed = capabilities.resources.subscribe = True
        if "prompts" in self._capabilities:
            capabilities.prompts.list_changed = True
        if any(c.completes() for c in (*self._prompts.values(), *self._templates.values())):
            capabilities.completions.SetInParent()
        tools = [tool.message for tool in tuple(self._tools.values())]
        extensions: dict[str, Any] = {}
        if any(tool.HasField("execution") for tool in tools):
            extensions[TASKS] = {}
        if any(_has_ui(tool) for tool in tools):
            extensions[UI] = {}
        if extensions:
            capabilities.extensions = json_text(extensions)
        limits = v1.BackendLimits(max_concurrent_calls=self._max_calls) if self._max_calls is not None else None
        return v1.DiscoverResponse(
            contract_version=CONTRACT,
            server_info=self.info,
            capabilities=capabilities,
            instructions=self.instructions,
            meta=self._meta,
            limits=limits,
            **self._hints,
        )

    def list_tools(self, request: v1.ListToolsRequest) -> v1.ListToolsResponse:
        """Implements ListTools: one page, in the order of definition, like the other lists."""
        self._check_list(request, "tools")
        return v1.ListToolsResponse(tools=[t.message for t in tuple(self._tools.values())], **self._hints)

    def list_resources(self, request: v1.ListResourcesRequest) -> v1.ListResourcesResponse:
        self._check_list(request, "resources")
        messages: Any = [r.message for r in tuple(self._resources.values())]
        return v1.ListResourcesResponse(resources=messages, **self._hints)

    def list_resource_templates(self, request: v1.ListResourceTemplatesRequest) -> v1.ListResourceTemplatesResponse:
        self._check_list(request, "resources")
        messages: Any = [r.message for r in tuple(self._templates.values())]
        return v1.ListResourceTemplatesResponse(resource_templates=messages, **self._hints)

    def list_prompts(self, request: v1.ListPromptsRequest) -> v1.ListPromptsResponse:
        self._check_list(request, "prompts")
        return v1.ListPromptsResponse(prompts=[p.message for p in tuple(self._prompts.values())], **self._hints)

    async def call_tool(self, request: v1.CallToolRequest, write: Write) -> v1.CallToolResponse:
        """Implements CallTool: writes the events and returns the last one. Raises StatusError and McpError only."""
        tool = self._tools.get(request.name)
        if tool is None:
            raise _not_found("tool", request.name, self._tools)
        try:
            arguments = tool.signature.parse(request.arguments)
        except ToolError as e:
            return tool.failure(str(e))
        response: v1.CallToolResponse = await self._calls.run_round(tool, arguments, request, write)
        return response

    async def read_resource(self, request: v1.ReadResourceRequest, write: Write) -> v1.ReadResourceResponse:
        """Implements ReadResource, like call_tool. Resources precede templates, in the order of definition."""
        resource = self._resources.get(request.uri)
        candidates: list[tuple[Resource[..., Any], dict[str, str]]] = [(resource, {})] if resource else []
        for template in tuple(self._templates.values()):
            if template.template and (values := template.template.match(request.uri)) is not None:
                candidates.append((template, values))
        for handler, values in candidates:
            try:
                arguments = handler.signature.parse_strings(values)
            except ToolError:
                continue  # A value of another type than the variable does not match.
            response: v1.ReadResourceResponse = await self._calls.run_round(handler, arguments, request, write)
            return response
        raise _not_found("resource", request.uri, self._resources)

    async def get_prompt(self, request: v1.GetPromptRequest, write: Write) -> v1.GetPromptResponse:
        """Implements GetPrompt, like call_tool."""
        prompt = self._prompts.get(request.name)
        if prompt is None:
            raise _not_found("prompt", request.name, self._prompts)
        try:
            arguments = prompt.signature.parse_strings(request.arguments)
        except ToolError as e:
            raise StatusError(grpc.StatusCode.INVALID_ARGUMENT, str(e)) from e
        response: v1.GetPromptResponse = await self._calls.run_round(prompt, arguments, request, write)
        return response

    async def complete(self, request: v1.CompleteRequest) -> v1.CompleteResponse:
        """Implements Complete. An argument without a completion function has no values."""
        of: Completable[..., Any] | None
        if request.reference.HasField("prompt"):
            if (of := self._prompts.get(request.reference.prompt.name)) is None:
                raise _not_found("prompt", request.reference.prompt.name, self._prompts)
        elif not request.reference.HasField("resource"):
            message = "the reference is neither a prompt nor a resource template"
            raise StatusError(grpc.StatusCode.INVALID_ARGUMENT, message)
        elif (of := self._templates.get(request.reference.resource.uri)) is None:
            if request.reference.resource.uri in self._resources:
                return completion(())
            raise _not_found("resource template", request.reference.resource.uri, self._templates)
        typed = request.argument.value
        completer = of.completers.get(request.argument.name)
        if completer is None:
            values = choices(of.signature.schema, request.argument.name)
            return completion(v for v in values if v.lower().startswith(typed.lower()))
        arguments = completer.arguments(typed, request.argument_context.arguments)
        if arguments is None:
            return completion(())
        if completer.context:
            # A completion has no events and no questions.
            context = v1.CallContext()
            context.CopyFrom(request.context)
            for field in ("client_capabilities", "log_level", "progress_wanted"):
                context.ClearField(field)
            no_write: Any = None
            call = v1.CallToolRequest(context=context)
            arguments[completer.context] = Context(self, call, no_write, v1.CallToolResponse)
        try:
            return completion(await self._calls.run(completer, arguments))
        except McpError:
            raise
        except ToolError as e:
            raise McpError(-32603, str(e)) from e
        except (Exception, *EXITS) as e:
            raise McpError(-32603, self._calls.explain(completer, e)) from e

    def supported_changes(self, requested: v1.SubscriptionFilter) -> v1.SubscriptionFilter:
        """Returns the part of the requested changes that Listen reports."""
        supported = v1.SubscriptionFilter()
        if requested.elicitations_completed:
            supported.elicitations_completed = True
        if requested.tools_list_changed and "tools" in self._capabilities:
            supported.tools_list_changed = True
        if requested.prompts_list_changed and "prompts" in self._capabilities:
            supported.prompts_list_changed = True
        if "resources" in self._capabilities:
            if requested.resources_list_changed:
                supported.resources_list_changed = True
            supported.resource_subscriptions.extend(requested.resource_subscriptions)
        return supported

    def _changed(self, which: ListName) -> None:
        self._capabilities.add(which)
        self._changes.notify(("list", which))

    def _check_list(self, request: Any, which: ListName) -> None:
        if which not in self._capabilities:
            raise StatusError(grpc.StatusCode.UNIMPLEMENTED, f"{self.name} has no {which}")
        if request.HasField("cursor"):
            raise StatusError(grpc.StatusCode.INVALID_ARGUMENT, f"there is no page at cursor {request.cursor[:128]!r}")

    # Serving.

    def run(self, *, listen: str | None = None) -> None:
        """Serves until shutdown: the bridge that launched this program, or clients at an address.

        `listen`, or `--listen` on the command line, is the address: `127.0.0.1:50051` or `unix:/run/tools.sock`. There
        is no TLS there, so keep it on this machine.
        """
        from mcpbridge import serve

        serve.run(self, listen)


class _LogForwarder(logging.Handler):
    """Sends records to the caller of the current call."""

    def emit(self, record: logging.LogRecord) -> None:
        ctx = current.get(None)
        if ctx is None or record.name == "mcpbridge":  # The response of a failed call already contains it.
            return
        if record.__dict__.setdefault("mcpbridge", self) is not self:
            return  # Another handler of this class has sent it.
        try:
            ctx.log.forward(_level(record.levelno), record.getMessage(), record.name)
        except Exception:
            self.handleError(record)


def _level(number: int) -> Level:
    names: list[tuple[int, Level]] = [
        (logging.CRITICAL, "critical"),
        (logging.ERROR, "error"),
        (logging.WARNING, "warning"),
        (logging.INFO, "info"),
    ]
    return next((name for minimum, name in names if number >= minimum), "debug")


def _has_ui(tool: v1.Tool) -> bool:
    ui = json.loads(tool.meta or "{}").get("ui")
    return isinstance(ui, dict) and "resourceUri" in ui


def _icons(icons: Icons) -> list[v1.Icon]:
    return [v1.Icon(src=i) if isinstance(i, str) else i for i in icons]


def _cache(ttl: float | None, scope: Scope | None) -> dict[str, Any]:
    """Returns cache hints in the form of the contract."""
    return {"ttl_ms": None if ttl is None else round(ttl * 1000), "cache_scope": scope}


def _check_unique(kind: str, name: str, fn: Callable[..., Any], entries: Mapping[str, Handler[..., Any]]) -> None:
    if name in entries:
        raise DefinitionError(f'{_location(fn)}: {kind} "{name}" is already defined at {_location(entries[name].fn)}')


def _check_variables(
    fn: Callable[..., Any], uri: str, template: Template | None, parameters: set[str], required: Sequence[str]
) -> None:
    variables = template.variables if template else []
    if extra := sorted(parameters.difference(variables)):
        what = f'has no variable {{{extra[0]}}} for parameter "{extra[0]}"'
        raise definition_error(fn, "resource", uri, f"the URI {what}", extra[0])
    if missing := sorted(set(variables) - parameters):
        what = f"there is no parameter for {{{missing[0]}}}; write {missing[0]}: str"
        raise definition_error(fn, "resource", uri, what)
    if template and (needed := [v for v in template.optional if v in required]):
        raise definition_error(fn, "resource", uri, f'"{needed[0]}" may be missing; give it a default', needed[0])


def _not_found(kind: str, name: str, entries: Iterable[str]) -> StatusError:
    queried = name[:128]  # A status is sent in the trailers, which are limited.
    close = difflib.get_close_matches(queried, tuple(entries)[:500], 1)  # Comparing many is slow.
    hint = f"; did you mean {close[0]!r}?" if close else ""
    return StatusError(grpc.StatusCode.NOT_FOUND, f"there is no {kind} {queried!r}{hint}")


def _location(fn: Callable[..., Any]) -> str:
    code = getattr(inspect.unwrap(fn), "__code__", None)
    return f"{Path(code.co_filename).name}:{code.co_firstlineno}" if code else repr(fn)
