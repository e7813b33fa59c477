"""Runs the code of the README, one block after the other, and its tests."""

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest

from mcpbridge import App, McpError, NotFound, v1
from mcpbridge.handlers import StatusError
from mcpbridge.testing import call, complete, read

README = Path(__file__).parent.parent / "README.md"


@pytest.fixture(scope="module")
def names() -> dict[str, Any]:
    names: dict[str, Any] = {"__name__": "readme"}
    text = README.read_text()
    for block in re.finditer(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
        before = text[: block.start(1)].count("\n")
        exec(compile("\n" * before + block[1], str(README), "exec", dont_inherit=True), names)
    return names


def test_its_tests_pass(names: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", README.read_text(), re.DOTALL | re.MULTILINE)
    program = "\n".join(block for block in blocks if "async def test_" not in block)
    run = 'if __name__ == "__main__":\n    app.run()\n'
    assert run in program
    (tmp_path / "tools.py").write_text(program.replace(run, "") + run)
    monkeypatch.chdir(tmp_path)
    tests = [names[name] for name in names if name.startswith("test_")]
    assert len(tests) == 3
    for test in tests:
        asyncio.run(test())


async def test_its_code_works(names: dict[str, Any]) -> None:
    app: App = names["app"]
    got = await call(app, "forecast", {"city": "Rome"})
    assert (got.structured, len(got.progress)) == ({"monday": 21.5}, 3)
    assert (await call(app, "forecast", {"city": "Rome", "days": 15})).is_error
    assert (await call(app, "measure", {"city": "rome"})).result.content[0].resource_link.uri == "weather://rome/1"
    assert (await read(app, "stations://all")).result.ttl_ms == 3_600_000
    with pytest.raises(StatusError, match="rome has no station 3") as e:
        await read(app, "weather://rome/3")
    assert isinstance(e.value.__cause__, NotFound)
    assert await complete(app, "packing", "city", "o") == ["oslo"]
    assert await complete(app, "packing", "style") == []
    assert (await call(app, "book", answers=["decline"])).text == "Then not."
    got = await call(app, "report", {"year": 2026}, answers=["short"])
    assert (got.text, len(got.progress)) == ("The short report of 2026.", 12)
    assert (await call(app, "temperatures")).structured == {"rome": 30, "oslo": 12}
    wish = {"seat": "w", "extras": ["wifi"]}
    got = await call(app, "comfort", answers=[wish, "ic", ["bz"]])
    assert got.text == "w ['wifi'] ic ['bz']"
    forms = [json.loads(q.elicit.form.requested_schema)["properties"] for q in got.asked]
    seats = [{"const": "w", "title": "Window"}, {"const": "a", "title": "Aisle"}]
    lines = [{"const": "ic", "title": "InterCity"}, {"const": "rj", "title": "Railjet"}]
    cities = [{"const": "bz", "title": "Bolzano"}, {"const": "in", "title": "Innsbruck"}]
    assert forms == [
        {
            "seat": {"type": "string", "oneOf": seats},
            "extras": {"type": "array", "items": {"type": "string", "enum": ["lunch", "wifi"]}},
        },
        {"value": {"type": "string", "oneOf": lines}},
        {"value": {"type": "array", "items": {"anyOf": cities}}},
    ]
    assert (await call(app, "comfort", answers=[wish, "x"])).is_error

    wishes = [v1.ToolUseContent(id=city, name="degrees", input=json.dumps({"city": city})) for city in ("rome", "oslo")]
    blocks = [v1.ContentBlock(tool_use=wish) for wish in wishes]
    sample = v1.CreateMessageResult(role="assistant", content=blocks, stop_reason="toolUse")
    got = await call(app, "advise", {"question": "Where?"}, answers=[v1.InputResponse(create_message=sample), "Rome"])
    assert (got.text, got.rounds) == ("Rome", 3)
    question, *turns = got.asked[1].create_message.messages
    assert question.content[0].text.text == "Where?"
    assert list(turns[0].content) == blocks
    results = [block.tool_result for block in turns[1].content]
    assert [(r.tool_use_id, json.loads(r.structured_content)) for r in results] == [
        ("rome", {"result": 30}),
        ("oslo", {"result": 12}),
    ]
    assert [t.name for t in got.asked[1].create_message.tools] == ["degrees"]

    with app._changes.listen(v1.SubscriptionFilter(tools_list_changed=True)) as listener:
        for on in (True, False):
            assert (await call(app, "expert", {"on": on})).text == "done"
            assert ("calibrate_all" in app._tools) is on
            assert (await asyncio.wait_for(anext(listener.events()), 5)).HasField("tools_list_changed")
    assert (await call(app, "calibrate", {"station": 1}, answers=[{}])).text == "{'station': 1} True"
    with pytest.raises(McpError):
        await call(app, "calibrate", context=v1.CallContext())


def test_every_file_is_named() -> None:
    files = {p.name for p in (README.parent / "src" / "mcpbridge").glob("*.py")} - {"__init__.py"}
    assert set(re.findall(r"`(\w+\.py)`", README.read_text().partition("## Files")[2])) == files
