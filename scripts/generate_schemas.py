"""Write docs/spec/schemas/KIND-1.json from the schemas of the core.

`make docs` runs it; a test compares its result with the files, so that what is published is what is checked.
"""

from __future__ import annotations

import json
from pathlib import Path

from provenance.core.schemas import KINDS, statement_schema

TARGET = Path(__file__).resolve().parent.parent / "docs" / "spec" / "schemas"


def render() -> dict[str, str]:
    """The text of every file, by its name."""
    return {
        f"{kind}-1.json": json.dumps(statement_schema(kind), indent=2, ensure_ascii=False) + "\n"
        for kind in KINDS
    }


if __name__ == "__main__":
    TARGET.mkdir(parents=True, exist_ok=True)
    for name, text in render().items():
        (TARGET / name).write_text(text, encoding="utf-8")
