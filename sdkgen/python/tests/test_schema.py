"""Schemas and descriptions from type hints and docstrings."""

import enum
import json
import sys
import typing
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from mcpbridge import App, Context, DefinitionError, Image, v1
from mcpbridge.testing import call


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Point:
    x: int
    y: int = 0


class Person(BaseModel):
    name: str = Field(min_length=1)
    age: int | None = None


class Box(TypedDict):
    width: float


class Node(BaseModel):
    children: list["Node"] = []


def tool_of(fn: Callable[..., Any], **options: Any) -> v1.Tool:
    app = App("test")
    app.add_tool(fn, **options)
    return app.list_tools(v1.ListToolsRequest()).tools[0]


@pytest.mark.parametrize(
    ("hint", "schema"),
    [
        (str, {"type": "string"}),
        (int, {"type": "integer"}),
        (float, {"type": "number"}),
        (bool, {"type": "boolean"}),
        (list[int], {"type": "array", "items": {"type": "integer"}}),
        (dict[str, float], {"type": "object", "additionalProperties": {"type": "number"}}),
        (int | None, {"anyOf": [{"type": "integer"}, {"type": "null"}]}),
        (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}),
        (
            Annotated[int, Field(ge=1, le=14, description="days")],
            {"type": "integer", "minimum": 1, "maximum": 14, "description": "days"},
        ),
        (Any, {}),
    ],
)
def test_argument_types(hint: Any, schema: dict[str, Any]) -> None:
    def f(a: Any) -> None: ...

    f.__annotations__["a"] = hint
    got = json.loads(tool_of(f).input_schema)
    assert got == {"type": "object", "properties": {"a": schema}, "required": ["a"], "additionalProperties": False}


def test_types_with_names_are_definitions() -> None:
    def f(p: Point, who: Person, box: Box, colour: Colour) -> None: ...

    schema = json.loads(tool_of(f).input_schema)
    assert schema["type"] == "object"
    assert sorted(schema["$defs"]) == ["Box", "Colour", "Person", "Point"]
    assert schema["$defs"]["Person"]["properties"]["name"] == {"type": "string", "minLength": 1}


def test_defaults() -> None:
    def f(
        a: int = 3,
        b: list[int] = [],  # noqa: B006
        c: int = Field(5, ge=1),
        d: str = Field(description="needed"),
    ) -> None: ...

    schema = json.loads(tool_of(f).input_schema)
    assert schema["properties"] == {
        "a": {"type": "integer", "default": 3},
        "b": {"type": "array", "items": {"type": "integer"}, "default": []},
        "c": {"type": "integer", "default": 5, "minimum": 1},
        "d": {"type": "string", "description": "needed"},
    }
    assert schema["required"] == ["d"]


async def test_defaults_arrive() -> None:
    app = App("test")

    @app.tool
    def f(json: str, copy: int = Field(5, ge=1), _x: int = 3) -> dict[str, Any]:
        return {"json": json, "copy": copy, "_x": _x}

    assert (await call(app, "f", {"json": "j"})).structured == {"json": "j", "copy": 5, "_x": 3}


def test_the_context_is_not_an_argument() -> None:
    def f(a: int, whatever: Context) -> None: ...

    assert list(json.loads(tool_of(f).input_schema)["properties"]) == ["a"]


GOOGLE = """Adds.

    All of it.

    Args:
        a: The first.
        b (int): The second,
            on two lines.

    Returns:
        The sum.
    """
NUMPY = """Adds.

    All of it.

    Parameters
    ----------
    a : int
        The first.
    b : int
        The second,
        on two lines.
    """
SPHINX = """Adds.

    All of it.

    :param a: The first.
    :param b: The second,
        on two lines.
    :returns: The sum.
    """


@pytest.mark.parametrize("doc", [GOOGLE, NUMPY, SPHINX])
def test_docstrings(doc: str) -> None:
    def f(a: int, b: int, c: int = 0) -> int:
        return a + b

    f.__doc__ = doc
    tool = tool_of(f)
    assert tool.description == "Adds.\n\nAll of it."
    properties = json.loads(tool.input_schema)["properties"]
    assert properties["a"]["description"] == "The first."
    assert properties["b"]["description"] == "The second,\non two lines."
    assert "description" not in properties["c"]


def test_a_description_in_the_hint_wins() -> None:
    def f(a: Annotated[int, Field(description="hint")]) -> None:
        """F.

        Args:
            a: doc
        """

    assert json.loads(tool_of(f).input_schema)["properties"]["a"]["description"] == "hint"


def test_options() -> None:
    def f() -> None: ...

    tool = tool_of(
        f,
        name="g",
        title="G",
        description="Gee.",
        read_only=True,
        destructive=False,
        icons=["https://x/i.png"],
        meta={"a": 1},
    )
    assert tool == v1.Tool(
        name="g",
        title="G",
        description="Gee.",
        input_schema='{"additionalProperties":false,"properties":{},"type":"object"}',
        annotations=v1.ToolAnnotations(read_only_hint=True, destructive_hint=False),
        icons=[v1.Icon(src="https://x/i.png")],
        meta='{"a":1}',
    )


@pytest.mark.parametrize(
    ("hint", "schema"),
    [
        (str, None),
        (None, None),
        (str | None, None),
        (Any, None),
        (Image, None),
        (list[str | Image], None),
        (int, {"type": "object", "properties": {"result": {"type": "integer"}}, "required": ["result"]}),
        (dict[str, int], {"type": "object", "additionalProperties": {"type": "integer"}}),
        (Box, {"type": "object", "properties": {"width": {"type": "number"}}, "required": ["width"]}),
    ],
)
def test_output_schemas(hint: Any, schema: Any) -> None:
    def f() -> Any: ...

    f.__annotations__["return"] = hint
    got = tool_of(f).output_schema
    assert (json.loads(got) if got else None) == schema


def test_the_output_schema_of_a_recursive_type_is_an_object() -> None:
    def f() -> Node:
        return Node()

    assert json.loads(tool_of(f).output_schema)["type"] == "object"


def test_the_output_schema_of_a_list_keeps_its_definitions() -> None:
    def f() -> list[Point]:
        return []

    schema = json.loads(tool_of(f).output_schema)
    assert schema["properties"]["result"] == {"type": "array", "items": {"$ref": "#/$defs/Point"}}
    assert "Point" in schema["$defs"]


class NotJson: ...


def no_hint(  # type: ignore[no-untyped-def]
    a: int,
    b,
) -> None: ...


def context_without_hint(a: int, ctx) -> None: ...  # type: ignore[no-untyped-def]


def default_without_hint(a=3) -> None: ...  # type: ignore[no-untyped-def]


def not_json(a: NotJson) -> None: ...


def not_json_out() -> NotJson:
    return NotJson()


def star(*args: int) -> None: ...


class Method:
    def method(self, a: int) -> None: ...


async def yields(n: int) -> AsyncIterator[int]:
    yield n


def undefined(a: "Nowhere") -> None: ...  # type: ignore[name-defined]  # noqa: F821


def line(fn: Callable[..., Any], plus: int = 0) -> str:
    return f"test_schema.py:{fn.__code__.co_firstlineno + plus}"


@pytest.mark.parametrize(
    ("fn", "message"),
    [
        (no_hint, f'{line(no_hint, 2)}: tool "no_hint": parameter "b" has no type hint; write b: str'),
        (
            context_without_hint,
            f'{line(context_without_hint)}: tool "context_without_hint": '
            'parameter "ctx" has no type hint; write ctx: Context',
        ),
        (
            default_without_hint,
            f'{line(default_without_hint)}: tool "default_without_hint": parameter "a" has no type hint; write a: int',
        ),
        (
            not_json,
            f'{line(not_json)}: tool "not_json": parameter "a" has a type that JSON cannot represent, NotJson; use str',
        ),
        (
            not_json_out,
            f'{line(not_json_out)}: tool "not_json_out": '
            "it returns a type that JSON cannot represent, NotJson; return str",
        ),
        (star, f'{line(star)}: tool "star": parameter *args: int cannot be passed by name'),
        (
            Method.method,
            f'{line(Method.method)}: tool "method": it is a method of a class; create an object, and use app.add',
        ),
        (yields, f'{line(yields)}: tool "yields": it yields, and a call has one result; return a list'),
        (undefined, f"{line(undefined)}: tool \"undefined\": a type hint is not defined here: name 'Nowhere'"),
    ],
)
def test_definition_errors_name_the_line(fn: Callable[..., Any], message: str) -> None:
    app = App("test")
    app.tool(fn)
    with pytest.raises(DefinitionError) as e:
        app.check()
    assert str(e.value).startswith(message)
    assert e.value.__cause__ is None
    assert e.value.__context__ is None


def test_a_name_is_there_once() -> None:
    app = App("test")
    app.tool(not_twice)
    app.tool(name="not_twice")(star_not)
    with pytest.raises(DefinitionError) as e:
        app.check()
    assert str(e.value) == f'{line(star_not)}: tool "not_twice" is already defined at {line(not_twice)}'


def not_twice() -> None: ...


def star_not() -> None: ...


def test_a_name_is_given_by_name() -> None:
    app: Any = App("test")

    app.tool("hello")(not_twice)
    app.prompt("hello")(not_twice)

    with pytest.raises(DefinitionError) as e:
        app.check()
    assert str(e.value).splitlines() == [
        f'{line(test_a_name_is_given_by_name, at)}: {kind} "hello": '
        f"pass the name by keyword; write @app.{kind}(name='hello')"
        for at, kind in ((3, "tool"), (4, "prompt"))
    ]


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="it can be read")
@pytest.mark.parametrize("takes", [True, False])
async def test_the_typed_dict_of_an_old_typing_is_named(takes: bool) -> None:
    class Old(typing.TypedDict):
        a: int

    def takes_one(a: Old) -> None: ...

    def returns_one() -> list[Old]:
        return []

    app = App("test")
    app.add_tool(takes_one if takes else returns_one)
    with pytest.raises(DefinitionError, match="has a TypedDict of typing before Python 3"):
        app.check()

    async def asks(ctx: Context) -> None:
        await ctx.elicit("Which?", Old)

    app = App("test")
    app.add_tool(asks)
    assert 'write "from typing_extensions import TypedDict"' in (await call(app, "asks")).text


async def test_the_context_may_have_a_default() -> None:
    app = App("test")

    @app.tool
    def who(name: str, ctx: Context | None = None) -> str:
        return f"{name} {ctx is not None}"

    assert (await call(app, "who", {"name": "Ada"})).text == "Ada True"


def test_a_name_is_plain() -> None:
    app = App("test")
    app.tool(name="no spaces")(not_twice)
    with pytest.raises(DefinitionError, match="a name is 1 to 128 letters"):
        app.check()


async def test_validation_errors_name_each_field_and_the_signature() -> None:
    app = App("test")

    @app.tool
    def forecast(
        city: Annotated[str, Field(min_length=1)],
        days: Annotated[int, Field(ge=1, le=14)] = 3,
        units: Literal["metric", "imperial"] = "metric",
        points: list[Point] = [],  # noqa: B006
    ) -> str:
        return city

    got = await call(app, "forecast", {"days": 15, "unit": "metric", "points": [{"x": "one"}]})
    assert got.is_error
    assert got.text == (
        "forecast: the arguments are invalid.\n"
        "- city: is required\n"
        "- days: Input should be less than or equal to 14, got 15\n"
        '- points.0.x: Input should be a valid integer, unable to parse string as an integer, got "one"\n'
        "- unit: does not exist; did you mean units?\n"
        'Usage: forecast(city: string, days: integer 1..14 = 3, units: "metric" | "imperial" = "metric", '
        "points: Point[] = [])"
    )


async def test_every_digit_arrives() -> None:
    app = App("test")

    @app.tool
    def same(n: int) -> int:
        return n

    got = await call(app, "same", {"n": 9007199254740993})
    assert got.result.structured_content == b'{"result":9007199254740993}'
