"""Formats of strings in JSON Schema, which accept the same values in the SDKs of all languages."""

import json
import re
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta, timezone
from ipaddress import IPv4Network
from pathlib import Path
from typing import Annotated, Any
from uuid import UUID

import pytest
from pydantic import AnyUrl, Field, NaiveDatetime

from mcpbridge import App, Context, DefinitionError
from mcpbridge.formats import FORMATS, LOCAL_DATE_TIME, LOCAL_TIME
from mcpbridge.testing import call

TABLE: dict[str, Any] = json.loads((Path(__file__).parents[2] / "testdata" / "formats.json").read_text())
Email = Annotated[str, Field(json_schema_extra={"format": "email"})]


def test_the_formats_are_those_of_the_shared_table() -> None:
    assert {name: f.description for name, f in FORMATS.items()} == {
        name: f["is"] for name, f in TABLE["formats"].items()
    }
    assert [p["pattern"] for p in TABLE["patterns"].values()] == [LOCAL_DATE_TIME, LOCAL_TIME]


@pytest.mark.parametrize("name", TABLE["formats"])
def test_a_format_accepts_the_values_of_the_shared_table(name: str) -> None:
    of, fits = TABLE["formats"][name], FORMATS[name].test
    assert [v for v in of["accepts"] if not fits(v)] == []
    assert [v for v in of["refuses"] if fits(v)] == []


@pytest.mark.parametrize("name", TABLE["patterns"])
def test_a_pattern_accepts_the_values_of_the_shared_table(name: str) -> None:
    of = TABLE["patterns"][name]
    assert [v for v in of["accepts"] if not re.search(of["pattern"], v)] == []
    assert [v for v in of["refuses"] if re.search(of["pattern"], v)] == []


@dataclass
class Event:
    day: date
    at: datetime | None = None
    mails: list[Email] = field(default_factory=list)


async def test_formats_of_arguments_are_checked() -> None:
    app = App("test")

    @app.tool
    def plan(
        event: Event, lasts: timedelta = timedelta(hours=1), where: AnyUrl | None = None, of: UUID | int = 1
    ) -> str:
        return f"{event.day:%d.%m.%Y} {lasts} {where} {of}"

    right = {
        "event": {"day": "2026-01-31", "at": "2026-01-31T14:30:00Z"},
        "lasts": "PT2H",
        "where": "https://a.example/",
    }
    assert (await call(app, "plan", right)).text == "31.01.2026 2:00:00 https://a.example/ 1"
    # Pydantic accepts these, but other validators of JSON Schema do not.
    event = {"day": "2026-01-31T00:00:00", "at": "2026-01-31 14:30:00", "mails": ["ada@example.com", "ada"]}
    called = await call(app, "plan", {"event": event, "lasts": "PT1.5S", "where": "somewhere", "of": "x"})
    assert called.is_error
    for line in (
        '- event.day: must be a date such as 2026-01-31, got "2026-01-31T00:00:00"',
        '- event.at: must be a date and time with an offset such as 2026-01-31T14:30:00Z, got "2026-01-31 14:30:00"',
        '- event.mails.1: must be an email address such as ada@example.com, got "ada"',
        '- lasts: must be an ISO 8601 duration such as P1DT12H, got "PT1.5S"',
        '- where: must be a URI such as https://example.com/a, got "somewhere"',
    ):
        assert called.text.splitlines().count(line) == 1, called.text


async def test_formats_of_results_are_checked() -> None:
    """Official clients reject a value that violates a format in the tool's own schema."""
    app = App("test")

    @app.tool
    def events(at: str) -> list[Event]:
        return [Event(date(2026, 1, 31), datetime.fromisoformat(at), ["ada@example.com"])]

    @app.tool
    def mail() -> dict[str, Email]:
        return {"ada": "ada"}

    assert not (await call(app, "events", {"at": "2026-01-31T14:30:00+02:00"})).is_error
    assert (await call(app, "events", {"at": "2026-01-31T14:30:00"})).text == (
        "the tool returned what its return type does not allow:\n"
        '- 0.at: must be a date and time with an offset such as 2026-01-31T14:30:00Z, got "2026-01-31T14:30:00"'
    )
    assert '- ada: must be an email address such as ada@example.com, got "ada"' in (await call(app, "mail")).text


async def test_formats_of_answers_are_checked() -> None:
    app = App("test")

    @app.tool
    async def ask(ctx: Context) -> str:
        return f"{(await ctx.elicit('When?', date)).data}"

    assert (await call(app, "ask", answers=["2026-01-31"])).text == "2026-01-31"
    wrong = (await call(app, "ask", answers=["1769817600"])).text
    assert 'value: must be a date such as 2026-01-31, got "1769817600"' in wrong


async def test_types_without_an_offset_have_no_format() -> None:
    app = App("test")

    @app.tool
    def at(day: NaiveDatetime, hour: time) -> time:
        return hour

    tool = app._tools["at"].message
    properties = json.loads(tool.input_schema)["properties"]
    assert properties == {
        "day": {"type": "string", "pattern": LOCAL_DATE_TIME},
        "hour": {"type": "string", "pattern": LOCAL_TIME},
    }
    assert json.loads(tool.output_schema)["properties"]["result"] == {"type": "string", "pattern": LOCAL_TIME}
    assert (await call(app, "at", {"day": "2026-01-31T14:30", "hour": "14:30:00"})).structured == {"result": "14:30:00"}
    got = await call(app, "at", {"day": "2026-01-31T14:30", "hour": "14:30:00Z"})
    assert "hour: must be text that matches" in got.text


SEVEN: Any = "seven"
NONE: Any = None
NAIVE = datetime(2026, 1, 31)


def number(a: int = SEVEN) -> None: ...


def nothing(
    b: bool = True,
    a: str = NONE,
) -> None: ...


def bound(a: Annotated[int, Field(ge=1)] = 0) -> None: ...


def described(a: int = Field(SEVEN)) -> None: ...


def naive(a: datetime = NAIVE) -> None: ...


@pytest.mark.parametrize(
    ("fn", "line", "message"),
    [
        (number, 0, 'parameter "a": the default "seven" is invalid: must be a valid integer'),
        (
            nothing,
            2,
            'parameter "a": the default null is invalid: must be a valid string; write a: str | None',
        ),
        (bound, 0, 'parameter "a": the default 0 is invalid: must be greater than or equal to 1'),
        (described, 0, 'parameter "a": the default "seven" is invalid: must be a valid integer'),
        (
            naive,
            0,
            'parameter "a": the default "2026-01-31T00:00:00" is invalid: '
            "must be a date and time with an offset such as",
        ),
    ],
)
def test_a_default_fits_its_type(fn: Any, line: int, message: str) -> None:
    app = App("test")
    app.tool(fn)
    with pytest.raises(DefinitionError) as e:
        app.check()
    at = f"test_formats.py:{fn.__code__.co_firstlineno + line}"
    assert str(e.value).startswith(f'{at}: tool "{fn.__name__}": {message}')


def extra(name: str) -> Any:
    return Field(json_schema_extra={"format": name})


@dataclass
class Trip:
    days: list[Annotated[str, extra("dat")]]


def unknown(
    n: int,
    day: Annotated[str, extra("dat")],
) -> None: ...


def unknown_beside_a_default(day: str | None = Field(None, json_schema_extra={"format": "dat"})) -> None: ...


def unknown_inside(trip: Trip | None = None) -> None: ...


def unknown_result() -> Trip: ...  # type: ignore[empty-body]


def unlike_any(a: Annotated[str, extra("telephone")]) -> None: ...


@pytest.mark.parametrize(
    ("fn", "line", "message"),
    [
        (unknown, 2, 'parameter "day" has a format that does not exist, "dat"; did you mean date?'),
        (unknown_beside_a_default, 0, 'parameter "day" has a format that does not exist, "dat"; did you mean date?'),
        (unknown_inside, 0, 'parameter "trip" has a format that does not exist, "dat"; did you mean date?'),
        (unknown_result, 0, 'it has a format that does not exist, "dat"; did you mean date?'),
        (unlike_any, 0, f'parameter "a" has a format that does not exist, "telephone"; there are {", ".join(FORMATS)}'),
    ],
)
def test_an_unknown_format_is_rejected_with_its_line(fn: Any, line: int, message: str) -> None:
    app = App("test")
    app.tool(fn)
    with pytest.raises(DefinitionError) as e:
        app.check()
    assert str(e.value) == f'test_formats.py:{fn.__code__.co_firstlineno + line}: tool "{fn.__name__}": {message}'


def several(
    n: int = SEVEN,
    day: Annotated[str, extra("dat")] = "",
    right: int = 1,
) -> None: ...


def test_all_mistakes_of_a_function_are_reported() -> None:
    app = App("test")
    app.tool(readonly=True)(several)  # type: ignore[call-overload]
    with pytest.raises(DefinitionError) as e:
        app.check()
    line = several.__code__.co_firstlineno
    first, *others = str(e.value).splitlines()
    assert first.endswith(': tool "several": there is no option "readonly"; did you mean read_only?')
    assert others == [
        f'test_formats.py:{line + 1}: tool "several": parameter "n": the default "seven" is invalid: '
        "must be a valid integer",
        f'test_formats.py:{line + 2}: tool "several": parameter "day" has a format that does not exist, "dat";'
        " did you mean date?",
    ]


async def test_a_form_has_known_formats() -> None:
    app = App("test")

    @app.tool
    async def ask(ctx: Context) -> None:
        await ctx.elicit("When?", Annotated[str, extra("dat")])

    assert 'the form has a format that does not exist, "dat"; did you mean date?' in (await call(app, "ask")).text


def test_formats_of_pydantic_are_no_mistake() -> None:
    app = App("test")

    @app.tool
    def f(path: Path, network: IPv4Network, day: Annotated[date, extra("date")]) -> dict[str, Path]:
        return {"path": path}

    app.check()


def test_defaults_that_are_not_json_but_fit() -> None:
    app = App("test")

    @app.tool
    def f(
        event: Event = Event(date(2026, 1, 31)),  # noqa: B008
        path: Path = Path(),
        lasts: timedelta = timedelta(hours=1),
        aware: datetime = datetime(2026, 1, 31, tzinfo=timezone.utc),
        some: tuple[int, ...] = (),
        number: float = 1,
        anything: Any = object(),  # noqa: B008
    ) -> None: ...

    app.check()


async def test_the_usage_shows_formats_and_bounds() -> None:
    app = App("test")

    @app.tool
    def f(day: date, n: Annotated[int, Field(ge=1, le=14)] = 3, share: Annotated[float, Field(gt=0)] = 0.5) -> None: ...

    usage = (await call(app, "f")).text.splitlines()[-1]
    assert usage == "Usage: f(day: date, n: integer 1..14 = 3, share: number > 0 = 0.5)"
