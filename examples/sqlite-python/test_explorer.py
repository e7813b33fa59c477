"""The explorer, behind the real bridge, as a client sees it."""

import json
import os
import sqlite3
import sys
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any

import explorer
import pytest

from mcpbridge import v1
from mcpbridge.testing import Client, call, start

PROGRAM = str(Path(__file__).parent / "explorer.py")
os.environ.setdefault("MCPBRIDGE_BIN", str(Path(__file__).parents[2] / "bin" / "mcpbridge"))

SHOP = """
CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT NOT NULL, photo BLOB);
CREATE TABLE orders (id INTEGER PRIMARY KEY, customer INTEGER REFERENCES customers(id), total REAL);
CREATE TABLE "odd name/%" (x);
CREATE VIEW totals AS SELECT customer, sum(total) AS total FROM orders GROUP BY customer;
INSERT INTO customers (name, photo) VALUES ('Ada', x'0102'), ('Grace', NULL), ('Robert''); DROP TABLE orders;--', NULL);
INSERT INTO orders (customer, total) VALUES (1, 9.5), (1, 20), (2, 9007199254740993);
"""


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    path = tmp_path / "shop ä.db"
    with closing(sqlite3.connect(path)) as db:
        db.executescript(SHOP)
    return path


def orders(path: Path) -> int:
    with closing(sqlite3.connect(path)) as db:
        count: int = db.execute("SELECT count(*) FROM orders").fetchone()[0]
        return count


@pytest.fixture
async def client(shop: Path) -> AsyncIterator[Client]:
    async with start([sys.executable, PROGRAM, str(shop)]) as client:
        yield client


async def structured(client: Client, tool: str, **arguments: Any) -> Any:
    result = await client.request("tools/call", {"name": tool, "arguments": arguments})
    assert not result.get("isError"), result
    return result["structuredContent"]


async def failure(client: Client, tool: str, **arguments: Any) -> str:
    result = await client.request("tools/call", {"name": tool, "arguments": arguments})
    assert result.get("isError"), result
    text: str = result["content"][0]["text"]
    return text


async def test_tools_describe_and_query(client: Client) -> None:
    tables = await structured(client, "tables")
    assert [(t["name"], t["kind"], t["columns"]) for t in tables["result"]] == [
        ("customers", "table", ["id", "name", "photo"]),
        ("odd name/%", "table", ["x"]),
        ("orders", "table", ["id", "customer", "total"]),
        ("totals", "view", ["customer", "total"]),
    ]
    described = await structured(client, "describe", table="orders")
    assert (described["rows"], described["columns"][1]) == (
        3,
        {"name": "customer", "type": "INTEGER", "required": False, "primary_key": False, "refers_to": "customers.id"},
    )
    # Values are bound, and never part of the statement.
    name = "Robert'); DROP TABLE orders;--"
    found = await structured(client, "query", sql="SELECT id FROM customers WHERE name = ?", parameters=[name])
    assert found == {"columns": ["id"], "rows": [[3]], "truncated": False}
    found = await structured(
        client, "query", sql="SELECT name, photo FROM customers WHERE id < :id", parameters={"id": 3}, limit=1
    )
    assert found == {"columns": ["name", "photo"], "rows": [["Ada", "<2 bytes>"]], "truncated": True}


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT * FROM ordes", "no such table: ordes. Did you mean orders? There are: customers,"),
        ("SELECT nme FROM customers", "no such column: nme. Did you mean name?"),
        (
            "DELETE FROM orders",
            "query only reads, and this statement writes: the explorer was started without --write.",
        ),
        ("SELECT 1; DROP TABLE orders", "one statement at a time"),
        ("ATTACH '/etc/passwd' AS p", "ATTACH cannot be used"),
        ("PRAGMA writable_schema = 1", "PRAGMA cannot be used"),
        ("SELECT * FROM orders WHERE id = ?", "Give a value in parameters for each"),
        ("SELEC 1", 'SQLite says: near "SELEC": syntax error.'),
        (
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n",
            "the statement took more than 5 seconds and was ended",
        ),
    ],
)
async def test_errors_have_a_fix(client: Client, shop: Path, sql: str, message: str) -> None:
    assert message in await failure(client, "query", sql=sql)
    assert orders(shop) == 3


async def test_large_answers_are_cut(client: Client) -> None:
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i, ? FROM n"
    few = await structured(client, "query", sql=endless, parameters=["x" * 300_000], limit=1000)
    assert (len(few["rows"]), few["truncated"]) == (3, True)
    many = await structured(client, "query", sql=endless, parameters=[None], limit=1000)
    assert (len(many["rows"]), many["truncated"]) == (1000, True)


async def test_tables_are_resources(client: Client) -> None:
    listed = (await client.request("resources/list"))["resources"]
    assert [r["uri"] for r in listed] == [
        "table://customers",
        "table://odd%20name%2F%25",
        "table://orders",
        "table://totals",
    ]
    odd = await client.request("resources/read", {"uri": "table://odd%20name%2F%25"})
    assert json.loads(odd["contents"][0]["text"])["name"] == "odd name/%"
    for uri, rows in {
        "table://orders/rows?limit=1&offset=1": [[2, 1, 20.0]],
        "table://odd%20name%2F%25/rows": [],
    }.items():
        read = await client.request("resources/read", {"uri": uri})
        assert json.loads(read["contents"][0]["text"])["rows"] == rows
    template = {"type": "ref/resource", "uri": "table://{table}/rows{?limit,offset}"}
    completed = await client.request(
        "completion/complete", {"ref": template, "argument": {"name": "table", "value": "O"}}
    )
    assert completed["completion"]["values"] == ["odd name/%", "orders"]


async def test_the_database_is_read_only_by_default(client: Client) -> None:
    assert "execute" not in [tool["name"] for tool in (await client.request("tools/list"))["tools"]]


DELETE = "DELETE FROM orders WHERE customer = :who"


@pytest.mark.parametrize(
    ("answer", "outcome", "left"),
    [
        ({"action": "accept", "content": {"value": True}}, ("done", 2), 1),
        ({"action": "accept", "content": {"value": False}}, ("declined", 0), 3),
        ({"action": "decline"}, ("declined", 0), 3),
        ({"action": "cancel"}, ("cancelled", 0), 3),
    ],
)
async def test_the_user_decides(shop: Path, answer: Any, outcome: tuple[str, int], left: int) -> None:
    asked: list[str] = []

    def user(method: str, params: Any) -> Any:
        asked.append(params["message"])
        return answer

    async with start([sys.executable, PROGRAM, str(shop), "--write"], answer=user) as client:
        became = await structured(client, "execute", sql=DELETE, parameters={"who": 1})
    assert (became["outcome"], became["rows"]) == outcome
    assert asked == [f"This changes or deletes 2 rows, or what a table looks like. Do it?\n\n{DELETE}"]
    assert orders(shop) == left


async def test_clients_without_elicitation_change_nothing(shop: Path) -> None:
    async with start([sys.executable, PROGRAM, str(shop), "--write"], capabilities={}) as client:
        for sql in (DELETE.replace(":who", "1"), "DROP TABLE orders", "REPLACE INTO orders (id, total) VALUES (1, 0)"):
            assert "Nothing was changed" in await failure(client, "execute", sql=sql)
        assert orders(shop) == 3
        # Adding a row destroys nothing.
        assert (await structured(client, "execute", sql="INSERT INTO orders (total) VALUES (?)", parameters=[1]))[
            "rows"
        ] == 1
    assert orders(shop) == 4


async def test_clients_are_notified_of_tables(shop: Path) -> None:
    async with start([sys.executable, PROGRAM, str(shop), "--write"]) as client:
        await client.request("resources/subscribe", {"uri": "table://orders"})
        await structured(client, "execute", sql="INSERT INTO orders (total) VALUES (1)")
        updated = await client.notification("notifications/resources/updated")
        assert updated["params"]["uri"] == "table://orders"
        await structured(client, "execute", sql="CREATE TABLE invoices (id INTEGER)")
        await client.notification("notifications/resources/list_changed")
        assert "table://invoices" in [r["uri"] for r in (await client.request("resources/list"))["resources"]]


# Without the bridge, for behavior that clients of 2025-11-25 do not show.
async def test_an_answer_is_for_its_question_only(shop: Path) -> None:
    app = explorer.explorer(shop, write=True)

    def context() -> v1.CallContext:
        context = v1.CallContext(verified=v1.VerifiedCaller(protocol_version="2026-07-28"))
        context.client_capabilities.elicitation.form.SetInParent()
        return context

    request = v1.CallToolRequest(
        context=context(), name="execute", arguments=json.dumps({"sql": "DELETE FROM orders"}).encode()
    )

    async def ignore_event(event: Any) -> None: ...

    (question,) = (asked := (await app.call_tool(request, ignore_event)).input_required).input_requests
    assert "3 rows" in question.elicit.form.message
    with closing(sqlite3.connect(shop)) as db:
        db.execute("INSERT INTO orders (total) VALUES (1)")
        db.commit()
    yes = v1.InputResponse(elicit=v1.ElicitResult(action="accept", content='{"value":true}'))
    request.request_state = asked.request_state
    request.input_responses[question.key].CopyFrom(yes)
    (again,) = (await app.call_tool(request, ignore_event)).input_required.input_requests
    assert "4 rows" in again.elicit.form.message
    assert orders(shop) == 4
    assert (await call(app, "execute", {"sql": "DELETE FROM orders"}, answers=[True])).structured["rows"] == 4
