"""What the services need from the outside world, as Protocols of at most four methods.

A port says what is durable, what is atomic and which errors come out; the conformance suites in
`provenance.testing.conformance` hold the
fakes and the real adapters to it. Errors are those of `provenance.errors` only: an adapter converts every
foreign exception
(``UnavailableError`` when the component cannot be reached, ``MalformedError`` when its answer makes no
sense).

Digests, roots, ids and accumulators are raw 32-byte ``bytes`` here; hex belongs to texts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias

from provenance.core.transactions import JournalEntry, SignedTransaction, TxState

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Iterator, Sequence

    from provenance.core.digests import TreeEntry
    from provenance.core.kinds import Partition, Stage, Transform
    from provenance.core.replays import PartComparison, ReplayPlan
    from provenance.core.streams import LogIdentity, Opening

__all__ = [
    "Anchor",
    "AnchorCall",
    "BatchStore",
    "Bounds",
    "Call",
    "ChainIdentity",
    "ChainReader",
    "Clock",
    "CloseCall",
    "DeployCall",
    "EventLog",
    "Head",
    "Index",
    "IndexedRecord",
    "Journal",
    "JournalEntry",
    "ListRecordKeyCall",
    "LogMessage",
    "OpenCall",
    "PrivateNames",
    "RecordSigner",
    "Recorder",
    "Replayer",
    "SetKeyCall",
    "SignedTransaction",
    "StoredFiles",
    "Transactor",
    "TxState",
]


# ------------------------------------------------------------------------------------------------- event log


@dataclass(frozen=True, slots=True)
class LogMessage:
    """One message as the log holds it: its offset, its value's bytes as they came.

    And the epoch of the leader that wrote it (-1 unknown).
    """

    offset: int
    value: bytes
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class Bounds:
    """``start`` is the first offset that may still be read, ``end`` the next one to be given out.

    Equal when the log is empty.
    """

    start: int
    end: int


class EventLog(Protocol):
    """An ordered, durable log of partitions: Kafka, or the SQLite file of the embedded set-up."""

    def identities(self) -> Sequence[LogIdentity]:
        """Cluster, topic, topic id and number of every partition, in ascending order of number.

        Asked anew each time.
        """
        ...

    def append(self, records: Sequence[tuple[bytes, bytes]]) -> Sequence[tuple[int, int]]:
        """Append (key, value) pairs and return the (partition, offset) of each.

        Durable when it returns: acknowledged by Kafka, or synced to disk. All pairs of one call that go to
        one partition stay in order.
        On an error any prefix may have been written; a repeat of the same bytes is harmless. A value above
        1 MiB is refused with all of its call.
        """
        ...

    def bounds(self, partition: int) -> Bounds:
        """The range of offsets that the partition holds now."""
        ...

    def read(self, partition: int, start: int, limit: int) -> Sequence[LogMessage]:
        """At most ``limit`` messages with offset ≥ ``start``, ascending; empty only at the end.

        Fewer where they are large. Offsets may skip where the log holds no message.
        """
        ...


# ----------------------------------------------------------------------------------------------------- chain


@dataclass(frozen=True, slots=True)
class ChainIdentity:
    """Which chain and which contract: chain id, hash of block 0, 20-byte address, SHA-256 of runtime code.

    ``contract`` and ``code_hash`` are None until the contract is deployed. ``kind`` is what the node says it
    is (``anvil``, ``geth`` …).
    """

    chain_id: int
    genesis: bytes
    contract: bytes | None
    code_hash: bytes | None
    kind: str


@dataclass(frozen=True, slots=True)
class Head:
    """A stream's head on the chain: its last seq and accumulator.

    And the log offset that the next batch must begin with.
    """

    stream: bytes
    seq: int
    next_offset: int
    acc: bytes
    org: int
    last_block: int
    closed: bool


@dataclass(frozen=True, slots=True)
class Anchor:
    """One ``Anchored`` event and where it stands. ``publisher`` is the 20-byte address that sent it."""

    stream: bytes
    seq: int
    publisher: bytes
    first_offset: int
    next_offset: int
    leaf_count: int
    root: bytes
    manifest_hash: bytes
    acc: bytes
    prev_block: int
    block_number: int
    block_hash: bytes
    transaction: bytes
    log_index: int
    gas_used: int
    block_time: int


class ChainReader(Protocol):
    """Read access to the ledger contract through one node."""

    def identity(self) -> ChainIdentity:
        """The chain and contract that the node serves now.

        Asked anew each time: a node may have been replaced.
        """
        ...

    def openings(self, binding: bytes | None = None) -> Sequence[tuple[bytes, Opening, int]]:
        """``(stream, opening, block number)`` of every stream opened, oldest first.

        Only those of one binding if it is given.
        """
        ...

    def head(self, stream: bytes) -> Head | None:
        """The stream's head, or None if the contract does not know the stream."""
        ...

    def anchors(self, stream: bytes, from_seq: int = 1) -> Iterator[Anchor]:
        """The stream's anchors with seq ≥ ``from_seq``, ascending and without a gap up to the head."""
        ...


@dataclass(frozen=True, slots=True)
class AnchorCall:
    """The arguments of the contract's ``anchor``; `spec/anchoring.md`, "Contract"."""

    stream: bytes
    seq: int
    prev_acc: bytes
    first_offset: int
    next_offset: int
    leaf_count: int
    root: bytes
    manifest_hash: bytes


@dataclass(frozen=True, slots=True)
class OpenCall:
    """The arguments of the contract's ``openStream``; k and eligible stay 0 until endorsement is used."""

    binding: bytes
    start_offset: int
    continues: bytes
    k: int = 0
    eligible: int = 0


@dataclass(frozen=True, slots=True)
class CloseCall:
    """``closeStream``: nothing can be anchored in it any more."""

    stream: bytes


@dataclass(frozen=True, slots=True)
class DeployCall:
    """Deploys the contract with one founding organisation: its name, its 20-byte governance address.

    Whoever sends it with nonce 0 gets the same contract address on every chain.
    """

    organisation: str
    governance: bytes


@dataclass(frozen=True, slots=True)
class SetKeyCall:
    """``setKey``: a 20-byte address of the sender's organisation; publisher 2, endorser 4, both 6."""

    key: bytes
    roles: int


@dataclass(frozen=True, slots=True)
class ListRecordKeyCall:
    """``listRecordKey``: a raw Ed25519 key with which the sender's organisation signs records."""

    key: bytes


Call: TypeAlias = "AnchorCall | OpenCall | CloseCall | DeployCall | SetKeyCall | ListRecordKeyCall"


class Transactor(Protocol):
    """One account that sends transactions to the ledger contract.

    Nonces are the caller's business: one key, one nonce stream.
    """

    def sign(self, call: Call, nonce: int) -> SignedTransaction:
        """Sign the call with this nonce. Sends nothing."""
        ...

    def send(self, raw: bytes) -> None:
        """Send signed bytes.

        "Already known" and "nonce too low" are not errors: the caller looks the hash up.
        """
        ...

    def state(self, tx_hash: bytes) -> TxState:
        """What has become of a transaction.

        FINAL by the chain's own rule; REVERTED only when it is final too.
        """
        ...

    def nonce(self, *, final: bool = False) -> int:
        """The account's next nonce by mined transactions only; with ``final``, by those that are final."""
        ...


class Journal(Protocol):
    """What this process has signed and not yet seen final.

    Durable; never needed for safety, only for speed.
    """

    def entries(self) -> Sequence[JournalEntry]:
        """All entries, lowest nonce first."""
        ...

    def record(self, entry: JournalEntry) -> None:
        """Keep an entry; synced to disk when it returns."""
        ...

    def forget(self, tx_hash: bytes) -> None:
        """Drop an entry; forgetting an unknown one is no error."""
        ...


# ------------------------------------------------------------------------------------------ stores and index


class BatchStore(Protocol):
    """Immutable objects by name (``STREAM/SEQ-ACC.batch``), shared by all batchers.

    A folder or an object store.
    """

    def put(self, name: str, data: bytes) -> None:
        """Create the object, durably.

        Equal bytes already there are fine; other bytes under the name raise ``MismatchError``.
        """
        ...

    def get(self, name: str) -> bytes | None:
        """The object's bytes, or None if there is none.

        Never more than the store's limit: a larger one raises ``MalformedError``.
        """
        ...

    def names(self, prefix: str) -> Iterator[str]:
        """The names that begin with the prefix, ascending."""
        ...

    def delete(self, name: str) -> None:
        """Remove the object; removing an absent one is no error."""
        ...


@dataclass(frozen=True, slots=True)
class IndexedRecord:
    """Where a record stands, and the few fields by which one looks it up.

    ``kind`` is ``rejected`` with a ``reason`` for a malformed leaf.

    ``run``, ``stage`` and ``subjects`` are raw digests; ``number`` is the partition number or -1.
    """

    id: bytes
    stream: bytes
    seq: int
    index: int
    offset: int
    kind: str
    run: bytes | None
    stage: bytes | None
    number: int
    subjects: tuple[bytes, ...]
    reason: str = ""


class Index(Protocol):
    """A cache over the batch files, rebuilt by one command; nothing is believed because the index says so."""

    def add(self, stream: bytes, seq: int, records: Sequence[IndexedRecord]) -> None:
        """Index one batch, atomically. A batch that is already there is replaced by the same."""
        ...

    def find(
        self,
        *,
        record_id: bytes | None = None,
        run: bytes | None = None,
        stage: bytes | None = None,
        subject: bytes | None = None,
        kind: str | None = None,
    ) -> Iterator[IndexedRecord]:
        """The records that match all that is given, by position (stream, seq, index)."""
        ...

    def indexed(self, stream: bytes) -> int:
        """The highest seq up to which the stream is indexed without a gap; 0 if nothing is."""
        ...

    def clear(self) -> None:
        """Forget everything."""
        ...


class PrivateNames(Protocol):
    """The private store of a dataset's secret and of the plain values behind its tokens; beside the keys.

    Mode 0600, never exported.
    """

    def secret(self) -> bytes:
        """The dataset's 32-byte secret; made when it is first asked for."""
        ...

    def remember(self, values: Sequence[tuple[str, str, str]]) -> None:
        """Keep (domain, token, plain value) rows; domain is ``"key"``, ``"name"`` or ``"location"``.

        A location's token is a record id in hex, its plain value an absolute path. A token that is there gets
        the new value; a row of no form refuses all of them.
        """
        ...

    def plain(self, token: str) -> str | None:
        """The plain value behind a token, if this store knows it."""
        ...


# ------------------------------------------------------------------------------------ stored data and replay


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


# -------------------------------------------------------------------------------------------- keys and clock


class RecordSigner(Protocol):
    """Signs records with Ed25519."""

    def public_key(self) -> bytes:
        """The raw 32-byte public key."""
        ...

    def sign(self, message: bytes) -> bytes:
        """The 64-byte signature of the message (RFC 8032, pure Ed25519)."""
        ...


class Clock(Protocol):
    """Time, so that tests can own it."""

    def now(self) -> dt.datetime:
        """The present, in UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds on a clock that never goes back."""
        ...

    def sleep(self, seconds: float) -> None:
        """Wait."""
        ...
