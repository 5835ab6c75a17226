"""The report of a run as one page of HTML: it loads nothing, reads on a phone, and prints.

Rendered with jinja2, everything escaped: names in records come from outside. The page holds no script; what a
figure rests on stands beside it as a word, not as a colour alone.
"""

from __future__ import annotations

import datetime as dt
from importlib.resources import files
from typing import Any

from provenance.adapters.report_html.drawing import draw
from provenance.errors import ConfigError

__all__ = ["render"]

_WORDS = {
    "proved": "recomputed from bytes against the seals of the chain's validators",
    "on a node's word": "the same, on a chain without seals: the node that was asked is believed",
    "computed": "worked out here from such records and bytes",
    "sampled": "holds for a random sample, with the confidence that stands beside it",
    "asserted": "somebody signed it; nothing here can show whether it is so",
}
_LEVELS = {
    "chain": "every batch file, record and signature; the run against its seal",
    "data": "every stored byte, read again",
    "replay": "everything computed again from the raw files",
}


def render(report: Any) -> str:
    """The page.

    Args:
        report: a `provenance.services.report.RunReport`, or anything with its attributes.

    Raises:
        ConfigError: jinja2 is not installed.
    """
    try:
        import jinja2
    except ImportError as error:
        raise ConfigError(
            "a report needs jinja2", reason="no-jinja2", remedy="Install provenance-ledger[report]."
        ) from error
    environment = jinja2.Environment(
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"short": _short, "size": _size, "moment": _moment}
    template = environment.from_string(_resource("report.html"))
    return template.render(
        report=report,
        audit=report.audit,
        run=report.run,
        boxes=draw(report.run.stages),
        style=_resource("report.css"),
        words=_WORDS,
        levels=_LEVELS,
    )


def _resource(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def _short(text: str, length: int = 12) -> str:
    return text if len(text) <= length else f"{text[:length]}…"


def _size(count: int) -> str:
    """Bytes in the largest decimal unit that leaves at least one."""
    value, unit = float(count), "bytes"
    for larger in ("kB", "MB", "GB", "TB"):
        if value < 1000:
            break
        value, unit = value / 1000, larger
    return f"{count:,} bytes" if unit == "bytes" else f"{value:,.1f} {unit}"


def _moment(seconds: int) -> str:
    return dt.datetime.fromtimestamp(seconds, dt.UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
