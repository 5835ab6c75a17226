"""Which records of a stage count: their ids, collected in any order and settled against the seal.

An honest retry of a transform that is not deterministic leaves several records for one partition, and so does
tampering; the seal counts one of them and sets the others aside (`spec/records.md`, "Attempts and
completeness"). Ids are kept in flat arrays, about 64 bytes a record and 32 a part, so that a million records
fit anywhere.
"""

from __future__ import annotations

import hashlib
import itertools
import math
from array import array
from bisect import bisect_left
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from provenance.core import canonical, merkle

if TYPE_CHECKING:
    import builtins
    from collections.abc import Collection, Iterable, Mapping

    from provenance.core.kinds import Partition, SealedStage

__all__ = ["Counted", "Place", "StageIds", "output_id"]

_ID = merkle.HASH_BYTES
_MOST_HASHES = 1 << 22  # what may be spent on finding out which of several attempts a seal counts


@dataclass(frozen=True, slots=True)
class Place:
    """Where a record is anchored: the ordinal of its batch in the audit's list of batches, and its leaf."""

    batch: int
    leaf: int


def output_id(record: bytes, name: str, digest: Mapping[str, str]) -> bytes:
    """A hash that stands for "record ``record`` has a part ``name`` with exactly these digests"."""
    return hashlib.sha256(record + canonical.encode({"digest": dict(digest), "name": name})).digest()


class _IdSet:
    """Immutable set of 32-byte ids in 64 bytes each."""

    def __init__(self, ids: bytes | bytearray) -> None:
        # NumPy orders byte strings of one width as memcmp does. What it gives back is without trailing zeros,
        # so values are compared in the array's own bytes.
        self._sorted = np.sort(np.frombuffer(bytes(ids), dtype=f"S{_ID}"))
        self._bytes = self._sorted.tobytes()

    def __contains__(self, wanted: bytes) -> bool:
        at = int(np.searchsorted(self._sorted, np.array(wanted, dtype=f"S{_ID}")))
        return self._bytes[at * _ID : (at + 1) * _ID] == wanted


@dataclass(frozen=True, slots=True)
class Counted:
    """The settled ids of one stage: one per partition number, ascending.

    ``root`` is the RFC 6962 root over the counted ids in partition order. Of the other anchored records,
    ``set_aside`` holds (number, id) of those that the seal sets aside, ``spare`` of those that it does not
    know; ``repeats`` says how many stood more than once.
    """

    numbers: array[int]
    ids: builtins.bytes
    root: builtins.bytes
    rows: int
    bytes: int
    spare: tuple[tuple[int, builtins.bytes], ...]
    set_aside: tuple[tuple[int, builtins.bytes], ...]
    repeats: int
    _batches: array[int] = field(repr=False)
    _leaves: array[int] = field(repr=False)
    _members: _IdSet = field(repr=False)
    _outputs: _IdSet = field(repr=False)

    def __len__(self) -> int:
        return len(self.numbers)

    def __contains__(self, record: builtins.bytes) -> bool:
        return record in self._members

    def id_at(self, at: int) -> builtins.bytes:
        """The id of the ``at``-th counted partition, from 0."""
        return self.ids[at * _ID : (at + 1) * _ID]

    def place_at(self, at: int) -> Place:
        """Where the ``at``-th counted record is anchored."""
        return Place(self._batches[at], self._leaves[at])

    def position_of(self, record: builtins.bytes) -> int | None:
        """The position of a counted record, by its id."""
        at = self.ids.find(record)
        while at % _ID and at >= 0:  # found across the border of two ids
            at = self.ids.find(record, at + 1)
        return at // _ID if at >= 0 else None

    def find(self, number: int) -> int | None:
        """The position of a partition number among the counted ones."""
        at = bisect_left(self.numbers, number)
        return at if at < len(self) and self.numbers[at] == number else None

    def has_output(self, record: builtins.bytes, name: str, digest: Mapping[str, str]) -> bool:
        """Whether an anchored record of this stage has that part with exactly those digests."""
        return output_id(record, name, digest) in self._outputs


class StageIds:
    """Collects the anchored partition records of one stage, in any order, repeats included."""

    def __init__(self) -> None:
        self._numbers, self._batches, self._leaves = array("Q"), array("I"), array("I")
        self._rows, self._bytes = array("Q"), array("Q")
        self._ids, self._outputs = bytearray(), bytearray()

    def add(self, record: bytes, partition: Partition, place: Place) -> None:
        """Take a record, by its id."""
        self._numbers.append(partition.number)
        self._batches.append(place.batch)
        self._leaves.append(place.leaf)
        self._rows.append(partition.rows)
        self._bytes.append(partition.bytes)
        self._ids += record
        for subject in partition.subjects:
            self._outputs += output_id(record, subject.name, subject.digest)

    def _id(self, at: int) -> bytes:
        return bytes(self._ids[at * _ID : (at + 1) * _ID])

    def settle(self, sealed: SealedStage, set_aside: Collection[bytes] = ()) -> Counted:
        """Choose the counted record of each partition number.

        That is the one not set aside. Where several are left, an anchored record is neither counted nor set
        aside: which one is told by the seal's root if it can be, else the first counts.
        """
        aside = frozenset(set_aside)
        attempts: dict[int, list[int]] = {}
        divergent: list[int] = []
        distinct = 0
        ordered = np.argsort(np.array(self._numbers), kind="stable").tolist()
        for number, group in itertools.groupby(ordered, key=self._numbers.__getitem__):
            firsts = {self._id(at): at for at in reversed(list(group))}  # the first place of each id stays
            distinct += len(firsts)
            if candidates := sorted(at for record, at in firsts.items() if record not in aside):
                attempts[number] = candidates
            divergent += [at for record, at in firsts.items() if record in aside]
        chosen = self._choose(attempts, sealed)
        spare = {at for candidates in attempts.values() for at in candidates}.difference(chosen)
        return self._counted(chosen, spare, divergent, len(self._numbers) - distinct)

    def _choose(self, attempts: Mapping[int, list[int]], sealed: SealedStage) -> list[int]:
        """One record a number; numbers beyond those that the seal counts are left out."""
        counted = dict(itertools.islice(attempts.items(), sealed.partitions))
        first = [candidates[0] for candidates in counted.values()]
        ways = math.prod(map(len, counted.values()))
        if ways > 1 and ways * len(counted) <= _MOST_HASHES:
            for tried in itertools.product(*counted.values()):
                if merkle.root(map(self._id, tried)) == sealed.root:
                    return list(tried)
        return first

    def _named(self, entries: Iterable[int]) -> tuple[tuple[int, bytes], ...]:
        return tuple(sorted((self._numbers[at], self._id(at)) for at in entries))

    def _counted(self, chosen: list[int], spare: set[int], divergent: list[int], repeats: int) -> Counted:
        ids = b"".join(map(self._id, chosen))
        return Counted(
            numbers=array("Q", (self._numbers[at] for at in chosen)),
            ids=ids,
            root=merkle.root(map(self._id, chosen)),
            rows=sum(self._rows[at] for at in chosen),
            bytes=sum(self._bytes[at] for at in chosen),
            spare=self._named(spare),
            set_aside=self._named(divergent),
            repeats=repeats,
            _batches=array("I", (self._batches[at] for at in chosen)),
            _leaves=array("I", (self._leaves[at] for at in chosen)),
            _members=_IdSet(ids),
            _outputs=_IdSet(self._outputs),
        )
