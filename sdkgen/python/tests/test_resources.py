"""Resources: contents, URI templates, unknown URIs."""

import enum
import random
import re
import time
from dataclasses import dataclass
from typing import Any, Literal

import grpc
import pytest

from mcpbridge import App, Context, DefinitionError, Image, McpError, NotFound, ToolError, v1
from mcpbridge.handlers import StatusError
from mcpbridge.template import Template
from mcpbridge.testing import complete, read


@dataclass
class Point:
    x: int


U = "test://it"
Contents = v1.ResourceContents


@pytest.mark.parametrize(
    ("value", "contents"),
    [
        ("hello", [Contents(uri=U, mime_type="text/plain", text="hello")]),
        (b"\0", [Contents(uri=U, mime_type="application/octet-stream", blob=b"\0")]),
        (bytearray(b"b"), [Contents(uri=U, mime_type="application/octet-stream", blob=b"b")]),
        ({"a": 1}, [Contents(uri=U, mime_type="application/json", text='{"a":1}')]),
        ([1, 2], [Contents(uri=U, mime_type="application/json", text="[1,2]")]),
        (Point(3), [Contents(uri=U, mime_type="application/json", text='{"x":3}')]),
        (Image(b"i"), [Contents(uri=U, mime_type="image/png", blob=b"i")]),
        (Contents(uri="test://other", text="t"), [Contents(uri="test://other", text="t")]),
        ([Contents(text="t"), "s"], [Contents(uri=U, text="t"), Contents(uri=U, mime_type="text/plain", text="s")]),
        (v1.ReadResourceResult(contents=[Contents(uri="x:y")]), [Contents(uri="x:y")]),
    ],
)
async def test_contents(value: Any, contents: list[v1.ResourceContents]) -> None:
    app = App("test")

    @app.resource(U)
    def sync() -> Any:
        return value

    assert list((await read(app, U)).result.contents) == contents


async def test_the_media_type_that_is_listed_counts() -> None:
    app = App("test")

    @app.resource("test://{kind}", mime_type="text/csv")
    async def anything(kind: str) -> Any:
        return {"text": "a,b", "json": {}, "own": Contents(mime_type="text/x", text="")}[kind]

    types = [(await read(app, f"test://{kind}")).result.contents[0].mime_type for kind in ("text", "json", "own")]
    assert types == ["text/csv", "text/csv", "text/x"]


def test_lists() -> None:
    app = App("test", cache_ttl=1.5, cache_scope="public")
    annotations = v1.Annotations(audience=["user"], priority=0.5)

    @app.resource(
        "test://static",
        title="T",
        mime_type="text/plain",
        size=3,
        annotations=annotations,
        icons=["https://x/i.png"],
        meta={"a": 1},
    )
    def static() -> str:
        """Three letters."""
        return "abc"

    @app.resource("weather://{city}", name="weather", description="Given.")
    def of_city(city: str) -> str:
        return city

    listed = app.list_resources(v1.ListResourcesRequest())
    assert listed == v1.ListResourcesResponse(
        resources=[
            v1.Resource(
                uri="test://static",
                name="static",
                title="T",
                description="Three letters.",
                mime_type="text/plain",
                size=3,
                annotations=annotations,
                icons=[v1.Icon(src="https://x/i.png")],
                meta='{"a":1}',
            )
        ],
        ttl_ms=1500,
        cache_scope="public",
    )
    templates = app.list_resource_templates(v1.ListResourceTemplatesRequest())
    assert list(templates.resource_templates) == [
        v1.ResourceTemplate(uri_template="weather://{city}", name="weather", description="Given.")
    ]
    assert templates.ttl_ms == 1500
    # They can still be called.
    assert (static(), of_city("Rome")) == ("abc", "Rome")


async def test_cache_hints_of_contents() -> None:
    app = App("test", cache_ttl=60)

    @app.resource("test://a", cache_ttl=2, cache_scope="private")
    def a() -> str:
        return "a"

    @app.resource("test://b")
    def b() -> str:
        return "b"

    @app.resource("test://c", cache_ttl=2)
    def c() -> v1.ReadResourceResult:
        return v1.ReadResourceResult(ttl_ms=0)

    got = (await read(app, "test://a")).result
    assert (got.ttl_ms, got.cache_scope) == (2000, "private")
    assert not (await read(app, "test://b")).result.HasField("ttl_ms")
    assert (await read(app, "test://c")).result.ttl_ms == 0


@pytest.mark.parametrize(
    ("template", "uri", "values"),
    [
        ("weather://{city}", "weather://Rome", {"city": "Rome"}),
        ("weather://{city}", "weather://S%C3%A3o%20Paulo", {"city": "São Paulo"}),
        ("weather://{city}", "weather://AC%2FDC", {"city": "AC/DC"}),
        ("weather://{city}", "weather://a/b", None),
        ("weather://{city}", "weather://", None),
        ("weather://{city}", "weather://a?b", None),
        ("test://{a}/x/{b}.txt", "test://1/x/2.txt", {"a": "1", "b": "2"}),
        ("test://{a}/x/{b}.txt", "test://1/x/2xtxt", None),
        ("file:///{+path}", "file:///a/b.txt", {"path": "a/b.txt"}),
        ("file:///{+path}", "file:///a..b/c", {"path": "a..b/c"}),
        # Values cannot leave their directory.
        ("file:///{+path}", "file:///../b", None),
        ("file:///{+path}", "file:///a/%2e%2e/b", None),
        ("file:///{name}", "file:///..%2Fb", None),
        ("file:///{name}", "file:///..%5Cb", None),
        ("file:///{name}", "file:///a%00", None),
        ("find://{table}{?limit,where}", "find://t", {"table": "t"}),
        ("find://{table}{?limit,where}", "find://t?where=a%3D1&limit=3", {"table": "t", "limit": "3", "where": "a=1"}),
        ("find://{table}{?limit,where}", "find://t?other=1&limit=", {"table": "t", "limit": ""}),
        ("weather://{city}", "weather://" + "x" * 5000, None),
        # A path ends where a query may begin.
        ("file:///{+path}{?raw}", "file:///a/b?raw=1", {"path": "a/b", "raw": "1"}),
        ("file:///{+path}{?raw}{#line}", "file:///a?raw=1#L2", {"path": "a", "raw": "1", "line": "L2"}),
        ("file:///{+path}{#line}", "file:///a?b#L2", {"path": "a?b", "line": "L2"}),
        ("file:///{+path}", "file:///a?b#c", {"path": "a?b#c"}),
        ("find://{table}{?limit}{&where}", "find://t?where=w&limit=3", {"table": "t", "limit": "3", "where": "w"}),
        ("find://{table}?all=1{&limit}", "find://t?all=1&limit=3", {"table": "t", "limit": "3"}),
        ("find://{table}?all=1{&limit}", "find://t?all=1", {"table": "t"}),
        # The examples of RFC 6570, backwards.
        ("map:{x,y}", "map:1024,768", {"x": "1024", "y": "768"}),
        ("map:{x,y}", "map:1024", {"x": "1024"}),
        ("map:{x,y}", "map:1,2,3", None),
        ("a:{+x,y}/here", "a:1024,768/here", {"x": "1024", "y": "768"}),
        ("a:b{#x}", "a:b#foo/bar", {"x": "foo/bar"}),
        ("a:www{.x,y}", "a:www.example.com", {"x": "example", "y": "com"}),
        ("a:X{.ext}", "a:X.tar.gz", {"ext": "tar.gz"}),
        ("a:{name}{.ext}", "a:X.tar.gz", {"name": "X.tar.gz"}),
        ("a:{/x,y}/here", "a:/1/2/here", {"x": "1", "y": "2"}),
        ("a:{/x,y}/here", "a:/1/here", {"x": "1"}),
        ("a:{/x,y}/here", "a:/here", {}),
        ("a:{/x,y}", "a:/1/2/3", None),
        ("a:{/x}{/y}", "a:/1", {"x": "1"}),
        ("a:p{;x,y}", "a:p;y=2;x", {"x": "", "y": "2"}),
        ("a:p{;x,y}/q", "a:p/q", {}),
        ("a:p{;x}/q", "a:p;x=%2F1/q", {"x": "/1"}),
        ("a:{x}.{y}", "a:1.2.3", {"x": "1.2", "y": "3"}),
        ("a:{/x}", "a:/..", None),
    ],
)
def test_templates(template: str, uri: str, values: dict[str, str] | None) -> None:
    assert Template(template).match(uri) == values


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("a:{b*}", "{b*} cannot be matched; {+b} has slashes in it; there are {a}, {a,b}, {+path}"),
        ("a:{b:3}", "{b:3} cannot be matched; there are {a}, {a,b}, {+path}"),
        ("a:{|b}", "{|b} cannot be matched"),
        ("a:{}", "{} cannot be matched"),
        ("a:{b", "unmatched brace"),
        ("a:b}", "unmatched brace"),
        ("a:{b}/{b}", "duplicate variable {b}"),
        ("a:{b}{c}", "{c} must be separated from the variable before it"),
    ],
)
def test_templates_that_cannot_be_matched(template: str, message: str) -> None:
    with pytest.raises(ValueError, match=r"^.*") as e:
        Template(template)
    assert message in str(e.value)


def test_matching_takes_linear_time() -> None:
    template = Template("a:" + ".".join(f"{{v{i}}}" for i in range(8)) + "/end")
    start_time = time.process_time()
    assert template.match("a:" + "." * 4000) is None
    assert template.match("a:" + "x." * 2000) is None
    assert time.process_time() - start_time < 2  # A regular expression would take years.


def test_values_are_those_of_a_regular_expression() -> None:
    random.seed(6570)
    value = {"": "[^/?#]+", "+": "(?s:.+)", "/": "[^/?#]+", ".": "[^/?#]+"}
    matched = 0
    for _ in range(10_000):
        template = pattern = ""
        for i in range(random.randint(1, 4)):
            operator, literal = random.choice([*value]), random.choice(["a", "/", "b.", "a/"])
            template += f"{literal}{{{operator}v{i}}}"
            optional = f"(?:{re.escape(operator)}(?P<v{i}>{value[operator]}))?"
            pattern += re.escape(literal) + (
                optional if operator in "/." and operator else f"(?P<v{i}>{value[operator]})"
            )
        uri = "".join(random.choices("ab./", k=random.randint(1, 9)))
        found = re.fullmatch(pattern, uri)
        expected = {name: v for name, v in found.groupdict().items() if v is not None} if found else None
        if expected and any(".." in v.split("/") for v in expected.values()):
            expected = None
        assert Template(template).match(uri) == expected, (template, uri)
        matched += expected is not None
    assert matched > 100


async def test_variables_have_types() -> None:
    app = App("test")

    class Unit(enum.Enum):
        METRIC = "metric"
        IMPERIAL = "imperial"

    @app.resource("row://{table}/{id}{?unit,deep}")
    async def row(table: str, id: int, ctx: Context, unit: Unit = Unit.METRIC, deep: bool = False) -> str:  # noqa: A002
        return f"{table} {id + 1} {unit.name} {deep} {ctx.protocol_version}"

    @app.resource("row://{table}/first")
    async def first(table: str) -> str:
        return f"first of {table}"

    assert (await read(app, "row://t/7")).text == "t 8 METRIC False 2026-07-28"
    assert (await read(app, "row://t/7?unit=imperial&deep=true")).text == "t 8 IMPERIAL True 2026-07-28"
    assert (await read(app, "row://t/first")).text == "first of t"
    with pytest.raises(StatusError) as e:
        await read(app, "row://t/last")
    assert e.value.code == grpc.StatusCode.NOT_FOUND


async def test_what_does_not_exist_is_not_found() -> None:
    app = App("test")

    @app.resource("test://static")
    def static() -> str:
        return ""

    @app.resource("user://{id}")
    def user(id: str) -> str:  # noqa: A002
        raise NotFound(f"there is no user {id!r}")

    with pytest.raises(StatusError, match="there is no resource 'test://statik'; did you mean 'test://static'") as e:
        await read(app, "test://statik")
    assert e.value.code == grpc.StatusCode.NOT_FOUND
    with pytest.raises(StatusError, match="there is no user 'ada'") as e:
        await read(app, "user://ada")
    assert e.value.code == grpc.StatusCode.NOT_FOUND


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (ToolError("no luck"), -32603, "no luck"),
        (ValueError("bad"), -32603, "bad"),
        (McpError(-32042, "exact"), -32042, "exact"),
    ],
)
async def test_an_exception_is_an_error_for_the_client(error: Exception, code: int, message: str) -> None:
    app = App("test")

    @app.resource("test://x")
    def fails() -> str:
        raise error

    with pytest.raises(McpError) as e:
        await read(app, "test://x")
    assert (e.value.code, e.value.message) == (code, message)


async def test_nothing_is_no_content(caplog: pytest.LogCaptureFixture) -> None:
    app = App("test")

    @app.resource("test://x")
    def nothing() -> Any:
        return None

    with pytest.raises(McpError, match="raise NotFound if there is no such resource"):
        await read(app, "test://x")
    assert 'resource "test://x" failed' in caplog.text


async def test_a_resource_can_ask_and_notify() -> None:
    app = App("test")

    @app.resource("test://x")
    async def asks(ctx: Context) -> str:
        await ctx.progress(1, 2)
        ctx.log.info("looking")
        return (await ctx.elicit("Which?", str)).data

    got = await read(app, "test://x", answers=["this"])
    assert (got.text, got.rounds, len(got.progress), len(got.logs)) == ("this", 2, 2, 2)


def define(uri: str, fn: Any) -> str:
    app = App("test")
    app.resource(uri)(fn)
    with pytest.raises(DefinitionError) as e:
        app.check()
    return str(e.value)


def test_definitions_that_cannot_work() -> None:
    def none() -> str:
        return ""

    def of_city(city: str) -> str:
        return ""

    def of_list(city: list[str]) -> str:
        return ""

    line = none.__code__.co_firstlineno
    assert define("test://{city}", none) == (
        f'test_resources.py:{line}: resource "test://{{city}}": there is no parameter for {{city}}; write city: str'
    )
    assert 'the URI has no variable {city} for parameter "city"' in define("test://x", of_city)
    assert '"city" may be missing; give it a default' in define("test://x{?city}", of_city)
    assert 'parameter "city" has a type that text cannot represent' in define("test://{city}", of_list)
    assert "{city*} cannot be matched" in define("test:/{city*}", of_city)
    assert "a URI starts with a scheme" in define("{city}", of_city)
    app = App("test")
    app.add_resource("test://x", none)
    app.add_resource("test://x", none)
    with pytest.raises(DefinitionError, match='resource "test://x" is already defined'):
        app.check()


async def test_variables_are_completed() -> None:
    app = App("test")

    @app.resource("weather://{country}/{city}{?unit}")
    def weather(country: str, city: str, unit: Literal["metric", "imperial"] = "metric") -> str:
        return ""

    @weather.complete("city")
    def cities(value: str, country: str) -> list[str]:
        return [c for c in {"it": ["Rome", "Milan"], "fr": ["Paris"]}[country] if c.startswith(value)]

    @app.resource("test://x")
    def static() -> str:
        return ""

    template = "weather://{country}/{city}{?unit}"
    assert await complete(app, template, "city", others={"country": "it"}) == ["Rome", "Milan"]
    assert await complete(app, template, "city", "R", others={"country": "it"}) == ["Rome"]
    assert await complete(app, template, "city") == []  # The completion requires the country.
    assert await complete(app, template, "unit", "I") == ["imperial"]
    assert await complete(app, template, "country") == []
    assert await complete(app, "test://x", "city") == []
    with pytest.raises(StatusError, match="there is no resource template"):
        await complete(app, "test://{y}", "city")
