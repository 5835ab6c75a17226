"""What people call a shard or a record, and which anchored records that means.

A stored file itself, ``STAGE/NUMBER``, the beginning of a record's or a run's id. Nothing is taken from the
index: what is found is found in batches that were just checked.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from provenance.core.completeness import is_sink
from provenance.core.kinds import Partition
from provenance.errors import ConfigError, PendingError
from provenance.services.audit.findings import Findings
from provenance.services.audit.runs import count_partitions
from provenance.services.verify import digest_path

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import Any

    from provenance.core.counting import Counted
    from provenance.core.kinds import Seal
    from provenance.services.audit.catalogue import Catalogue, Signed
    from provenance.services.audit.ledger import AuditPorts, Ledger

__all__ = ["Lookup", "Wanted"]

_HEX = re.compile(r"[0-9a-f]{8,64}")
_SHARD = re.compile(r"(?:(?P<run>[0-9a-f]{4,64})[:/])?(?P<stage>[^/:]{1,512})/p?(?P<number>[0-9]{1,16})")


@dataclass(frozen=True, slots=True)
class Wanted:
    """Partitions by (stage, position among the counted) with the seal that counts them, or signed records."""

    partitions: tuple[tuple[bytes, int], ...] = ()
    seal: Signed[Seal] | None = None
    signed: tuple[Signed[Any], ...] = ()


class Lookup:
    """Finds what a name means; partitions are counted for as few runs as the name allows.

    Args:
        ports: what the ledger stands on.
        ledger: its batches.
        catalogue: its signed records.
    """

    def __init__(self, ports: AuditPorts, ledger: Ledger, catalogue: Catalogue) -> None:
        self._ports, self._ledger, self._catalogue = ports, ledger, catalogue
        self.counted: Mapping[bytes, Counted] = {}

    def find(self, thing: str, run: str | None) -> Wanted:
        """The records that a name means.

        Raises:
            ConfigError: none or several; ``reason`` says which.
            PendingError: the run has no anchored seal yet.
        """
        files = self._ports.files
        digest = digest_path(files, thing) if files is not None and thing else None
        if digest is not None:
            return self._by_digest(thing, *digest)
        if _HEX.fullmatch(thing):
            return self._by_id(thing)
        named = _SHARD.fullmatch(thing)
        if named is None:
            raise ConfigError(
                f"{thing!r:.200}: no file here, no STAGE/NUMBER, and no id of 8 to 64 hex digits",
                reason="nothing-named",
                remedy="Name a stored file, a shard such as features/3, a record's id, or a run's.",
            )
        return self._by_stage(named["stage"], int(named["number"]), named["run"] or run)

    def _by_stage(self, name: str, number: int, run: str | None) -> Wanted:
        seal = self._seal(self._run(run))
        stage = next((entry.stage for entry in seal.value.stages if entry.name == name), None)
        if stage is None:
            raise ConfigError(
                f"stage {name!r:.100}: run {seal.value.run.hex()[:12]} has none of that name",
                reason="no-such-stage",
                remedy=f"Its stages are {', '.join(entry.name for entry in seal.value.stages)}.",
            )
        self._count([seal.value.run])
        position = self.counted[stage].find(number)
        if position is None:
            raise ConfigError(
                f"stage {name!r:.100}, partition {number}: not counted by the seal, or not anchored",
                reason="no-such-shard",
            )
        return Wanted(((stage, position),), seal)

    def _by_id(self, text: str) -> Wanted:
        run = self._catalogue.find_run(text)
        if run is not None:
            return self._all_stored(self._seal(run))
        signed = next((entry for entry in self._signed() if entry.id.hex().startswith(text)), None)
        if signed is not None:
            return Wanted(signed=(signed,))
        self._count(self._catalogue.sealed_runs())
        hits = [
            (stage, at)
            for stage, counted in self.counted.items()
            for at in range(len(counted))
            if counted.id_at(at).hex().startswith(text)
        ]
        if len(hits) != 1:
            raise ConfigError(
                f"id {text}: {len(hits) or 'no'} counted records begin so",
                reason="record-ambiguous" if hits else "no-such-record",
                remedy="Records that wait in the log are anchored by `provenance batch`.",
            )
        return Wanted((hits[0],), self._seal(self._catalogue.stages[hits[0][0]].value.run))

    def _by_digest(self, thing: str, kind: str, value: str) -> Wanted:
        runs = self._catalogue.sealed_runs()
        self._count(runs)
        for record, _ in self._ledger.partitions(runs, "looking for the bytes"):
            partition = Partition.from_statement(record.statement)
            at = self._position(partition, record.id)
            if at is not None and any(part.digest.get(kind) == value for part in partition.subjects):
                return Wanted(((partition.stage, at),), self._seal(partition.run))
        raise ConfigError(
            f"{thing:.200}: no counted record has these bytes ({kind}:{value})",
            reason="no-such-bytes",
            remedy="If it has changed since it was recorded, `provenance audit` says so.",
        )

    def _all_stored(self, seal: Signed[Seal]) -> Wanted:
        self._count([seal.value.run])
        stages = [entry.stage for entry in seal.value.stages]
        known = self._catalogue.stages
        sinks = [stage for stage in stages if stage in known and is_sink(known[stage].value)]
        found = tuple((stage, at) for stage in sinks or stages for at in range(len(self.counted[stage])))
        if not found:
            raise ConfigError(
                f"run {seal.value.run.hex()}: nothing of it can be proved", reason="nothing-stored"
            )
        return Wanted(found, seal)

    # -------------------------------------------------------------------------------------------------
    # helpers

    def _position(self, partition: Partition, record: bytes) -> int | None:
        counted = self.counted.get(partition.stage)
        at = None if counted is None else counted.find(partition.number)
        return at if counted is not None and at is not None and counted.id_at(at) == record else None

    def _signed(self) -> Iterator[Signed[Any]]:
        book = self._catalogue
        tables: list[Mapping[bytes, Signed[Any]]] = [book.runs, book.datasets, book.stages]
        tables += [*book.seals.values(), *book.consumptions.values()]
        for table in tables:
            yield from table.values()

    def _run(self, text: str | None) -> bytes | None:
        if text is None:
            return next(iter(self._catalogue.sealed_runs()[-1:]), None)
        return self._catalogue.find_run(text)

    def _seal(self, run: bytes | None) -> Signed[Seal]:
        seal = None if run is None else self._catalogue.seal_of(run)
        if seal is None:
            whose = "any run" if run is None else f"run {run.hex()}"
            raise PendingError(
                f"no seal of {whose} is anchored that could be used",
                reason="no-seal",
                remedy="Seal the run, then `provenance batch`.",
            )
        return seal

    def _count(self, runs: Iterable[bytes]) -> None:
        self.counted = count_partitions(self._ledger, self._catalogue, runs, self._ports.store, Findings())
