"""What a run leaves behind, what records it, and what runs it again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from provenance.core.digests import TreeEntry
    from provenance.core.kinds import Partition, Stage, Transform
    from provenance.core.replays import PartComparison, ReplayPlan

__all__ = ["Recorder", "Replayer", "StoredFiles"]


class StoredFiles(Protocol):
    """The bytes that sources and sinks left behind, as whoever audits them finds them. Reads only."""

    def file(self, path: str) -> TreeEntry | None:
        """Size and SHA-256 of the file; None if there is none. ``UnavailableError`` if it cannot be read."""
        ...

    def paths(self, folder: str) -> Iterator[str]:
        """The files below a folder, by ``/`` path below it, ascending by UTF-8 bytes; none if it is missing.

        Links and special files as `spec/digests.md`, "tree1". Errors as `file`; ``MalformedError`` for a name
        that is not UTF-8 or a file of another kind.
        """
        ...


class Recorder(Protocol):
    """One run as its driver writes it down. What a call returns from is durable."""

    def draft(self, stage: Stage) -> bytes:
        """Sign a stage's record and return its id; nothing is written. The same stage gives the same id."""
        ...

    def publish(self, stages: Sequence[bytes]) -> None:
        """Put the drafts with these ids on the log, parents first; those that stand there are passed by.

        Raises:
            ConfigError: another stage of the run bears the name of one of them.
        """
        ...

    def stored(self, stage: bytes, entries: Sequence[TreeEntry]) -> None:
        """Keep what a sink's finished store consists of, until the seal says it."""
        ...

    def seal(self, status: str) -> bytes:
        """Seal the run, ``"complete"`` or ``"aborted"``, and return the seal's id.

        Raises:
            ConfigError: the run is sealed already.
            PendingError: complete, but partitions are missing.
        """
        ...


class Replayer(Protocol):
    """Runs a run's transforms again, in fresh processes and from the raw files alone. Emits no record."""

    def transform(self, stage: Stage) -> Transform:
        """What the stage's transform is now; ``ConfigError`` if it cannot be imported here."""
        ...

    def replay(self, plan: ReplayPlan) -> Iterator[Partition]:
        """Every partition of the plan, computed again, in any order; memory does not grow with their number.

        A source yields what it finds now: an empty partition where the raw file is gone.
        """
        ...

    def compare(self, plan: ReplayPlan, stage: bytes, number: int) -> Sequence[PartComparison]:
        """Compare one stored partition of a sink, part by part, with the same computed again.

        Empty for a stage that stores nothing.
        """
        ...
