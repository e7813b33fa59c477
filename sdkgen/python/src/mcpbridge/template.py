"""URI templates of RFC 6570, backwards: from a URI to the values of the template's variables.

Of the libraries for Python that expand templates none does this, so here are the kinds that can be told apart again:
`{name}` (no slash), `{+path}` (slashes too) and, at the end, `{?a,b}` (each may be missing).
"""

import re
from urllib.parse import parse_qsl, unquote

_EXPRESSION = re.compile(r"\{([^{}]*)\}")
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")

# Of a URI that may be matched: what a pattern can take grows faster than that.
_MAX_URI = 4096


class Template:
    """A URI template. ValueError says what is wrong with it, or of a kind that cannot be matched."""

    def __init__(self, template: str) -> None:
        self.variables: list[str] = []
        self.optional: list[str] = []  # Those of `{?a,b}`.
        pattern, end = "", 0
        for expression in _EXPRESSION.finditer(template):
            literal, text = template[end : expression.start()], expression[1]
            if not literal and end and not text.startswith("?"):
                raise ValueError(f"there is nothing between {{{text}}} and what is before it")
            end = expression.end()
            pattern += self._literal(literal)
            if text.startswith("?"):
                if end != len(template):
                    raise ValueError(f"{{{text}}} has to be at the end")
                self.optional = [self._name(n, text) for n in text[1:].split(",")]
            else:
                name = self._name(text.removeprefix("+"), text)
                pattern += f"(?P<{name}>{'.+' if text.startswith('+') else '[^/?#]+'})"
        pattern += self._literal(template[end:])
        self._query = bool(self.optional)
        self._pattern = re.compile(pattern + (r"(?:\?(?P<_query_>[^#]*))?" if self._query else ""))

    @staticmethod
    def _literal(literal: str) -> str:
        if "{" in literal or "}" in literal:
            raise ValueError("a brace has no partner")
        return re.escape(literal)

    def _name(self, name: str, expression: str) -> str:
        if not _NAME.fullmatch(name):
            raise ValueError(f"{{{expression}}} cannot be matched; there are {{name}}, {{+path}} and, at the end, {{?a,b}}")
        if name in self.variables:
            raise ValueError(f"{{{name}}} is there twice")
        self.variables.append(name)
        return name

    def match(self, uri: str) -> dict[str, str] | None:
        """The variables' values, percent-decoded, or None if uri is none of the template's.

        A value that climbs out of a folder, such as `../secret`, is none of the template's.
        """
        found = self._pattern.fullmatch(uri) if len(uri) <= _MAX_URI else None
        if found is None:
            return None
        values = {name: unquote(value) for name, value in found.groupdict().items() if name != "_query_"}
        if self._query:
            given = dict(parse_qsl(found["_query_"] or "", keep_blank_values=True))
            values |= {name: given[name] for name in self.optional if name in given}
        for value in values.values():
            if "\0" in value or ".." in re.split(r"[/\\]", value):
                return None
        return values
