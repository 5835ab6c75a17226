"""Write docs/reference/configuration.md from the settings themselves.

`make docs` runs it; a test compares its result with the file, so that settings and documentation cannot part.
"""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from provenance import config

if TYPE_CHECKING:
    from collections.abc import Iterator

TARGET = Path(__file__).resolve().parent.parent / "docs" / "reference" / "configuration.md"

INTRODUCTION = """\
# Configuration

Made by `make docs` from the program itself; edit `provenance/config.py` instead.

Nothing has to be set. What is set stands in `provenance.toml`, in the `.provenance` folder or beside it:

```toml
[batch]
max_records = 1000
```

or in the environment, which goes first: `PROVENANCE_BATCH_MAX_RECORDS=1000`. A name that means nothing is
refused, and the nearest one that does is named; so is a value outside its limits.

The folder itself is that of `--folder`, else of `PROVENANCE_FOLDER`, else the nearest `.provenance` from the
working directory upwards, else a new one there.
"""


def render() -> str:
    """The whole page."""
    return INTRODUCTION + "".join(_sections())


def _sections() -> Iterator[str]:
    for section, settings in groupby(config.describe(), key=lambda row: row[0].partition("_")[0]):
        yield f"\n## [{section}]\n\n| key | default | limits | |\n|---|---|---|---|\n"
        for name, default, setting in settings:
            cells = (f"`{name.partition('_')[2]}`", _default(default), _limits(setting), setting.says)
            yield f"| {' | '.join(cells)} |\n"


def _default(value: object) -> str:
    return "empty" if value == "" else f"`{value}`"


def _limits(setting: config.Setting) -> str:
    if setting.choices:
        return ", ".join(f"`{choice}`" for choice in setting.choices)
    if setting.pattern:
        return setting.unit
    return f"{setting.low:.16g} to {setting.high:.16g} {setting.unit}"


if __name__ == "__main__":
    TARGET.write_text(render(), encoding="utf-8")
    print(f"wrote {TARGET.name}")
