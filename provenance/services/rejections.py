"""Which items of a run could not be used, and why: read from its partition records.

A file that cannot be read is rejected by the source; one that a transform refuses, by that stage. A partition
of which nothing is usable says so in ``rejected``; a file stands as a subject ``NAME#rejected:REASON``, alone
or among usable ones. Later stages repeat both, and each item counts once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from provenance.core.kinds import Input
from provenance.core.partitions import partition_name
from provenance.services.audit.runs import REJECTED
from provenance.services.runlog import read_partitions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from provenance.core.kinds import Partition
    from provenance.services.runlog import RunPorts

__all__ = ["rejected_items"]


def rejected_items(run: bytes, ports: RunPorts) -> dict[str, str]:
    """Item's name (a token, or plain where names are not personal) → reason code.

    What was rejected as a whole is named by what it was to be made from; where that are too many to be
    listed in a record, by its key or its partition.
    """
    found: dict[str, str] = {}
    for _, partition in read_partitions(run, ports):
        for name, reason in _rejected(partition):
            found.setdefault(name, reason)
    return found


def _rejected(partition: Partition) -> Iterator[tuple[str, str]]:
    marked = [subject.name.rpartition(REJECTED) for subject in partition.subjects]
    yield from ((name, reason) for name, mark, reason in marked if mark)
    if partition.rejected is None or partition.subjects:
        return
    listed = [entry.name for entry in partition.inputs if isinstance(entry, Input)]
    for name in listed:
        if REJECTED not in name:  # it was rejected before, for a reason of its own
            yield name, partition.rejected
    # One root over one record is that of a parent of which nothing was left: it has been named by its own.
    if sum(entry.count for entry in partition.inputs if not isinstance(entry, Input)) > 1:
        yield partition.key or partition_name(partition.number), partition.rejected
