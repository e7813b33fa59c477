"""URI templates of RFC 6570, backwards: from a URI to the values of the template's variables.

Of the libraries for Python that expand templates none does this. All of level 3 is here: `{a}` and `{a,b}`, `{+path}`,
`{#part}`, `{.ext}`, `{/a,b}`, `{;a,b}`, `{?a,b}` and `{&a,b}`. Of level 4, `{a:3}` and `{a*}`, nothing is.
"""

import functools
import re
from bisect import bisect_right
from dataclasses import dataclass, replace
from urllib.parse import parse_qsl, unquote

_EXPRESSION = re.compile(r"\{([^{}]*)\}")
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")

# Of a URI that is matched, in characters.
_MAX_URI = 4096


@dataclass(frozen=True, slots=True)
class _Piece:
    """Of a template: fixed text, and what may follow it."""

    literal: str
    ends_at: str | None = None  # What the value cannot have in it; None: there is no value.
    names: tuple[str, ...] = ()  # Several only where the value says which is meant: a=1&b=2.
    separator: str = ""  # Of those.
    may_be_missing: bool = False

    @property
    def least(self) -> int:
        return 0 if self.separator else 1

    def run(self, uri: str, at: int) -> int:
        """Where the value that begins at a place ends at the latest."""
        found = _any_of(self.ends_at).search(uri, at) if self.ends_at else None
        return found.start() if found else len(uri)

    def begins(self, uri: str, ends: list[int]) -> list[int]:
        """The places where the piece can begin if it can end at these. Both ascend."""
        begins = set(ends) if self.may_be_missing else set()
        if self.ends_at is None:
            begins.update(end - len(self.literal) for end in ends if uri.endswith(self.literal, 0, end))
            return sorted(begins)
        at = 0
        while at <= len(uri):
            # Up to the end of a run all values that begin in it can go on: its last end is good for all of them.
            run = self.run(uri, at)
            last = bisect_right(ends, run) - 1
            if last >= 0:
                values = range(at, ends[last] - self.least + 1)
                if self.literal:
                    begins.update(v - len(self.literal) for v in values if uri.endswith(self.literal, 0, v))
                else:
                    begins.update(values)
            at = run + 1
        return sorted(begins)

    def values(self, value: str) -> dict[str, str]:
        if not self.separator:
            return {self.names[0]: unquote(value)}
        if self.separator == "&":
            given = dict(parse_qsl(value, keep_blank_values=True))
        else:
            pairs = [pair.partition("=") for pair in value.split(self.separator)]
            given = {unquote(name): unquote(text) for name, _, text in pairs}
        return {name: given[name] for name in self.names if name in given}


@functools.lru_cache
def _any_of(characters: str) -> re.Pattern[str]:
    return re.compile(f"[{re.escape(characters)}]")


class Template:
    """A URI template. ValueError says what is wrong with it, or of a kind that cannot be matched."""

    def __init__(self, template: str) -> None:
        self.variables: list[str] = []
        self.optional: list[str] = []  # Those of `{?a,b}` and the like, each of which may be missing.
        self._pieces: list[_Piece] = []
        end = 0
        for expression in _EXPRESSION.finditer(template):
            literal, text = template[end : expression.start()], expression[1]
            operator = text[:1] if text[:1] in tuple("+#./;?&") else ""
            if operator in ("", "+") and not literal and end:
                raise ValueError(f"there is nothing between {{{text}}} and what is before it")
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
        """A piece for each variable of an expression whose values stand there without names."""
        first, between, ends_at = {
            "": ("", ",", "/?#"),
            # Reserved characters are what it is for, but a path ends where a query may begin.
            "+": ("", ",", "?#" if "{?" in template else "#" if "{#" in template else ""),
            "#": ("#", ",", ""),
            ".": (".", ".", "/?#"),
            "/": ("/", "/", "/?#"),
        }[operator]
        if len(names) > 1:
            ends_at += between
        return [
            _Piece(between if i else first, ends_at, (name,), may_be_missing=bool(i or first)) for i, name in enumerate(names)
        ]

    def _literal(self, literal: str) -> None:
        if "{" in literal or "}" in literal:
            raise ValueError("a brace has no partner")
        if literal:
            self._pieces.append(_Piece(literal))

    def _name(self, name: str, expression: str) -> str:
        if not _NAME.fullmatch(name):
            instead = f"; {{+{name[:-1]}}} has slashes in it" if name.endswith("*") and _NAME.fullmatch(name[:-1]) else ""
            raise ValueError(
                f"{{{expression}}} cannot be matched{instead}; "
                "there are {a}, {a,b}, {+path}, {#part}, {.ext}, {/a,b}, {;a,b}, {?a,b} and {&a,b}"
            )
        if name in self.variables:
            raise ValueError(f"{{{name}}} is there twice")
        self.variables.append(name)
        return name

    def match(self, uri: str) -> dict[str, str] | None:
        """The variables' values, percent-decoded, or None if uri is none of the template's.

        A value is as long as it can be, the first before the others. A value that climbs out of a folder, such as `../secret`,
        is none of the template's. The time it takes grows with the length of the URI, and no faster.
        """
        if len(uri) > _MAX_URI or not uri.startswith(self._begin):
            return None
        # From the end, where each piece can begin; then from the start, where each does end.
        ends = [[len(uri)]]
        for piece in reversed(self._pieces):
            ends.append(piece.begins(uri, ends[-1]))
        if 0 not in ends.pop():
            return None
        values: dict[str, str] = {}
        at = 0
        for piece in self._pieces:
            can = ends.pop()
            after = at + len(piece.literal)
            if not uri.startswith(piece.literal, at):
                continue  # It may be missing.
            if piece.ends_at is None:
                at = after
                continue
            i = bisect_right(can, piece.run(uri, after)) - 1
            if i < 0 or can[i] < after + piece.least:
                continue
            at = can[i]
            values |= piece.values(uri[after:at])
        for value in values.values():
            if "\0" in value or ".." in re.split(r"[/\\]", value):
                return None
        return values
