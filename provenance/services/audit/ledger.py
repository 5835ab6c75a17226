"""The ledger under audit: the passes over its batches, and every complaint about the batches themselves.

The first pass looks at each file, each leaf and each signature. Later ones read the files again and check
them again: between two passes anybody may change a file, and nothing that was not just checked is believed.
Memory is bounded by one batch, the anchors, and what callers keep.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from provenance.core.batches import decode_batch, parse_file_name
from provenance.core.records import Record, decode_record
from provenance.core.streams import binding_of
from provenance.errors import MalformedError, ProvenanceError, UnavailableError
from provenance.services.anchored import read_batch, survey
from provenance.services.audit.catalogue import Catalogue, Position
from provenance.services.audit.findings import Severity
from provenance.services.audit.locate import locate, restore
from provenance.services.audit.model import ChainCounts, ChainFacts, StreamFacts

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping
    from contextlib import AbstractContextManager
    from typing import Any

    from provenance.core.batches import Batch
    from provenance.core.counting import Place
    from provenance.ports import (
        BatchStore,
        ChainReader,
        EventLog,
        Index,
        PrivateNames,
        Replayer,
        StoredFiles,
    )
    from provenance.services.anchored import AnchoredBatch
    from provenance.services.audit.findings import Findings

    Progress = Callable[[str, int | None], AbstractContextManager[Callable[[int], Any]]]

__all__ = ["AuditPorts", "Ledger", "Pending"]

_OTHER_OBJECTS = ("datasets/", "environments/", "lists/", "reports/", "runs/", "trees/")
_SIGNED = b'{"payload"'  # canonical JSON sorts keys: so begins every DSSE envelope, and no bare statement
_READ = 4096
_CACHED = 4  # batches kept for single look-ups


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditPorts:
    """What an audit looks at. All but chain, store and keys may be missing, and are then said to be."""

    chain: ChainReader
    store: BatchStore
    keys: Mapping[str, bytes]
    log: EventLog | None = None
    index: Index | None = None
    names: PrivateNames | None = None
    files: StoredFiles | None = None
    replayer: Replayer | None = None


@dataclass(slots=True)
class Pending:
    """What waits in the log: records, and the runs that have some there."""

    records: int
    runs: set[bytes]


class Ledger:
    """The anchored batches, checked whenever they are read.

    Args:
        ports: chain, store, and where there are any log and index.
        findings: takes every complaint.
        progress: as `provenance.cli._frame.progress`.
    """

    def __init__(self, ports: AuditPorts, findings: Findings, progress: Progress) -> None:
        self._ports, self._findings, self._progress = ports, findings, progress
        self.survey = survey(ports.chain, self._complain)
        self.counts = ChainCounts(
            streams=len(self.survey.streams),
            batches=len(self.survey.batches),
            gas=sum(stream.gas for stream in self.survey.streams),
        )
        self._damaged: set[int] = set()
        self._cache: OrderedDict[int, Batch] = OrderedDict()

    def _complain(self, code: str, message: str, **place: Any) -> None:
        severity = Severity.WARNING if code == "predecessor-unknown" else Severity.ERROR
        self._findings.add(severity, "chain", code, message, **place)

    # ------------------------------------------------------------------------------------------------- passes

    def take_stock(self, *, signed_only: bool = False) -> Catalogue:
        """The first pass: every file, every leaf, every signature; then the files that nothing anchors.

        With ``signed_only`` just what a proof needs: signed records are decoded, and other leaves are not.
        """
        catalogue = Catalogue(self._ports.keys)
        for batch, content in self.batches("reading batches"):
            for at, leaf in enumerate(content.leaves):
                if signed_only and not leaf.value.startswith(_SIGNED):
                    continue
                self.counts.records += 1
                self.counts.bytes += len(leaf.value)
                position = Position(
                    batch.ordinal, at, batch.anchor.stream.hex(), batch.anchor.seq, leaf.offset
                )
                try:
                    record = decode_record(leaf.value)
                except MalformedError as error:
                    self._reject(error, position)
                    continue
                if record.kind != "partition":
                    catalogue.add(record, position)
        self.counts.signatures = catalogue.signatures
        if not signed_only:
            self._look_for_strays()
        return catalogue

    def batches(self, label: str) -> Iterator[tuple[AnchoredBatch, Batch]]:
        """Every batch whose file is the anchored one, in block order."""
        with self._progress(label, len(self.survey.batches)) as advance:
            for batch in self.survey.batches:
                content = self._read(batch)
                if content is not None:
                    yield batch, content
                advance(1)

    def partitions(self, runs: Collection[bytes], label: str) -> Iterator[tuple[Record, Position]]:
        """Every anchored partition record of these runs, in block order, repeats included."""
        wanted = [run.hex().encode() for run in runs]
        for batch, content in self.batches(label):
            for at, leaf in enumerate(content.leaves):
                # A partition record is plain JSON and names its run in hex: others need no decoding.
                if leaf.value.startswith(_SIGNED) or not any(run in leaf.value for run in wanted):
                    continue
                try:
                    record = decode_record(leaf.value)
                except MalformedError:
                    continue  # the first pass has said so
                if record.kind == "partition" and bytes.fromhex(record.statement.predicate["run"]) in runs:
                    stream, seq = batch.anchor.stream.hex(), batch.anchor.seq
                    yield record, Position(batch.ordinal, at, stream, seq, leaf.offset)

    def record_at(self, place: Place) -> Record:
        """One record, from its batch, which is checked again unless it is among the last few."""
        return decode_record(self.batch_at(place.batch).leaves[place.leaf].value)

    def batch_at(self, ordinal: int) -> Batch:
        """One batch by its ordinal; ``UnavailableError`` if its content is not to be had."""
        if ordinal not in self._cache:
            content = self._read(self.survey.batches[ordinal])
            if content is None:
                name = self.survey.batches[ordinal].name
                raise UnavailableError(f"batch file {name}: its content is lost", reason="missing-file")
            self._cache[ordinal] = content
            if len(self._cache) > _CACHED:
                self._cache.popitem(last=False)
        return self._cache[ordinal]

    # --------------------------------------------------------------------------------------------- complaints

    def _read(self, batch: AnchoredBatch) -> Batch | None:
        """A batch's content: from its file, else from the log, if that gives the anchored bytes."""
        try:
            return read_batch(self._ports.store, batch)
        except ProvenanceError as error:
            original = None if self._ports.log is None else restore(batch, self._ports.log)
            if batch.ordinal not in self._damaged:
                self._damaged.add(batch.ordinal)
                self._report_damage(batch, error, original)
            return None if original is None else decode_batch(original)

    def _report_damage(self, batch: AnchoredBatch, error: ProvenanceError, original: bytes | None) -> None:
        place = {**batch.place, "object": batch.name}
        if isinstance(error, UnavailableError):
            missing = error.reason == "missing-file"
            severity = Severity.ERROR if missing else Severity.UNREACHABLE
            code = "missing-file" if missing else "unreadable"
            self._findings.add(severity, "chain", code, error.message, **place)
            return
        expected, actual = str(getattr(error, "expected", "")), str(getattr(error, "actual", ""))
        if error.reason in {"other-acc", "binding-differs"}:
            self._complain(error.reason, error.message, **place, expected=expected, actual=actual)
            return
        damage = locate(self._bytes_of(batch), original, batch, self._ports.index)
        self._complain(
            "batch-changed",
            f"the batch file of seq {batch.anchor.seq} was changed in the {damage.what}",
            **place,
            offset=damage.offset,
            byte=damage.byte,
            expected=damage.expected or expected,
            actual=damage.actual or actual or error.message,
        )

    def _bytes_of(self, batch: AnchoredBatch) -> bytes:
        try:
            return self._ports.store.get(batch.name) or b""
        except MalformedError:
            return b""  # larger than any object of ours: there is nothing to locate in it

    def _reject(self, error: MalformedError, position: Position) -> None:
        self.counts.rejected += 1
        self._findings.add(
            Severity.WARNING,
            "chain",
            "rejected-record",
            f"a leaf that is no record: {error.message}",
            actual=error.reason,
            **position.place,
        )

    def _look_for_strays(self) -> None:
        """Objects in the batch store that no anchor names."""
        anchored = {batch.name for batch in self.survey.batches}
        heads = {stream.name: stream.head.seq for stream in self.survey.streams}
        behind: dict[bytes, int] = {}
        for name in self._ports.store.names(""):
            if name in anchored or name.startswith(_OTHER_OBJECTS):
                continue
            try:
                stream, seq, _ = parse_file_name(name)
            except MalformedError:
                self._warn("extra-file", f"{name}: no batch file, and nothing else of ours", object=name)
                continue
            if seq > heads.get(stream, 0):
                behind[stream] = behind.get(stream, 0) + 1
            else:
                place = {"object": name, "stream": stream.hex(), "seq": seq}
                self._warn("orphan-file", f"{name}: another batch is anchored at its place", **place)
        for stream, count in behind.items():
            self._findings.add(
                Severity.PENDING,
                "chain",
                "chain-behind",
                f"the batch store holds {count} batches that the chain does not (yet) know",
                stream=stream.hex(),
                seq=heads.get(stream, 0) + 1,
            )

    def _warn(self, code: str, message: str, **place: Any) -> None:
        self._findings.add(Severity.WARNING, "chain", code, message, **place)

    # ------------------------------------------------------------------------------------------------ pending

    def pending(self) -> Pending:
        """What the log holds beyond the streams' heads."""
        pending = Pending(0, set())
        if self._ports.log is None:
            return pending
        heads = {
            stream.opening.binding: stream.head.next_offset
            for stream in self.survey.streams
            if not stream.head.closed
        }
        for log_id in self._ports.log.identities():
            bounds = self._ports.log.bounds(log_id.partition)
            start = max(heads.get(binding_of(log_id), bounds.start), bounds.start)
            while messages := self._ports.log.read(log_id.partition, start, _READ):
                for message in messages:
                    pending.records += 1
                    _note_run(message.value, pending.runs)
                start = messages[-1].offset + 1
        self.counts.pending = pending.records
        return pending

    # -------------------------------------------------------------------------------------------------- facts

    def facts(self) -> ChainFacts:
        """The chain and contract."""
        identity = self.survey.identity
        code_hash = "" if identity.code_hash is None else identity.code_hash.hex()
        return ChainFacts(identity.kind, identity.chain_id, self.survey.contract.hex(), code_hash)

    def streams(self) -> tuple[StreamFacts, ...]:
        """The streams."""
        return tuple(
            StreamFacts(
                stream=stream.name.hex(),
                org=stream.opening.org,
                generation=stream.opening.generation,
                batches=stream.head.seq,
                records=stream.records,
                next_offset=stream.head.next_offset,
                gas=stream.gas,
                closed=stream.head.closed,
            )
            for stream in self.survey.streams
        )


def _note_run(value: bytes, runs: set[bytes]) -> None:
    try:
        record = decode_record(value)
    except MalformedError:
        return
    named = record.statement.predicate.get("run")
    if record.kind == "run":
        runs.add(record.id)
    elif isinstance(named, str):
        runs.add(bytes.fromhex(named))
