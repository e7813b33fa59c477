"""Messages of the real bridge about mistakes of an author name the line to change."""

import sys
from pathlib import Path

import pytest

from mcpbridge import McpError
from mcpbridge.testing import Client, start

APP = """from mcpbridge import App
app = App("test")

"""
RUN = "\napp.run()\n"


def program(folder: Path, text: str) -> list[str]:
    (folder / "tools.py").write_text(text)
    return [sys.executable, str(folder / "tools.py")]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            APP + "@app.tool\ndef greet(\n    name,\n    times: int = 1,\n) -> str:\n    return name\n" + RUN,
            'tools.py:6: tool "greet": parameter "name" has no type hint; write name: str',
        ),
        (
            APP + "class Thing: pass\n@app.tool\ndef add(a: Thing) -> int:\n    return 1\n" + RUN,
            'tools.py:6: tool "add": parameter "a" has a type that JSON cannot represent, Thing; use str,',
        ),
        (
            APP + "limit = int('many')\n" + RUN,
            "ValueError: invalid literal for int() with base 10: 'many' at {folder}/tools.py:4",
        ),
        (APP + "def add(a: int) -> int\n    return a\n" + RUN, "SyntaxError: expected ':' at {folder}/tools.py:4"),
        (APP + "import nothing_of_that_name\n" + RUN, "No module named 'nothing_of_that_name'"),
        (APP, "a Python script must end with app.run()"),
    ],
    ids=["missing hint", "wrong type", "crash at import", "syntax", "missing module", "no run"],
)
async def test_a_failed_start_names_the_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises((McpError, ConnectionError)) as e:
        async with start(program(tmp_path, text)):
            pass
    assert message.replace("{folder}", str(tmp_path)) in str(e.value).replace('\\"', '"')


async def logged(client: Client) -> list[str]:
    return [line for line in client.log.replace('\\"', '"').splitlines() if '"level":"error"' in line]


@pytest.mark.parametrize(
    ("body", "message", "model"),
    [
        (
            "    return 'many'",
            'tool "add" failed at tools.py:5: TypeError: the tool returned what',
            "should be a valid integer",
        ),
        (
            "    one = {}\n    return one['missing']",
            "tool \"add\" failed at tools.py:7: KeyError: 'missing'",
            "KeyError: 'missing'",
        ),
        (
            "    return int(input('Sure?'))",
            'tool "add" failed at tools.py:6: RuntimeError: input() is not available; ask the user with ctx.elicit',
            "input() is not available",
        ),
    ],
    ids=["wrong result", "exception", "input"],
)
async def test_a_failed_call_names_the_line(tmp_path: Path, body: str, message: str, model: str) -> None:
    text = APP + f"@app.tool\ndef add(a: int) -> int:\n{body}\n" + RUN
    async with start(program(tmp_path, text)) as client:
        assert model in await client.call("add", {"a": 1})
    assert message in "\n".join(await logged(client))


async def test_a_noisy_import_does_no_harm(tmp_path: Path) -> None:
    noise = "import os\nprint('noise')\nos.write(1, b'raw noise\\n')\n"
    text = noise + APP + "print('1|1|tcp|1.2.3.4:5|grpc|')\n@app.tool\ndef add(a: int) -> int:\n    return a\n" + RUN
    async with start(program(tmp_path, text)) as client:
        assert await client.call("add", {"a": 1}) == "1"
    assert all(noise in client.log for noise in ('"noise"', '"raw noise"', "1.2.3.4"))


@pytest.mark.parametrize("forward", ["", "app.forward_logging('shop')\n"], ids=["as it is", "forwarded"])
async def test_log_records_keep_their_level(tmp_path: Path, forward: str) -> None:
    body = "    logging.getLogger('shop').warning('two\\nlines')\n    return 1\n"
    text = "import logging\n" + APP + forward + "@app.tool\ndef add() -> int:\n" + body + RUN
    async with start(program(tmp_path, text)) as client:
        await client.call("add", {})
    (line,) = [line for line in client.log.splitlines() if "two" in line]
    assert '"level":"warn"' in line
    assert '"logger": "shop"' in line
    assert '"message":"two\\nlines"' in line


async def test_a_tool_without_a_description_causes_a_warning(tmp_path: Path) -> None:
    with_one = "@app.tool\ndef documented() -> None:\n    'Does nothing.'\n"
    async with start(
        program(tmp_path, APP + with_one + "@app.tool\ndef add(a: int) -> int:\n    return a\n" + RUN)
    ) as client:
        await client.call("add", {"a": 1})
    (line,) = [line for line in client.log.replace('\\"', '"').splitlines() if "has no description" in line]
    assert '"level":"warn"' in line
    assert '"message":"tools.py:8: tool "add" has no description, by which models choose; write a docstring"' in line
