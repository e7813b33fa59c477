"""Lets a model query a SQLite database, and change it if the user agrees.

mcpbridge run -- python3 explorer.py shop.db           # read-only
mcpbridge run -- python3 explorer.py shop.db --write   # and changes, after asking the user
"""

import argparse
import difflib
import re
import sqlite3
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import quote

from mcpbridge import App, Context, Field, NotFound, ToolError, Unsupported

TIMEOUT = 5.0  # The maximum duration of a statement in seconds.
MAX_ROWS = 1000
MAX_TEXT = 1 << 20  # The maximum size of the rows of a result in characters.

Value = str | int | float | None
Parameters = Annotated[list[Value] | dict[str, Value], Field(description="The values of ? or :name in the statement")]
NO_PARAMETERS: list[Value] = []
Limit = Annotated[int, Field(ge=1, le=MAX_ROWS)]


@dataclass
class Table:
    name: str
    kind: Literal["table", "view"]
    columns: list[str]


@dataclass
class Column:
    name: str
    type: str
    required: bool
    primary_key: bool
    refers_to: str | None


@dataclass
class Description:
    name: str
    rows: int
    columns: list[Column]
    sql: str


@dataclass
class Rows:
    columns: list[str]
    rows: list[list[Value]]
    truncated: bool


@dataclass
class Outcome:
    outcome: Literal["done", "declined", "cancelled"]
    rows: int
    message: str


# Actions that are never allowed: accessing other files, changing the behavior of SQLite, ending our transaction.
FORBIDDEN = {
    sqlite3.SQLITE_ATTACH: "ATTACH",
    sqlite3.SQLITE_DETACH: "DETACH",
    sqlite3.SQLITE_PRAGMA: "PRAGMA",
    sqlite3.SQLITE_TRANSACTION: "BEGIN, COMMIT and ROLLBACK",
    sqlite3.SQLITE_SAVEPOINT: "SAVEPOINT",
}
# Actions that lose data. They also apply to system tables, whose names mean nothing here.
DESTRUCTIVE = {
    sqlite3.SQLITE_DELETE,
    sqlite3.SQLITE_UPDATE,
    sqlite3.SQLITE_ALTER_TABLE,
    sqlite3.SQLITE_DROP_TABLE,
    sqlite3.SQLITE_DROP_VIEW,
    sqlite3.SQLITE_DROP_INDEX,
    sqlite3.SQLITE_DROP_TRIGGER,
}


class Connection:
    """A connection for one statement of the model."""

    def __init__(self, path: Path, mode: Literal["ro", "rw"], ctx: Context | None = None) -> None:
        self.guarded = False
        self.forbidden: str | None = None
        self.destructive = False
        self.changed: set[str] = set()
        self.db = sqlite3.connect(f"{path.resolve().as_uri()}?mode={mode}", uri=True, timeout=2, isolation_level=None)
        self.db.text_factory = lambda text: text.decode(errors="replace")
        if sys.version_info >= (3, 11):
            self.db.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_TEXT)
        start = time.monotonic()
        self.db.set_progress_handler(
            lambda: time.monotonic() - start > TIMEOUT or (ctx is not None and ctx.cancelled), 1000
        )
        self.db.set_authorizer(self._authorize)

    def execute(self, sql: str, parameters: Any) -> sqlite3.Cursor:
        """Executes a statement of the model, with its permissions."""
        self.guarded = True
        try:
            return self.db.execute(sql, parameters)
        finally:
            self.guarded = False

    def _authorize(self, action: int, first: str | None, second: str | None, *_: str | None) -> int:
        if not self.guarded:
            return sqlite3.SQLITE_OK
        if action in FORBIDDEN or (action == sqlite3.SQLITE_FUNCTION and second == "load_extension"):
            self.forbidden = FORBIDDEN.get(action, "load_extension")
            return sqlite3.SQLITE_DENY
        if action in (sqlite3.SQLITE_INSERT, sqlite3.SQLITE_UPDATE, sqlite3.SQLITE_DELETE) and first:
            self.changed.add(first)
        if action in DESTRUCTIVE and not (first or "").startswith("sqlite_"):
            self.destructive = True
        return sqlite3.SQLITE_OK


class Explorer:
    def __init__(self, path: Path, app: App, write: bool) -> None:
        self.path = path
        self.app = app
        self.write = write
        self.resources: set[str] = set()
        self.lock = threading.Lock()  # Guards listed.

    @contextmanager
    def open(self, mode: Literal["ro", "rw"] = "ro", ctx: Context | None = None) -> Iterator[Connection]:
        """Opens a connection. Errors of SQLite become messages for the model, with a fix."""
        connection = Connection(self.path, mode, ctx)
        with closing(connection.db):
            try:
                yield connection
            except (sqlite3.Error, sqlite3.Warning, OverflowError) as e:
                raise ToolError(self.explain(str(e), connection)) from e

    def explain(self, message: str, connection: Connection) -> str:
        if connection.forbidden:
            reason = "there is one database, and each statement is a transaction of its own"
            return f"{connection.forbidden} cannot be used: {reason}."
        if message == "interrupted":
            fix = "Narrow it with WHERE, or add LIMIT."
            return f"the statement took more than {TIMEOUT:g} seconds and was ended. {fix}"
        if "readonly" in message:
            how = "use the tool execute" if self.write else "the explorer was started without --write"
            return f"query only reads, and this statement writes: {how}."
        if "one statement at a time" in message:
            return "one statement at a time: call the tool once for each."
        if found := re.fullmatch(r"no such (table|column): (?:.*\.)?(.+)", message):
            tables = self.tables()
            names = [t.name for t in tables] if found[1] == "table" else sorted({c for t in tables for c in t.columns})
            close = difflib.get_close_matches(found[2], names, 1)
            guess = f"Did you mean {close[0]}? " if close else ""
            return f"{message}. {guess}There are: {', '.join(names[:50])}."
        if "binding" in message.lower():
            return f"{message}. Give a value in parameters for each ? or :name."
        return f"SQLite says: {message}."

    def tables(self) -> list[Table]:
        with self.open() as connection:
            found = connection.db.execute(
                "SELECT name, type FROM sqlite_master"
                " WHERE type IN ('table', 'view') AND substr(name, 1, 7) <> 'sqlite_' ORDER BY name"
            )
            return [Table(name, kind, [c[1] for c in _info(connection.db, name)]) for name, kind in found.fetchall()]

    def describe(self, name: str) -> Description:
        with self.open() as connection:
            db = connection.db
            found = db.execute(
                "SELECT sql FROM sqlite_master WHERE type IN ('table', 'view') AND name = ?", [name]
            ).fetchone()
            if found is None:
                raise NotFound(self.explain(f"no such table: {name}", connection))
            keys = {k[3]: f"{k[2]}.{k[4]}" for k in db.execute("SELECT * FROM pragma_foreign_key_list(?)", [name])}
            columns = [Column(c[1], c[2], bool(c[3]), bool(c[5]), keys.get(c[1])) for c in _info(db, name)]
            (rows,) = db.execute(f"SELECT count(*) FROM {_quote(name)}").fetchone()
            return Description(name, rows, columns, found[0] or "")

    def query(self, sql: str, parameters: Any, limit: int, ctx: Context) -> Rows:
        with self.open("ro", ctx) as connection:
            cursor = connection.execute(sql, parameters)
            rows: list[list[Value]] = []
            remaining = MAX_TEXT
            for row in cursor:
                values = [f"<{len(v)} bytes>" if isinstance(v, bytes) else v for v in row]
                remaining -= sum(len(str(v)) + 3 for v in values)
                if len(rows) == limit or (remaining < 0 and rows):
                    return Rows([c[0] for c in cursor.description], rows, True)
                rows.append(values)
            return Rows([c[0] for c in cursor.description or ()], rows, False)

    def execute(self, sql: str, parameters: Any, ctx: Context) -> Outcome:
        """Executes in a transaction, and commits it if the user accepts. The question describes its changes."""
        with self.open("rw", ctx) as connection:
            db = connection.db
            db.execute("BEGIN IMMEDIATE")
            try:
                before = db.total_changes
                connection.execute(sql, parameters).fetchall()
                rows = db.total_changes - before
                if connection.destructive or re.search(r"\breplace\b", sql, re.IGNORECASE):
                    outcome = self.confirm(sql, rows, ctx)
                    if outcome is not None:
                        return outcome
                db.execute("COMMIT")
            finally:
                # Also at the end of a round with the question: the next round executes it again.
                if db.in_transaction:
                    db.execute("ROLLBACK")
        self.list()
        for table in connection.changed:
            self.app.notify_updated(_uri(table))
        return Outcome("done", rows, f"{rows} rows were changed.")

    @staticmethod
    def confirm(sql: str, rows: int, ctx: Context) -> Outcome | None:
        """Asks the user. Returns None if they agree, or else the outcome."""
        try:
            answer = ctx.elicit(
                f"This changes or deletes {rows} rows, or what a table looks like. Do it?\n\n{sql[:2000]}", bool
            )
        except Unsupported:
            raise ToolError(
                f"Nothing was changed: the statement changes or deletes {rows} rows, and this client cannot ask its "
                "user. Tell the user the statement, to execute it elsewhere."
            ) from None
        if answer:
            return None
        if answer.action == "cancel":
            return Outcome("cancelled", 0, "Nothing was changed: the user gave no answer. Ask what they want.")
        return Outcome("declined", 0, "Nothing was changed: the user said no. Do not try again without being told to.")

    def list(self) -> None:
        """Adds a resource for each new table, and removes those of dropped tables."""
        with self.lock:
            names = {table.name for table in self.tables()}
            for name in sorted(names - self.resources):
                self.app.add_resource(
                    _uri(name), self.reader(name), name=name, description=f"What the table {name} looks like"
                )
            for name in self.resources - names:
                self.app.remove_resource(_uri(name))
            self.resources = names

    def reader(self, name: str) -> Callable[[], Description]:
        return lambda: self.describe(name)


def _info(db: sqlite3.Connection, table: str) -> list[Any]:
    return db.execute("SELECT * FROM pragma_table_info(?)", [table]).fetchall()


def _uri(table: str) -> str:
    return f"table://{quote(table, safe='')}"


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def explorer(path: Path, write: bool = False) -> App:
    instructions = f"Looks into {path.name}. Call describe before you query a table."
    app = App("sqlite", version="1.0", instructions=instructions, declares=["resources"])
    ex = Explorer(path, app, write)

    @app.tool(read_only=True)
    def tables() -> list[Table]:
        """List the tables and views, with their columns."""
        return ex.tables()

    @app.tool(read_only=True)
    def describe(table: str) -> Description:
        """Describe a table: its columns, their references, and the number of rows.

        Args:
            table: A table's name, as `tables` returns it.
        """
        return ex.describe(table)

    @app.tool(read_only=True)
    def query(sql: str, parameters: Parameters = NO_PARAMETERS, limit: Limit = 100, *, ctx: Context) -> Rows:
        """Read with one SELECT statement.

        Args:
            sql: The statement. Write ? or :name for values, and give them as parameters.
            limit: How many rows to return at most.
        """
        return ex.query(sql, parameters, limit, ctx)

    @app.resource("table://{table}/rows{?limit,offset}", name="rows", mime_type="application/json")
    def rows(table: str, ctx: Context, limit: Limit = 100, offset: Annotated[int, Field(ge=0)] = 0) -> Rows:
        """Rows of a table."""
        name = ex.describe(table).name
        return ex.query(f"SELECT * FROM {_quote(name)} LIMIT -1 OFFSET ?", [offset], limit, ctx)

    @rows.complete("table")
    def table_names(value: str) -> list[str]:
        return [t.name for t in ex.tables() if t.name.lower().startswith(value.lower())]

    if write:

        @app.tool(destructive=True, idempotent=False, open_world=False)
        def execute(sql: str, parameters: Parameters = NO_PARAMETERS, *, ctx: Context) -> Outcome:
            """Change the database with one statement. The user is asked before anything is deleted or overwritten.

            Args:
                sql: The statement. Write ? or :name for values, and give them as parameters.
            """
            return ex.execute(sql, parameters, ctx)

    ex.list()
    return app


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description="Lets a model query a SQLite database.")
    arguments.add_argument("database", type=Path)
    arguments.add_argument("--write", action="store_true", help="also permit changes, after asking the user")
    options, _ = arguments.parse_known_args()
    if not options.database.is_file():
        arguments.error(f"there is no file {options.database}")
    explorer(options.database, options.write).run()
