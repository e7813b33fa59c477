"""The tool the benchmark calls, in Python: it answers its arguments as text."""

import json

from mcpbridge import App

app = App("bench", version="1")


@app.tool(read_only=True)
async def echo(text: str) -> str:
    """Answer the arguments."""
    return json.dumps({"text": text}, ensure_ascii=False)


if __name__ == "__main__":
    app.run()
