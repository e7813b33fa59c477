"""Converts type hints and docstrings to JSON Schema, and JSON to values, with pydantic."""

import ast
import contextlib
import difflib
import functools
import inspect
import json
import operator
import textwrap
import types
import typing
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, is_dataclass
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, TypeVar, get_args, get_origin

import docstring_parser
import pydantic_core
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.errors import PydanticUserError
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode
from pydantic_core import PydanticUndefined
from typing_extensions import NotRequired, TypedDict, is_typeddict

from mcpbridge.content import CONTENT_TYPES, Dump, json_text, to_json
from mcpbridge.errors import DefinitionError, InvalidAnswer, ToolError
from mcpbridge.formats import FORMATS, LOCAL_DATE_TIME, LOCAL_TIME, Check, Location, check_of

T = TypeVar("T")
Object = dict[str, Any]


Kind = Literal["tool", "resource", "prompt", "completion"]


@dataclass(frozen=True, slots=True)
class Signature:
    """How a function is called from JSON."""

    description: str
    schema: Object  # Of the arguments.
    output_schema: str | None
    context: str | None  # The parameter for the Context.
    parse: Callable[[bytes], Object]  # Converts JSON to keyword arguments; raises ToolError if they are invalid.
    parse_strings: Callable[[Mapping[str, str]], Object]  # The same for arguments that are all text.
    dump: Dump | None
    returns: tuple[type, ...] = ()  # Types that a tool without a dump may return. If empty, any.
    has_rest: bool = False  # Whether the function has `**arguments`.


# The signature of an invalid function.
INVALID_SIGNATURE = Signature("", {}, None, None, lambda _: {}, lambda _: {}, None)


def signature(
    fn: Callable[..., Any],
    name: str,
    context_type: type,
    localns: Mapping[str, Any],
    kind: Kind = "tool",
    input_schema: Object | None = None,
) -> Signature:
    """Returns how to call fn. localns are the names that its type hints may use besides the globals.

    The return type is used for tools only. A tool with an input_schema may have `**arguments`.
    """

    def invalid(what: str, parameter: str | None = None) -> DefinitionError:
        return definition_error(fn, kind, name, what, parameter)

    try:
        hints = typing.get_type_hints(unwrap(fn), localns=dict(localns), include_extras=True)
    except NameError as e:
        raise invalid(f"a type hint is not defined here: {e}") from None
    if inspect.isasyncgenfunction(unwrap(fn)):
        raise invalid("it yields, and a call has one result; return a list")
    doc = docstring_parser.parse(inspect.getdoc(fn) or "")
    descriptions = {p.arg_name: p.description for p in doc.params if p.description}

    context: str | None = None
    has_rest = False
    arguments: dict[str, Any] = {}
    for p in inspect.signature(fn).parameters.values():
        if p.kind == p.VAR_KEYWORD and input_schema is not None:
            has_rest = True
            continue
        if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD, p.POSITIONAL_ONLY):
            raise invalid(f"parameter {p} cannot be passed by name; write a plain parameter", p.name)
        if p.name not in hints and p.name == "self":
            raise invalid(
                f"it is a method of a class; create an object, and use app.add_{kind} with its method", p.name
            )
        if p.name not in hints:
            raise invalid(f'parameter "{p.name}" has no type hint; write {p.name}: {_suggest_hint(p)}', p.name)
        hint = hints[p.name]
        if any(isinstance(leaf, type) and issubclass(leaf, context_type) for leaf in _leaves(hint)):
            context = p.name
            continue
        if p.name in descriptions and not _has_description(hint, p.default):
            hint = Annotated[hint, Field(description=descriptions[p.name])]
        if isinstance(p.default, FieldInfo):
            hint = Annotated[hint, p.default]
            arguments[p.name] = hint if p.default.is_required() else NotRequired[hint]
        elif p.default is not p.empty:
            arguments[p.name] = NotRequired[Annotated[hint, Field(default=p.default)]]
        else:
            arguments[p.name] = hint

    bad: dict[str, DefinitionError] = {}  # By the names of parameters.
    try:
        adapter, schema = _adapter_of(name, arguments, has_rest)
    except PydanticUserError as e:
        use = "use str, int, float, bool, list, dict, Literal, an Enum, a dataclass, a TypedDict or a pydantic model"
        for parameter, hint in arguments.items():
            try:
                _adapter_of(name, {parameter: hint})
            except PydanticUserError as why:
                of = f"has a type that JSON cannot represent, {_name(hints[parameter])}; {use}"
                bad[parameter] = invalid(f'parameter "{parameter}" {_reason(why) or of}', parameter)
        if not bad:
            raise invalid(str(e)) from None
        adapter, schema = _adapter_of(name, {p: hint for p, hint in arguments.items() if p not in bad}, has_rest)
    check = check_of(schema)
    for p in inspect.signature(fn).parameters.values():
        if p.name in arguments and p.name not in bad and (violation := _default_violation(p, adapter, check)):
            instead = f"; write {p.name}: {_name(hints[p.name])} | None = None" if p.default is None else ""
            bad[p.name] = invalid(f'parameter "{p.name}": {violation}{instead}', p.name)
    if bad:
        raise DefinitionError("\n".join(str(bad[p]) for p in arguments if p in bad))
    if kind != "tool":
        for parameter, of in schema.get("properties", {}).items():
            if any(s.get("type") in ("array", "object") for s in _resolved(of, schema)):
                raise invalid(
                    f'parameter "{parameter}" has a type that text cannot represent, {_name(hints[parameter])}; '
                    "use str, int, float, bool, Literal or an Enum",
                    parameter,
                )
    try:
        output_schema, dump = _output(hints.get("return", Any) if kind == "tool" else Any)
    except PydanticUserError as e:
        use = "return str, a dict, a list, a dataclass, a pydantic model, Image or Audio"
        unsupported = f"returns a type that JSON cannot represent, {_name(hints['return'])}; {use}"
        raise invalid(f"it {_reason(e) or unsupported}") from None

    usage = _usage(name, input_schema if input_schema is not None else schema)
    names = tuple(arguments)

    def invalid_arguments(violations: str) -> ToolError:
        return ToolError(f"{name}: the arguments are invalid.\n{violations}\nUsage: {usage}")

    return Signature(
        description="\n\n".join(filter(None, (doc.short_description, doc.long_description))),
        schema=schema,
        output_schema=output_schema,
        context=context,
        parse=lambda value_json: _validate(adapter.validate_json, check, value_json or b"{}", invalid_arguments, names),
        parse_strings=lambda texts: _validate(adapter.validate_strings, check, dict(texts), invalid_arguments, names),
        dump=dump,
        returns=_classes(hints["return"]) if kind == "tool" and dump is None and "return" in hints else (),
        has_rest=has_rest,
    )


def definition_error(
    fn: Callable[..., Any], kind: str, name: str, what: str, parameter: str | None = None
) -> DefinitionError:
    """Returns an error that names the line to change."""
    return DefinitionError(f'{line_of(fn, parameter)}: {kind} "{name}": {what}')


def _reason(e: PydanticUserError) -> str | None:
    """Returns a specific reason why a type cannot be used, if there is one."""
    if isinstance(e, _UnknownFormat):
        return e.message
    old = e.code == "typed-dict-version"
    fix = 'has a TypedDict of typing before Python 3.12; write "from typing_extensions import TypedDict"'
    return fix if old else None


def choices(schema: Object, argument: str) -> list[str]:
    """Returns the values of an argument whose type is a Literal or an Enum."""
    values: list[str] = []
    for s in _resolved(schema.get("properties", {}).get(argument, {}), schema):
        values += [str(v) for v in s.get("enum", [s["const"]] if "const" in s else [])]
    return values


def _resolved(s: Object, root: Object) -> list[Object]:
    """Returns the alternatives of a schema, without references."""
    if "$ref" in s:
        return _resolved(root.get("$defs", {}).get(s["$ref"].rpartition("/")[2], {}), root)
    return [r for one in s["anyOf"] for r in _resolved(one, root)] if "anyOf" in s else [s]


class _UnknownFormat(PydanticUserError):
    """The definition has a format that is not validated."""

    def __init__(self, name: str) -> None:
        close = difflib.get_close_matches(name, FORMATS, 1)
        instead = f"did you mean {close[0]}?" if close else f"there are {', '.join(FORMATS)}"
        super().__init__(f'has a format that does not exist, "{name}"; {instead}', code=None)


class _Schema(GenerateJsonSchema):
    """JSON Schema without the titles that only repeat the names."""

    def generate_inner(self, schema: Any) -> Object:
        # pydantic validates the formats that it generates, such as that of Path, but not those of json_schema_extra.
        extra = schema.get("metadata", {}).get("pydantic_js_extra")
        format_name = extra.get("format") if isinstance(extra, dict) else None
        if isinstance(format_name, str) and format_name not in FORMATS:
            raise _UnknownFormat(format_name)
        return super().generate_inner(schema)

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def datetime_schema(self, schema: Any) -> Object:
        naive = schema.get("tz_constraint") == "naive"
        return {"type": "string", "pattern": LOCAL_DATE_TIME} if naive else super().datetime_schema(schema)

    def time_schema(self, schema: Any) -> Object:
        aware = schema.get("tz_constraint") == "aware"
        return super().time_schema(schema) if aware else {"type": "string", "pattern": LOCAL_TIME}


def _schema_of(adapter: TypeAdapter[Any], mode: JsonSchemaMode) -> Object:
    schema = adapter.json_schema(mode=mode, schema_generator=_Schema)
    if "$ref" in schema:  # A recursive type. The root must have `type: object`.
        schema = {**schema["$defs"][schema["$ref"].rpartition("/")[2]], "$defs": schema["$defs"]}
    schema.pop("title", None)
    return schema


def _adapter_of(name: str, fields: dict[str, Any], has_rest: bool = False) -> tuple[TypeAdapter[Any], Object]:
    """Returns an adapter for a TypedDict, whose validation returns the keyword arguments, with defaults."""
    arguments = _typed_dict(name, fields)
    # An unknown argument is an error; otherwise a misspelled optional one would be ignored.
    arguments.__pydantic_config__ = ConfigDict(extra="allow" if has_rest else "forbid")
    adapter: TypeAdapter[Any] = TypeAdapter(arguments)
    return adapter, _schema_of(adapter, "validation")


def _typed_dict(name: str, fields: dict[str, Any]) -> Any:
    return TypedDict(name, fields)  # type: ignore[operator]  # The fields are dynamic.


def _output(hint: Any) -> tuple[str | None, Dump | None]:
    """Returns the output schema of a return type, and a function to serialize values. Text and content have none."""
    leaves = _leaves(hint)
    if hint is Any or (leaves <= {str, type(None)} and get_origin(hint) not in (list, tuple)):
        return None, None
    if any(isinstance(leaf, type) and issubclass(leaf, CONTENT_TYPES) for leaf in leaves):
        return None, None
    adapter: TypeAdapter[Any] = TypeAdapter(hint)
    schema = _schema_of(adapter, "serialization")
    check = check_of(dict(schema))  # A copy: the definitions are moved below.
    wrap = schema.get("type") != "object"
    if wrap:
        defs = schema.pop("$defs", None)
        schema = {"type": "object", "properties": {"result": schema}, "required": ["result"]}
        if defs:
            schema["$defs"] = defs

    def write(value: Any) -> bytes:
        violations: list[str] = []
        try:
            text = to_json(adapter.validate_python(value), adapter.dump_json)
        except ValidationError as e:
            violations = _violations(e)
        else:
            if check is not None:
                returned = pydantic_core.from_json(text)
                violations = _violations(None, check(returned), returned)
        if violations:  # A mistake of the author, not of the model.
            raise TypeError("\n".join(("the tool returned what its return type does not allow:", *violations)))
        return text

    return json_text(schema), (write, wrap)


def _classes(hint: Any) -> tuple[type, ...]:
    """Returns the classes of the values of a type, or none if classes do not describe it completely."""
    of = get_origin(hint) or hint
    if of is Annotated:
        return _classes(get_args(hint)[0])
    if of in (typing.Union, types.UnionType):
        each = [_classes(arg) for arg in get_args(hint)]
        return tuple(c for classes in each for c in classes) if all(each) else ()
    if of in (list, tuple):
        return list, tuple
    return (of,) if isinstance(of, type) and of is not Any and not getattr(of, "_is_protocol", False) else ()


def _leaves(hint: Any) -> set[Any]:
    if get_origin(hint) is Annotated:
        return _leaves(get_args(hint)[0])
    if get_origin(hint) in (list, tuple, typing.Union, types.UnionType):
        return {leaf for arg in get_args(hint) for leaf in _leaves(arg)}
    return {hint} if isinstance(hint, Hashable) else {object}


# Arguments.


def _validate(
    validate: Callable[[Any], Any],
    check: Check | None,
    value_json: Any,
    error_for: Callable[[str], Exception],
    names: tuple[str, ...] = (),
) -> Any:
    """Validates JSON, or texts by their names, including formats."""
    error: ValidationError | None = None
    try:
        value = validate(value_json)
    except ValidationError as e:
        error = e
    formats: dict[Location, str] = {}
    if check is not None:
        with contextlib.suppress(ValueError):  # Invalid JSON, which the other error describes.
            value_json = value_json if isinstance(value_json, dict) else pydantic_core.from_json(value_json)
            formats = check(value_json)
    if error or formats:
        raise error_for("\n".join(_violations(error, formats, value_json, names))) from None
    return value


def _violations(
    error: ValidationError | None, formats: Mapping[Location, str] = types.MappingProxyType({}), value_json: Any = None,
    names: tuple[str, ...] = (),
) -> list[str]:  # fmt: skip
    """Returns a line for each violation, with the field, the expected value and the actual one.

    A format violation replaces other violations of the same value.
    """
    lines = []
    for e in error.errors(include_url=False, include_context=False) if error else ():
        if e["loc"] in formats:
            continue
        field = ".".join(map(str, e["loc"]))
        if e["type"] == "missing":
            what = "is required"
        elif e["type"] == "extra_forbidden":
            close = difflib.get_close_matches(field, names, 1)
            what = "does not exist" + (f"; did you mean {close[0]}?" if close else "")
        else:
            what = f"{e['msg']}, got {_shorten(e['input'])}"
        lines.append(f"- {field}: {what}" if field else what)
    for at, what in formats.items():
        actual = functools.reduce(lambda value, key: value[key], at, value_json)
        lines.append(f"- {'.'.join(map(str, at)) or '(all)'}: {what}, got {_shorten(actual)}")
    return lines


def _shorten(actual: Any) -> str:
    if isinstance(actual, bytes):  # Invalid JSON, and possibly invalid UTF-8.
        actual = actual.decode(errors="replace")
    got = pydantic_core.to_json(actual, inf_nan_mode="constants", serialize_unknown=True).decode()
    return got if len(got) <= 80 else got[:80] + " ..."


def _default_violation(p: inspect.Parameter, adapter: TypeAdapter[Any], check: Check | None) -> str | None:
    """Returns why the default of a parameter does not conform to its schema."""
    default = p.default.default if isinstance(p.default, FieldInfo) else p.default
    if any(default is none for none in (p.empty, ..., PydanticUndefined)):
        return None
    try:
        value_json = pydantic_core.to_json({p.name: default}, inf_nan_mode="null")
    except pydantic_core.PydanticSerializationError:
        return None  # Clients do not see it.
    formats = check(pydantic_core.from_json(value_json)) if check else {}
    message = f"the default {_shorten(default)} is invalid"
    for what in formats.values():
        return f"{message}: {what}"
    try:
        adapter.validate_json(value_json, strict=True)
    except ValidationError as error:
        for e in error.errors(include_url=False, include_context=False):
            if e["loc"][0] == p.name and e["type"] != "missing":
                return f"{message}: {e['msg'].replace('Input should be', 'must be')}"
    return None


def _usage(name: str, schema: Object) -> str:
    required = schema.get("required", ())
    parts = []
    for field, s in schema.get("properties", {}).items():
        default = f" = {json.dumps(s['default'])}" if "default" in s else "" if field in required else " = ..."
        parts.append(f"{field}: {_type(s)}{default}")
    return f"{name}({', '.join(parts)})"


def _type(s: Any) -> str:
    if not isinstance(s, dict):
        return "any"
    if "const" in s:
        return json.dumps(s["const"])
    if "enum" in s:
        return " | ".join(map(json.dumps, s["enum"]))
    for union in ("anyOf", "oneOf"):
        if union in s:
            return " | ".join(map(_type, s[union]))
    if "$ref" in s:
        return str(s["$ref"].rpartition("/")[2])
    if s.get("type") == "array":
        return f"{_type(s.get('items'))}[]"
    if s.get("format") in FORMATS:
        return str(s["format"])
    return f"{s.get('type', 'any')}{_bounds(s)}"


def _bounds(s: Object) -> str:
    """Returns the bounds of a number, after its type: ` 1..14`, ` > 0`."""
    if "minimum" in s and "maximum" in s:
        return f" {s['minimum']}..{s['maximum']}"
    signs = {"minimum": ">=", "exclusiveMinimum": ">", "maximum": "<=", "exclusiveMaximum": "<"}
    return "".join(f" {sign} {s[key]}" for key, sign in signs.items() if key in s)


# Messages for invalid definitions.


def unwrap(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Returns the innermost function, without decorators and partial."""
    fn = inspect.unwrap(fn)
    while isinstance(fn, functools.partial):
        fn = fn.func
    return fn if inspect.isroutine(fn) else type(fn).__call__


def line_of(fn: Callable[..., Any], parameter: str | None = None) -> str:
    """Returns the line of the parameter, or of the function if that is unknown: `tools.py:12`."""

    def of_parameter(node: _Function) -> int | None:
        a = node.args
        parameters = (*a.posonlyargs, *a.args, *a.kwonlyargs, a.vararg, a.kwarg)
        return next((arg.lineno for arg in parameters if arg and arg.arg == parameter), None)

    return _line(fn, of_parameter)


def line_of_call(fn: Callable[..., Any], name: str) -> str:
    """Returns the line where a function calls another one without await, or its own line if that is unknown."""

    def of_call(node: _Function) -> int | None:
        awaited = {id(n.value) for n in ast.walk(node) if isinstance(n, ast.Await)}
        calls = (n for n in ast.walk(node) if isinstance(n, ast.Call) and id(n) not in awaited)
        return next((n.lineno for n in calls if ast.unparse(n.func).rpartition(".")[2] == name), None)

    return _line(fn, of_call)


_Function = ast.FunctionDef | ast.AsyncFunctionDef


def _line(fn: Callable[..., Any], find: Callable[[_Function], int | None]) -> str:
    code = getattr(unwrap(fn), "__code__", None)
    if code is None:
        return repr(fn)
    line = code.co_firstlineno
    with contextlib.suppress(OSError, SyntaxError, IndexError):
        node = ast.parse(textwrap.dedent(inspect.getsource(code))).body[0]
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            line += (find(node) or node.lineno) - 1
    return f"{Path(code.co_filename).name}:{line}"


def _suggest_hint(parameter: inspect.Parameter) -> str:
    """Returns the type hint to suggest."""
    if parameter.name in ("ctx", "context"):
        return "Context"
    default = parameter.default
    return "str" if default is parameter.empty or default is None else _name(type(default))


def _name(hint: Any) -> str:
    return hint.__name__ if isinstance(hint, type) else str(hint)


def _has_description(hint: Any, default: Any) -> bool:
    return any(isinstance(f, FieldInfo) and f.description for f in (default, *getattr(hint, "__metadata__", ())))


# Forms.


@dataclass(frozen=True, slots=True)
class Form(Generic[T]):
    """The form of a question: its schema, and a function to parse its content."""

    schema: str
    parse: Callable[[str], T]


def form(schema: Any) -> Form[Any]:
    """Returns the form for a pydantic model, dataclass, TypedDict, simple type or JSON Schema. None has no fields."""
    if schema is None:
        schema = {"type": "object", "properties": {}}
    if isinstance(schema, dict):
        return Form(json_text(schema), _read_object)
    return _typed_form(schema)


@functools.lru_cache(maxsize=1024)
def _typed_form(schema: Any) -> Form[Any]:
    is_object = is_dataclass(schema) or is_typeddict(schema)
    is_object = is_object or (isinstance(schema, type) and issubclass(schema, BaseModel))
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(schema if is_object else _typed_dict("form", {"value": schema}))
        fields = _schema_of(adapter, "validation")
    except PydanticUserError as e:
        raise TypeError(f"the form {_reason(e) or f'has a type that JSON cannot represent, {_name(schema)}'}") from None

    check = check_of(fields)

    def invalid_answer(violations: str) -> InvalidAnswer:
        return InvalidAnswer(f"the answer violates the schema of the form:\n{violations}")

    def parse(content: str) -> Any:
        value = _validate(adapter.validate_json, check, content or "{}", invalid_answer)
        return value if is_object else value["value"]

    return Form(json_text(_flatten(fields, schema)), parse)


def _read_object(content: str) -> Object:
    try:
        value = json.loads(content or "{}")
    except ValueError as e:
        raise InvalidAnswer(f"the answer is not JSON: {e}") from None
    if not isinstance(value, dict):
        raise InvalidAnswer("the answer is not a JSON object")
    return value


def _titled(s: Object) -> list[Object] | None:
    """Returns the choices of a union of Literals in MCP's format, each with a title."""
    choices = s.get("anyOf", ())
    if not choices or not all("const" in c for c in choices):
        return None
    return [{"const": c["const"], "title": c.get("title", str(c["const"]))} for c in choices]


def choice(titles: Mapping[str, str]) -> Any:
    """Returns a type for a choice of values by title: `ctx.elicit("Which?", choice({"#f00": "Red", "#0f0": "Green"}))`.

    For fixed values, a union of Literals is equivalent:
    `Annotated[Literal["#f00"], Field(title="Red")] | Annotated[Literal["#0f0"], Field(title="Green")]`.
    """
    if not titles:
        raise ValueError("there is nothing to choose from")
    return functools.reduce(
        operator.or_, (Annotated[Literal[value], Field(title=title)] for value, title in titles.items())
    )


def choices_of(titles: Mapping[str, str]) -> Any:
    """Like `choice`, for any number of the values."""
    return list[choice(titles)]  # type: ignore[misc]


# The types of fields in MCP's forms, besides lists of choices.
_PRIMITIVES = ("string", "number", "integer", "boolean")


def _flatten(schema: Object, of: Any) -> Object:
    """Converts pydantic's schema to the flat schema of MCP's forms: no references, no nulls, no nesting."""
    defs = schema.get("$defs", {})

    def resolve(s: Object) -> Object:
        if "$ref" in s:
            s = {**defs[s["$ref"].rpartition("/")[2]], **s}
            del s["$ref"]
        if "anyOf" in s:
            choices = [c for c in s["anyOf"] if c != {"type": "null"}]
            if len(choices) == 1:
                s = {**resolve(choices[0]), **s}
                del s["anyOf"]
        if (titled := _titled(s)) is not None:
            s = {"type": "string", **s, "oneOf": titled}
            del s["anyOf"]
        if s.get("default", ...) is None:
            s = {k: v for k, v in s.items() if k != "default"}
        if "const" in s:
            s = {"type": "string", **s, "enum": [s["const"]]}
            del s["const"]
        if s.get("type") == "array" and "items" in s:
            titled = _titled(s["items"])
            s = {**s, "items": resolve(s["items"]) if titled is None else {"anyOf": titled}}
        return s

    required = set(schema.get("required", ()))
    properties = {}
    for name, s in schema.get("properties", {}).items():
        if {"type": "null"} in s.get("anyOf", ()):
            required.discard(name)
        properties[name] = s = resolve(s)
        choices = s.get("type") == "array" and ("enum" in s.get("items", {}) or "anyOf" in s.get("items", {}))
        if s.get("type") not in _PRIMITIVES and not choices:
            raise TypeError(
                f'a form cannot ask for "{name}" of {_name(of)}: its fields are str, int, float, bool, '
                "Literal, Enum, or a list of Literal or Enum"
            )
    return {"type": "object", "properties": properties, "required": [n for n in properties if n in required]}
