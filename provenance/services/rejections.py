"""Which items of a run could not be used, and why: read from its partition records.

A file that cannot be read is rejected by the source; one that a transform refuses, by that stage. A partition
of which nothing is usable says so in ``rejected``; an item among usable ones stands as a subject
``NAME#rejected:REASON``. Later stages repeat both, and each item counts once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from provenance.core.kinds import Input
from provenance.services.runlog import read_partitions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from provenance.core.kinds import Partition
    from provenance.services.runlog import RunPorts

__all__ = ["rejected_items"]

_MARK = "#rejected:"


def rejected_items(run: bytes, ports: RunPorts) -> dict[str, str]:
    """Item's name (a token, or plain where names are not personal) → reason code."""
    found: dict[str, str] = {}
    for _, partition in read_partitions(run, ports):
        for name, reason in _rejected(partition):
            found.setdefault(name, reason)
    return found


def _rejected(partition: Partition) -> Iterator[tuple[str, str]]:
    for subject in partition.subjects:
        name, mark, reason = subject.name.rpartition(_MARK)
        if mark:
            yield name, reason
    if partition.rejected is None or partition.rejected == "several":
        return
    named = [subject.name for subject in partition.subjects]
    named += [entry.name for entry in partition.inputs if isinstance(entry, Input)]
    yield from ((name, partition.rejected) for name in named if _MARK not in name)
