"""What a seal says of a run, worked out from the records on the log: one counted record for each partition.

Records come in any order, and a repeat of the same bytes is one record. Where a partition has several ids, an
honest retry of a transform that is not deterministic or tampering, one counts: of a sink the one whose stored
shard was committed, of any other stage the one that counted records were made from. Every other id is set
aside and stays a finding (`spec/records.md`, "Attempts and completeness").

A partition takes 48 bytes here, so a million of them fit anywhere; only divergent ones are kept whole.
"""

from __future__ import annotations

import itertools
import math
from array import array
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from provenance.core import merkle
from provenance.core.completeness import is_sink, needed_stages
from provenance.core.kinds import Input, SealedStage, StoreTree
from provenance.core.lists import ListHead

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from provenance.core.kinds import InputRoot, Partition, Stage

__all__ = ["MAX_NUMBER", "RunTally", "Sealable"]

_ID = merkle.HASH_BYTES
_NONE = bytes(_ID)
MAX_NUMBER = 1 << 26
"""A record that claims a higher partition number is no honest one, and is not given memory."""
_MOST_HASHES = 1 << 22


@dataclass(slots=True)
class _StageTally:
    ids: bytearray = field(default_factory=bytearray)
    rows: array[int] = field(default_factory=lambda: array("Q"))
    nbytes: array[int] = field(default_factory=lambda: array("Q"))
    attempts: dict[int, set[bytes]] = field(default_factory=dict)
    stray: set[bytes] = field(default_factory=set)

    def id_at(self, number: int) -> bytes:
        return bytes(self.ids[number * _ID : (number + 1) * _ID])

    def put(self, number: int, record: bytes, partition: Partition) -> None:
        self.ids[number * _ID : (number + 1) * _ID] = record
        self.rows[number], self.nbytes[number] = partition.rows, partition.bytes

    def grow(self, count: int) -> None:
        missing = count - len(self.rows)
        if missing > 0:
            self.ids.extend(bytes(missing * _ID))
            self.rows.extend(itertools.repeat(0, missing))
            self.nbytes.extend(itertools.repeat(0, missing))

    def numbers(self) -> Iterator[int]:
        return (number for number in range(len(self.rows)) if self.id_at(number) != _NONE)


@dataclass(frozen=True, slots=True)
class Sealable:
    """What a seal will say of the stages, what it sets aside, and what is missing: (stage, numbers)."""

    stages: tuple[SealedStage, ...]
    set_aside: Mapping[bytes, frozenset[bytes]]
    missing: tuple[tuple[bytes, tuple[int, ...]], ...]


class RunTally:
    """Counts the partition records of one run.

    First `add` takes every record; if `divergent` then says so, `review` takes them all once more; `settle`
    ends.

    Args:
        stages: every stage record of the run by id, parents before children.
    """

    def __init__(self, stages: Mapping[bytes, Stage]) -> None:
        self._stages = stages
        self._tallies = {stage: _StageTally() for stage in stages}
        self._kept: dict[bytes, Partition] = {}
        self._children: dict[bytes, list[tuple[bytes, int, bytes]]] = {}
        self._roots: list[tuple[bytes, int, bytes, InputRoot]] = []

    def add(self, record: bytes, partition: Partition) -> None:
        """Take a record of the run, by its id; one of a stage that the run does not have is passed by."""
        tally = self._tallies.get(partition.stage)
        if tally is None:
            return
        declared = self._stages[partition.stage].partitions
        if partition.number >= (MAX_NUMBER if declared is None else declared):
            tally.stray.add(record)
            return
        tally.grow(partition.number + 1)
        found = tally.id_at(partition.number)
        if found == _NONE:
            tally.put(partition.number, record, partition)
        elif found != record:
            tally.attempts.setdefault(partition.number, {found}).add(record)

    @property
    def divergent(self) -> bool:
        """Whether some partition has several ids, so that the records have to be seen again."""
        return any(tally.attempts for tally in self._tallies.values())

    def review(self, record: bytes, partition: Partition) -> None:
        """Take a record once more, to learn which attempts others were made from."""
        tally = self._tallies.get(partition.stage)
        if tally is None or record in tally.stray:
            return
        if record in tally.attempts.get(partition.number, ()):
            self._kept[record] = partition
        place = (partition.stage, partition.number, record)
        for entry in partition.inputs:
            if isinstance(entry, Input):
                self._children.setdefault(entry.record, []).append(place)
            else:
                self._roots.append((*place, entry))

    def settle(self, committed: Callable[[Partition], bool], stores: Mapping[bytes, StoreTree]) -> Sealable:
        """Choose what counts.

        Args:
            committed: whether what a sink's record describes is what lies in the store; asked for divergent
                records only.
            stores: the tree of each store that was finished, by stage.
        """
        set_aside = {}
        for stage in reversed(
            list(self._stages)
        ):  # children first: what they count decides for their parents
            tally = self._tallies[stage]
            aside = set(tally.stray)
            for number, candidates in sorted(tally.attempts.items()):
                chosen = self._choose(stage, number, candidates, committed)
                tally.put(number, chosen, self._kept[chosen])
                aside |= candidates - {chosen}
            set_aside[stage] = frozenset(aside)
        sealed = tuple(self._sealed(stage, stores.get(stage), set_aside[stage]) for stage in self._stages)
        return Sealable(sealed, set_aside, tuple(self._missing()))

    def _choose(
        self, stage: bytes, number: int, candidates: set[bytes], committed: Callable[[Partition], bool]
    ) -> bytes:
        ordered = sorted(candidates)
        if is_sink(self._stages[stage]):
            stored = [record for record in ordered if committed(self._kept[record])]
            return (stored or ordered)[0]
        votes: Counter[bytes] = Counter()
        for record in ordered:
            votes[record] = sum(self._counts(place) for place in self._children.get(record, ()))
        if not any(votes.values()):
            votes.update(self._read_under_roots(stage, number))
        return max(
            ordered, key=lambda record: votes[record]
        )  # of equals the smallest id, the same everywhere

    def _counts(self, place: tuple[bytes, int, bytes]) -> bool:
        stage, number, record = place
        return self._tallies[stage].id_at(number) == record

    def _read_under_roots(self, stage: bytes, number: int) -> Iterator[bytes]:
        """The attempts at a partition that explain the roots of counted children, where trying is cheap."""
        tally = self._tallies[stage]
        for child, child_number, record, entry in self._roots:
            if entry.stage != stage or not self._counts((child, child_number, record)):
                continue
            if entry.count == 1:
                yield from tally.attempts[number] & {entry.root}
                continue
            every = list(tally.numbers())
            if entry.count != len(every):
                continue  # a part of the stage was read, and the record does not say which
            ways = [sorted(tally.attempts.get(n, {tally.id_at(n)})) for n in every]
            if math.prod(map(len, ways)) * len(every) > _MOST_HASHES:
                continue
            for tried in itertools.product(*ways):
                if merkle.root(tried) == entry.root:
                    yield tried[every.index(number)]
                    break

    def _sealed(self, stage: bytes, store: StoreTree | None, aside: frozenset[bytes]) -> SealedStage:
        tally = self._tallies[stage]
        ids = [tally.id_at(number) for number in tally.numbers()]
        return SealedStage(
            stage=stage,
            name=self._stages[stage].name,
            partitions=len(ids),
            rows=sum(tally.rows),
            bytes=sum(tally.nbytes),
            root=merkle.root(ids),
            store=store,
            set_aside=ListHead.over(aside),
        )

    def _missing(self) -> Iterator[tuple[bytes, tuple[int, ...]]]:
        for stage in self._stages:
            declared = self._stages[stage].partitions
            if stage not in needed_stages(self._stages):
                continue
            there = set(self._tallies[stage].numbers())
            wanted: Sequence[int] = range(len(self._tallies[stage].rows) if declared is None else declared)
            absent = tuple(number for number in wanted if number not in there)
            if absent:
                yield stage, absent
