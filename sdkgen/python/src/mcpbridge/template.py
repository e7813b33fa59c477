"""Matches URIs against URI templates of RFC 6570, and returns the values of the variables.

No Python library for URI templates supports this. Level 3 is supported: `{a}` and `{a,b}`, `{+path}`,
`{#part}`, `{.ext}`, `{/a,b}`, `{;a,b}`, `{?a,b}` and `{&a,b}`. Level 4, `{a:3}` and `{a*}`, is not.
"""

import functools
import re
from bisect import bisect_right
from dataclasses import dataclass, replace
from urllib.parse import parse_qsl, unquote

_EXPRESSION = re.compile(r"\{([^{}]*)\}")
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")

# The maximum length of a URI in characters.
_MAX_URI = 4096


@dataclass(frozen=True, slots=True)
class _Piece:
    """A part of a template: literal text, and an optional value after it."""

    literal: str
    ends_at: str | None = None  # Characters that end the value. If None, there is no value.
    names: tuple[str, ...] = ()  # Several only if the value contains names: a=1&b=2.
    separator: str = ""  # Separates the names.
    may_be_missing: bool = False

    @property
    def min_length(self) -> int:
        return 0 if self.separator else 1

    def latest_end(self, uri: str, at: int) -> int:
        """Returns the latest end of a value that starts at a position."""
        found = _any_of(self.ends_at).search(uri, at) if self.ends_at else None
        return found.start() if found else len(uri)

    def starts(self, uri: str, ends: list[int]) -> list[int]:
        """Returns the positions where the piece can start, given where it can end. Both are in ascending order."""
        starts = set(ends) if self.may_be_missing else set()
        if self.ends_at is None:
            starts.update(end - len(self.literal) for end in ends if uri.endswith(self.literal, 0, end))
            return sorted(starts)
        at = 0
        while at <= len(uri):
            # All values that start in a run can extend to its end, so its last end position suffices.
            limit = self.latest_end(uri, at)
            last = bisect_right(ends, limit) - 1
            if last >= 0:
                values = range(at, ends[last] - self.min_length + 1)
                if self.literal:
                    starts.update(v - len(self.literal) for v in values if uri.endswith(self.literal, 0, v))
                else:
                    starts.update(values)
            at = limit + 1
        return sorted(starts)

    def values(self, value: str) -> dict[str, str]:
        if not self.separator:
            return {self.names[0]: unquote(value)}
        if self.separator == "&":
            values = dict(parse_qsl(value, keep_blank_values=True))
        else:
            pairs = [pair.partition("=") for pair in value.split(self.separator)]
            values = {unquote(name): unquote(text) for name, _, text in pairs}
        return {name: values[name] for name in self.names if name in values}


@functools.lru_cache
def _any_of(characters: str) -> re.Pattern[str]:
    return re.compile(f"[{re.escape(characters)}]")


class Template:
    """A URI template. Raises ValueError if it is invalid or not supported."""

    def __init__(self, template: str) -> None:
        self.variables: list[str] = []
        self.optional: list[str] = []  # Variables of `{?a,b}` and similar operators.
        self._pieces: list[_Piece] = []
        end = 0
        for expression in _EXPRESSION.finditer(template):
            literal, text = template[end : expression.start()], expression[1]
            operator = text[:1] if text[:1] in tuple("+#./;?&") else ""
            if operator in ("", "+") and not literal and end:
                raise ValueError(f"{{{text}}} must be separated from the variable before it")
            end = expression.end()
            self._literal(literal)
            names = tuple(self._name(n, text) for n in text.removeprefix(operator).split(","))
            if operator in ("?", "&"):
                self.optional += names
                last = self._pieces[-1] if self._pieces else None
                if operator == "&" and last and last.separator == "&":  # {?a}{&b} is {?a,b}.
                    self._pieces[-1] = replace(last, names=last.names + names)
                else:
                    self._pieces.append(_Piece(operator, "#", names, "&", True))
            elif operator == ";":
                self.optional += names
                self._pieces.append(_Piece(";", "/?#", names, ";", True))
            else:
                self._pieces += self._simple(operator, names, template)
        self._literal(template[end:])
        self._begin = template.partition("{")[0]

    @staticmethod
    def _simple(operator: str, names: tuple[str, ...], template: str) -> list[_Piece]:
        """Returns a piece for each variable of an expression whose values have no names."""
        first, between, ends_at = {
            "": ("", ",", "/?#"),
            # It allows reserved characters, but a path ends where a query may start.
            "+": ("", ",", "?#" if "{?" in template else "#" if "{#" in template else ""),
            "#": ("#", ",", ""),
            ".": (".", ".", "/?#"),
            "/": ("/", "/", "/?#"),
        }[operator]
        if len(names) > 1:
            ends_at += between
        return [
            _Piece(between if i else first, ends_at, (name,), may_be_missing=bool(i or first))
            for i, name in enumerate(names)
        ]

    def _literal(self, literal: str) -> None:
        if "{" in literal or "}" in literal:
            raise ValueError("unmatched brace")
        if literal:
            self._pieces.append(_Piece(literal))

    def _name(self, name: str, expression: str) -> str:
        if not _NAME.fullmatch(name):
            exploded = name.endswith("*") and _NAME.fullmatch(name[:-1])
            instead = f"; {{+{name[:-1]}}} has slashes in it" if exploded else ""
            raise ValueError(
                f"{{{expression}}} cannot be matched{instead}; "
                "there are {a}, {a,b}, {+path}, {#part}, {.ext}, {/a,b}, {;a,b}, {?a,b} and {&a,b}"
            )
        if name in self.variables:
            raise ValueError(f"duplicate variable {{{name}}}")
        self.variables.append(name)
        return name

    def match(self, uri: str) -> dict[str, str] | None:
        """Returns the percent-decoded values of the variables, or None if uri does not match.

        Matching is greedy, from the first variable on. Values with `..` path segments, such as `../secret`, do not
        match. The time is linear in the length of the URI.
        """
        if len(uri) > _MAX_URI or not uri.startswith(self._begin):
            return None
        # Backward: where each piece can start. Then forward: where each piece ends.
        ends = [[len(uri)]]
        for piece in reversed(self._pieces):
            ends.append(piece.starts(uri, ends[-1]))
        if 0 not in ends.pop():
            return None
        values: dict[str, str] = {}
        at = 0
        for piece in self._pieces:
            possible_ends = ends.pop()
            after = at + len(piece.literal)
            if not uri.startswith(piece.literal, at):
                continue  # It is optional.
            if piece.ends_at is None:
                at = after
                continue
            i = bisect_right(possible_ends, piece.latest_end(uri, after)) - 1
            if i < 0 or possible_ends[i] < after + piece.min_length:
                continue
            at = possible_ends[i]
            values |= piece.values(uri[after:at])
        for value in values.values():
            if "\0" in value or ".." in re.split(r"[/\\]", value):
                return None
        return values
