"""Why a recording cannot be used: a closed list of reason codes, and the exception that carries one.

A reason code goes into a record (``rejected``), into the summary and into other programs; it never changes
its meaning. The message is for people and names the file, so it belongs on a terminal and not in a log: names
of recordings may be names of persons.
"""

from __future__ import annotations

import enum

from provenance.errors import MalformedError

__all__ = ["Reason", "UnusableAudioError", "printable", "remedy_of", "show_name"]

_SHOWN = 200


class Reason(enum.StrEnum):
    """The reasons for which a recording is set aside."""

    EMPTY_FILE = "empty-file"
    UNREADABLE = "unreadable"
    NOT_AUDIO = "not-audio"
    UNSUPPORTED_CODEC = "unsupported-codec"
    TRUNCATED = "truncated"
    INCONSISTENT_HEADER = "inconsistent-header"
    CORRUPT = "corrupt"
    NO_FRAMES = "no-frames"
    NOT_A_NUMBER = "not-a-number"
    OUT_OF_RANGE = "out-of-range"
    CLIPPED = "clipped"
    SILENCE = "silence"
    TOO_LONG = "too-long"
    TOO_LARGE = "too-large"


_CODES = frozenset(reason.value for reason in Reason)
_AGAIN = "take the file again from where it came, or leave it out"
_REMEDIES = {
    Reason.EMPTY_FILE: _AGAIN,
    Reason.UNREADABLE: "mend the permissions or the disk, then run again",
    Reason.NOT_AUDIO: "convert it to WAV or FLAC, or give it a suffix that is not a recording's",
    Reason.UNSUPPORTED_CODEC: "convert it to linear PCM or FLAC",
    Reason.TRUNCATED: _AGAIN,
    Reason.INCONSISTENT_HEADER: "export it again with a program that writes correct headers, or leave it out",
    Reason.CORRUPT: _AGAIN,
    Reason.NO_FRAMES: _AGAIN,
    Reason.NOT_A_NUMBER: "export it again: no player agrees what NaN or infinity sounds like",
    Reason.OUT_OF_RANGE: "scale the samples into -1 … 1 and export it again",
    Reason.CLIPPED: "record it again at a lower gain, or allow more with max_clipped",
    Reason.SILENCE: "leave it out, or lower threshold_db and floor_db if it does hold speech",
    Reason.TOO_LONG: "cut it into shorter recordings, or raise the limit",
    Reason.TOO_LARGE: "cut it into shorter recordings, or raise the limit",
}


class UnusableAudioError(MalformedError):
    """A recording that cannot be used, and why.

    Args:
        reason: the code that stands in the record.
        detail: what was found, with the numbers.
        name: the recording's name, as the caller knows it; empty if it has none.
    """

    def __init__(self, reason: Reason, detail: str, *, name: str = "") -> None:
        super().__init__(
            f"{show_name(name)}: {detail}" if name else detail, reason=reason.value, remedy=_REMEDIES[reason]
        )
        self.detail = detail

    def named(self, name: str) -> UnusableAudioError:
        """The same finding about a recording whose name is known by now."""
        return type(self)(Reason(self.reason), self.detail, name=name)


def remedy_of(reason: str) -> str:
    """The next step for a recording that was set aside for a reason code, whoever gave it."""
    return _REMEDIES[Reason(reason)] if reason in _CODES else _AGAIN


def printable(text: str) -> str:
    """Text from outside, made harmless for a terminal: what it acts on or cannot show is escaped."""
    text = text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def show_name(name: str) -> str:
    """A file's name on one line, whatever it holds.

    Quotes, newlines and bytes that are not UTF-8 are escaped, the length is bounded.
    """
    shown = printable(name)
    return f"'{shown}'" if len(shown) <= _SHOWN else f"'{shown[:_SHOWN]}…'"
