"""Formats of strings in JSON Schema. All SDKs accept the same values: sdkgen/testdata/formats.json."""

import datetime
import ipaddress
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

Object = dict[str, Any]
Location = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Format:
    """A format: its description for messages, and its check."""

    description: str  # "must be a date such as 2026-01-31"
    test: Callable[[str], object]


def _matches(pattern: str) -> Callable[[str], object]:
    return re.compile(pattern).fullmatch


def _parses(parse: Callable[[str], object]) -> Callable[[str], bool]:
    def parses(text: str) -> bool:
        try:
            parse(text)
        except ValueError:
            return False
        return True

    return parses


def _all(*checks: Callable[[str], object]) -> Callable[[str], bool]:
    return lambda text: all(check(text) for check in checks)


_DATE = "[0-9]{4}-[0-9]{2}-[0-9]{2}"
_TIME = r"([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,9})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])"
_USER = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
_NAME = "[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_PATH = r"([A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})"  # A character of a path.
_is_day = _parses(lambda text: datetime.date.fromisoformat(text[:10]))

FORMATS = {
    "date": Format("a date such as 2026-01-31", _all(_matches(_DATE), _is_day)),
    "time": Format("a time with an offset such as 14:30:00Z", _matches(_TIME)),
    "date-time": Format(
        "a date and time with an offset such as 2026-01-31T14:30:00Z", _all(_matches(f"{_DATE}T{_TIME}"), _is_day)
    ),
    "duration": Format(
        "an ISO 8601 duration such as P1DT12H",
        _matches(
            "P(?!$)([0-9]+W|([0-9]+Y)?([0-9]+M)?([0-9]+D)?(T(?=[0-9])([0-9]+H)?([0-9]+M)?([0-9]+S)?)?)",
        ),
    ),
    "email": Format("an email address such as ada@example.com", _matches(rf"{_USER}(\.{_USER})*@({_NAME}\.)+{_NAME}")),
    "hostname": Format("a host name such as www.example.com", _matches(rf"(?!.{{254}}){_NAME}(\.{_NAME})*")),
    "ipv4": Format("an IPv4 address such as 192.0.2.1", _parses(ipaddress.IPv4Address)),
    "ipv6": Format(
        "an IPv6 address such as 2001:db8::1", _all(_matches("[0-9A-Fa-f:.]+"), _parses(ipaddress.IPv6Address))
    ),
    "uri": Format(
        "a URI such as https://example.com/a",
        _matches(
            "[A-Za-z][A-Za-z0-9+.-]*:"
            r"(//(([A-Za-z0-9._~!$&'()*+,;=:-]|%[0-9A-Fa-f]{2})*@)?"
            r"(\[[0-9A-Fa-f:.]+\]|([A-Za-z0-9._~!$&'()*+,;=-]|%[0-9A-Fa-f]{2})*)(:[0-9]*)?"
            f"(/{_PATH}*)*|/({_PATH}+(/{_PATH}*)*)?|{_PATH}+(/{_PATH}*)*)"
            rf"(\?({_PATH}|[/?])*)?(#({_PATH}|[/?])*)?"
        ),
    ),
    "uuid": Format(
        "a UUID such as 123e4567-e89b-12d3-a456-426614174000",
        _matches("[0-9A-Fa-f]{8}-([0-9A-Fa-f]{4}-){3}[0-9A-Fa-f]{12}"),
    ),
}

# The schemas of types without an offset, for which RFC 3339 has no format.
LOCAL_DATE_TIME = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,9})?)?$"
LOCAL_TIME = r"^[0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,9})?)?$"
_FORMATS_AND_PATTERNS = {
    **FORMATS,
    **{p: Format(f"text that matches {p}", _matches(p)) for p in (LOCAL_DATE_TIME, LOCAL_TIME)},
}

Check = Callable[[Any], dict[Location, str]]


def check_of(schema: Object) -> Check | None:
    """Returns a function that returns the format violations of a value by path, or None if the schema has no format."""
    if not _has_formats(schema):
        return None
    return lambda value: dict(_violations(schema, value, schema, ()))


def _has_formats(schema: Any) -> bool:
    if isinstance(schema, dict):
        return _format_of(schema) is not None or any(map(_has_formats, schema.values()))
    return isinstance(schema, list) and any(map(_has_formats, schema))


def _format_of(schema: Object) -> Format | None:
    by = schema.get("format", schema.get("pattern"))
    return _FORMATS_AND_PATTERNS.get(by) if isinstance(by, str) else None


def _resolved(schema: Any, root: Object) -> Object:
    while isinstance(schema, dict) and "$ref" in schema:
        schema = root.get("$defs", {}).get(schema["$ref"].rpartition("/")[2], {})
    return schema if isinstance(schema, dict) else {}


def _violations(schema: Any, value: Any, root: Object, at: Location) -> Iterator[tuple[Location, str]]:
    schema = _resolved(schema, root)
    for alternatives in (schema.get("anyOf"), schema.get("oneOf")):
        each = [
            list(_violations(s, value, root, at)) for s in alternatives or () if _is_type(_resolved(s, root), value)
        ]
        if each and all(each):
            yield from each[0]
    if isinstance(value, str):
        expected = _format_of(schema)
        if expected and not expected.test(value):
            yield at, f"must be {expected.description}"
    elif isinstance(value, dict):
        properties = schema.get("properties", {})
        for name, v in value.items():
            yield from _violations(properties.get(name, schema.get("additionalProperties")), v, root, (*at, name))
    elif isinstance(value, list):
        prefix = schema.get("prefixItems", ())
        for i, v in enumerate(value):
            yield from _violations(prefix[i] if i < len(prefix) else schema.get("items"), v, root, (*at, i))


_TYPES: dict[str, type | tuple[type, ...]] = {
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "object": dict,
    "array": list,
    "null": type(None),
}


def _is_type(schema: Object, value: Any) -> bool:
    return isinstance(value, _TYPES.get(schema.get("type", ""), object))
