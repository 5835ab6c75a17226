"""A sink's store as a source: what an earlier cell, script or task of the run wrote, checked and carried on.

The bytes are compared with the sink's records before anything is made of them, so a stage that goes on from a
store has the sink's partitions as its inputs, as if they had never left memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from provenance.adapters.dask.carried import Carried
from provenance.adapters.dask.handles import Node
from provenance.adapters.dask.places import Building, holds
from provenance.core.completeness import is_sink
from provenance.core.lineage import Ref
from provenance.core.partitions import partition_name
from provenance.errors import ConfigError, PendingError, VerificationError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from provenance.core.kinds import Partition, Stage

__all__ = ["StoredPartition", "load_stored", "stored_node"]


@dataclass(frozen=True, slots=True)
class StoredPartition:
    """One partition of a store, and its records; several only where attempts diverged."""

    place: str
    stage: str
    number: int
    records: tuple[tuple[bytes, Partition], ...]

    def __repr__(self) -> str:
        """Without the path: Dask writes arguments into its logs."""
        return f"<stored partition {self.number}>"


def load_stored(stored: StoredPartition) -> Carried:
    """Read a partition back.

    Raises:
        VerificationError: ``stored-differs``: what lies there is not what any of its records says.
    """
    for record, partition in stored.records:
        if holds(Building(stored.place, partition.run.hex()), partition):
            ref = Ref(
                stage=partition.stage,
                number=partition.number,
                record=record,
                subjects=partition.subjects,
                rows=partition.rows,
                bytes=partition.bytes,
                key=partition.key,
                rejected=partition.rejected,
            )
            return Carried(None if partition.rejected else _read(stored, partition), ref)
    raise VerificationError(
        f"stage {stored.stage!r}, partition {stored.number}: what is stored is not what was recorded",
        reason="stored-differs",
        remedy="Do not go on from this store. `provenance audit --level data` says what differs.",
    )


def _read(stored: StoredPartition, partition: Partition) -> Any:
    if all("sha256" in subject.digest for subject in partition.subjects):
        from provenance.adapters.dask.sinks_parquet import parquet_name, read_parquet_part

        data = (Path(stored.place) / parquet_name(stored.number)).read_bytes()
        return read_parquet_part(data).to_pandas()
    from provenance.adapters.dask.sinks_zarr import read_zarr_part, stored_form

    prefix = f"{partition_name(stored.number)}/"
    parts = [subject.name.removeprefix(prefix) for subject in partition.subjects]
    return stored_form({part: read_zarr_part(Path(stored.place), stored.number, part)[...] for part in parts})


def stored_node(
    name: str,
    stages: Mapping[bytes, Stage],
    records: Iterable[tuple[bytes, Partition]],
    place_of: Mapping[bytes, str],
) -> Node:
    """The node of a finished sink of the run.

    Args:
        name: the sink's stage.
        stages: the run's stages.
        records: the run's partition records.
        place_of: where each sink's store lies.

    Raises:
        ConfigError: ``no-sink``, the run has no sink of that name, or it is not known where it lies.
        PendingError: ``partitions-missing``, it is not finished.
    """
    found = [record for record, stage in stages.items() if stage.name == name and is_sink(stage)]
    if not found or found[0] not in place_of:
        known = ", ".join(sorted(repr(s.name) for s in stages.values() if is_sink(s))) or "none"
        raise ConfigError(
            f"{name!r} is no store of this run; it has: {known}",
            reason="no-sink",
            remedy="Give the name of a stage that .write(…) made, and compute it first.",
        )
    (sink,) = found
    place = place_of[sink]
    by_number: dict[int, dict[bytes, Partition]] = {}
    for record, partition in records:
        if partition.stage == sink:
            by_number.setdefault(partition.number, {})[record] = partition
    count = stages[sink].partitions or 0
    if len(by_number) < count or not Path(place).exists():
        raise PendingError(
            f"stage {name!r}: {len(by_number)} of {count} partitions are stored",
            reason="partitions-missing",
            remedy="Compute the sink to its end first.",
        )
    payloads = [
        StoredPartition(place, name, number, tuple(by_number[number].items())) for number in range(count)
    ]
    keys = [next(iter(by_number[number].values())).key for number in range(count)]
    return Node(sink, stages[sink], _Loaded(), (), count, payloads=payloads, keys=keys, is_stored=True)


class _Loaded:
    """Stands for the sink's operation, which is not run again."""

    def apply(self, work: Any) -> Any:
        """Never called: a stored partition is loaded and not computed."""
        raise NotImplementedError
