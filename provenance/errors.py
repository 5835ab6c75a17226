"""The one exception tree, split by what the caller can do about it.

::

    ProvenanceError
    ├── VerificationError      evidence was checked and is wrong: stop, look            exit code 1
    │   └── MismatchError      one value differs from another; carries both
    ├── ConfigError            wrong use or configuration: change it and call again     exit code 2
    ├── MalformedError         an input is not what its format says: mend the input     exit code 2
    │   └── Rejected           one item of a partition cannot be used; raised by transforms
    ├── UnavailableError       a component cannot be reached: try again later           exit code 3
    └── PendingError           nothing is wrong, the anchor is not there yet: wait      exit code 4

Every message names the thing, what was expected, what was found, and the next step. Adapters convert every
foreign exception into one of these; nothing else leaves the package but programming errors.
"""

from __future__ import annotations

import re

__all__ = [
    "ConfigError",
    "MalformedError",
    "MismatchError",
    "PendingError",
    "ProvenanceError",
    "Rejected",
    "ReplayWarning",
    "UnavailableError",
    "VerificationError",
]


_REASON = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")


class ProvenanceError(Exception):
    """Base of everything this package raises on purpose.

    Args:
        message: one sentence that names the thing and what is wrong with it.
        reason: a short, stable code (``"trailing-bytes"``, ``"not-canonical"``): tests, indexes and other
            programs go by it, people by the message.
        remedy: the next step, in the imperative; shown on a line of its own. Empty if there is none to give.
    """

    exit_code = 1

    def __init__(self, message: str, *, reason: str = "", remedy: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.reason = reason
        self.remedy = remedy
        if remedy:
            self.add_note(f"  next: {remedy}")  # below the message where Python prints the traceback

    @property
    def context(self) -> list[str]:
        """Where it happened, as the notes say that were added on the way up: stage, partition, file."""
        return [note for note in getattr(self, "__notes__", []) if note != f"  next: {self.remedy}"]

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle by state: subclasses differ in signature, and Dask carries errors between processes."""
        return (_rebuild, (type(self), self.message, self.remedy, dict(self.__dict__)))


def _rebuild(
    kind: type[ProvenanceError], message: str, remedy: str, state: dict[str, object]
) -> ProvenanceError:
    error = kind.__new__(kind)
    ProvenanceError.__init__(error, message, remedy=remedy)  # the rest, reason included, is in the state
    error.__dict__.update(state)
    return error


class VerificationError(ProvenanceError):
    """Evidence was checked and does not hold."""

    exit_code = 1


class MismatchError(VerificationError):
    """A value differs from what the evidence says.

    Args:
        what: the thing that was compared, e.g. ``"root of batch 7"``.
        expected: what the evidence says.
        actual: what was found.
        reason: as in `ProvenanceError`.
        remedy: the next step.
    """

    def __init__(
        self, what: str, *, expected: object, actual: object, reason: str = "mismatch", remedy: str = ""
    ) -> None:
        super().__init__(f"{what}: expected {expected}, found {actual}", reason=reason, remedy=remedy)
        self.what = what
        self.expected = expected
        self.actual = actual


class ConfigError(ProvenanceError):
    """The call or the configuration is wrong; the same call can only fail again."""

    exit_code = 2


class MalformedError(ProvenanceError):
    """An input does not follow its format."""

    exit_code = 2


class Rejected(MalformedError):  # noqa: N818 - users raise and return it as an outcome, and read it as one
    """What a transform raises, or returns, for an item that cannot be used: it stays on record.

    Args:
        reason: a code of lower-case letters, digits and ``-``, e.g. ``"silence"``; it stands in the record.
        detail: a sentence for people; it stands in no record.
    """

    def __init__(self, reason: str, detail: str = "") -> None:
        if not _REASON.fullmatch(reason):
            raise ConfigError(
                f"reason {reason!r:.80}: expected 1 to 64 lower-case letters, digits and '-'", reason="reason"
            )
        super().__init__(detail or reason, reason=reason)


class ReplayWarning(UserWarning):
    """A stage is recorded, but a replay could not find its transform again."""


class UnavailableError(ProvenanceError):
    """A component that is needed cannot be reached now."""

    exit_code = 3


class PendingError(ProvenanceError):
    """The answer does not exist yet: records wait in the log, or an anchor is not final."""

    exit_code = 4
