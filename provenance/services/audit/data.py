"""The data level: every stored byte of a run's sources and sinks is read again and compared with its record.

Raw files by their SHA-256, stored partitions by SHA-256 or ``tree1``, a whole store by the ``tree1`` and file
count of the seal (`provenance.services.audit.stores`). Where bytes lie is known to the private store only; a
name that comes from a record never leads out of that place.
"""

from __future__ import annotations

import posixpath
from collections import OrderedDict
from typing import TYPE_CHECKING

from provenance.core.completeness import is_sink
from provenance.errors import MalformedError, UnavailableError
from provenance.services.audit.findings import Severity
from provenance.services.audit.runs import REJECTED
from provenance.services.audit.stores import StoreCheck, Where, is_below

if TYPE_CHECKING:
    from provenance.core.kinds import Partition
    from provenance.core.records import Subject
    from provenance.ports import BatchStore, PrivateNames, StoredFiles
    from provenance.services.audit.findings import Findings
    from provenance.services.audit.runs import RunCheck

__all__ = ["DataCheck"]

_REMEMBERED = 4096  # raw files read lately: one that was split stands in several partitions


class DataCheck:
    """Reads what a run's counted partitions say was stored.

    Args:
        run: the run, whose findings and counts are added to.
        names: where things lie.
        files: reads them.
        store: has the lists of stores' files.
        findings: takes every complaint.
    """

    def __init__(
        self,
        run: RunCheck,
        *,
        names: PrivateNames | None,
        files: StoredFiles | None,
        store: BatchStore,
        findings: Findings,
    ) -> None:
        self._run, self._names, self._files = run, names, files
        self._store, self._findings = store, findings
        self._recent: OrderedDict[tuple[str, str], None] = OrderedDict()
        self._sinks: dict[bytes, StoreCheck] = {}
        self._silent: set[tuple[str, bytes]] = set()
        self.changed: list[tuple[bytes, int]] = []

    def visit(self, partition: Partition) -> None:
        """Check what one counted partition of a source or a sink left in storage."""
        stage = self._run.stages[partition.stage]
        sink = is_sink(stage)
        parts = [part for part in partition.subjects if REJECTED not in part.name]
        if (stage.parents and not sink) or not parts:
            return
        if not sink and not any("sha256" in part.digest for part in parts):
            message = "its partitions were given in memory: there are no bytes to read again"
            self._once(partition.stage, Severity.NOTE, "nothing-stored", message)
            return
        base = self._location(partition.stage)
        if base is None or self._files is None:
            return
        where = self._where(partition.stage).shard(partition.number)
        whole = True
        for subject in parts:
            try:
                if sink:
                    check = self._sink(partition.stage, self._files, base)
                    whole = check.check_part(subject, partition.number) and whole
                else:
                    self._check_raw(self._files, base, subject, where)
            except UnavailableError as error:
                where.refuse(Severity.UNREACHABLE, "unreadable", error, object=subject.name)
            except MalformedError as error:
                whole = False
                where.refuse(Severity.ERROR, "odd-object", error, object=subject.name)
        if not whole:
            self.changed.append((partition.stage, partition.number))

    def finish(self) -> None:
        """Compare each store as a whole with the seal, once all its partitions have been visited."""
        for stage_id, sealed in self._run.sealed.items():
            base = self._location(stage_id) if sealed.store is not None else None
            if base is None or self._files is None:
                continue
            try:
                self._sink(stage_id, self._files, base).check_whole()
            except UnavailableError as error:
                self._where(stage_id).refuse(Severity.UNREACHABLE, "unreadable", error)
            except MalformedError as error:
                self._where(stage_id).refuse(Severity.ERROR, "odd-object", error)
            del self._sinks[stage_id]

    def _where(self, stage_id: bytes) -> Where:
        audit = self._run.by_stage[stage_id]
        return Where(self._findings, audit.data, run=self._run.run, stage=audit.name)

    def _sink(self, stage_id: bytes, files: StoredFiles, base: str) -> StoreCheck:
        if stage_id not in self._sinks:
            tree = self._run.sealed[stage_id].store
            self._sinks[stage_id] = StoreCheck(files, base, tree, self._store, self._where(stage_id))
        return self._sinks[stage_id]

    def _location(self, stage_id: bytes) -> str | None:
        plain = None
        if self._names is not None and self._files is not None:
            plain = self._names.plain(stage_id.hex())
        if plain is None:
            self._once(
                stage_id, Severity.UNREACHABLE, "location-unknown", "where its bytes lie is not known here"
            )
        return plain

    def _once(self, stage_id: bytes, severity: Severity, code: str, message: str) -> None:
        if (code, stage_id) not in self._silent:
            self._silent.add((code, stage_id))
            self._where(stage_id).say(severity, code, message)

    # ---------------------------------------------------------------------------------------------- raw files

    def _check_raw(self, files: StoredFiles, base: str, subject: Subject, where: Where) -> None:
        expected = subject.digest.get("sha256", "")
        path = self._raw_path(base, subject.name)
        if path is None:
            message = "a name that leads out of its folder"
            where.say(Severity.ERROR, "unsafe-name", message, object=subject.name)
            return
        if self._was_read(path, expected):
            return
        found = files.file(path)
        where.counts.raw_files += 1
        if found is None:
            where.say(Severity.ERROR, "raw-missing", "a raw file is gone", object=subject.name, detail=path)
            return
        where.counts.bytes += found.size
        if found.sha256.hex() != expected:
            where.say(
                Severity.ERROR,
                "raw-changed",
                "a raw file has changed",
                object=subject.name,
                detail=path,
                expected=f"sha256:{expected}",
                actual=f"sha256:{found.sha256.hex()}",
            )

    def _was_read(self, path: str, expected: str) -> bool:
        if (path, expected) in self._recent:
            return True
        self._recent[path, expected] = None
        if len(self._recent) > _REMEMBERED:
            self._recent.popitem(last=False)
        return False

    def _raw_path(self, base: str, name: str) -> str | None:
        """Where the file of that name or token lies; None for a name that leads elsewhere."""
        known = None
        if self._names is not None and len(name) == 64 and not name.strip("0123456789abcdef"):
            known = self._names.plain(name)
        if known is None and not is_below(name):
            return None
        return posixpath.join(base, name if known is None else known)
