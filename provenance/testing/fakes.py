"""Fakes of the ports, in memory, with the misfortunes of the real things at hand.

A log can be cut, trimmed, made anew, rewritten, and skip offsets as Kafka's transactions do; the chain
(`provenance.testing.fake_chain`) can reorganise, forget and stand still. For calls that fail or lose their
answer, `provenance.testing.faults` wraps any of them. The conformance suites hold them to the ports.
"""

from __future__ import annotations

import datetime as dt
import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from provenance.core.batches import MAX_LEAF_BYTES
from provenance.core.streams import LogIdentity
from provenance.errors import ConfigError, MalformedError, MismatchError
from provenance.ports import Bounds, LogMessage
from provenance.testing.fake_chain import FakeAccount, FakeChain

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from provenance.ports import IndexedRecord, JournalEntry

__all__ = [
    "FakeAccount",
    "FakeChain",
    "FakeClock",
    "FakeIndex",
    "FakeJournal",
    "FakeLog",
    "FakeNames",
    "FakeSigner",
    "FakeStore",
]


@dataclass(slots=True)
class _Partition:
    start: int = 0
    end: int = 0
    epoch: int = 0
    messages: dict[int, LogMessage] = field(default_factory=dict)


class FakeLog:
    """An `EventLog` in memory.

    Args:
        partitions: how many; a key always goes to the same one.
        cluster_id: the cluster's id; topic ids are numbered.
    """

    def __init__(self, partitions: int = 1, *, cluster_id: str = "fake-cluster") -> None:
        self._cluster_id = cluster_id
        self._made = 0
        self._partitions = [_Partition() for _ in range(partitions)]

    def identities(self) -> Sequence[LogIdentity]:
        """All partitions."""
        topic_id = f"{self._made + 1:032x}"
        return tuple(
            LogIdentity(self._cluster_id, "provenance.records", topic_id, number)
            for number in range(len(self._partitions))
        )

    def append(self, records: Sequence[tuple[bytes, bytes]]) -> Sequence[tuple[int, int]]:
        """Append pairs."""
        for _, value in records:
            if len(value) > MAX_LEAF_BYTES:
                raise MalformedError(
                    f"value: {len(value)} bytes, expected at most {MAX_LEAF_BYTES}", reason="value-length"
                )
        return tuple(self._append(key, value) for key, value in records)

    def bounds(self, partition: int) -> Bounds:
        """The range of offsets now."""
        held = self._partition(partition)
        return Bounds(held.start, held.end)

    def read(self, partition: int, start: int, limit: int) -> Sequence[LogMessage]:
        """At most ``limit`` messages from ``start`` on."""
        held = self._partition(partition)
        if limit < 1 or start < 0:
            raise ConfigError(f"reading {limit} messages from {start}: expected at least 1, from 0 on")
        offsets = sorted(offset for offset in held.messages if offset >= start)
        return tuple(held.messages[offset] for offset in offsets[:limit])

    # What befalls logs.

    def truncate(self, partition: int, end: int) -> None:
        """Lose the messages from ``end`` on, as a leader elected uncleanly does; its epoch is the next."""
        held = self._partition(partition)
        held.end, held.epoch = end, held.epoch + 1
        held.messages = {offset: message for offset, message in held.messages.items() if offset < end}

    def trim(self, partition: int, start: int) -> None:
        """Lose the messages before ``start``, as retention does."""
        held = self._partition(partition)
        held.start, held.end = start, max(start, held.end)
        held.messages = {offset: message for offset, message in held.messages.items() if offset >= start}

    def skip(self, partition: int, count: int = 1) -> None:
        """Give out offsets that hold no message, as a transaction's markers do."""
        self._partition(partition).end += count

    def rewrite(self, partition: int, offset: int, value: bytes) -> None:
        """Put other bytes at an offset."""
        held = self._partition(partition)
        held.messages[offset] = LogMessage(offset, value, held.epoch)

    def recreate(self) -> None:
        """Delete the topic and make it anew: another topic id, offsets from 0."""
        self._made += 1
        self._partitions = [_Partition() for _ in self._partitions]

    def _append(self, key: bytes, value: bytes) -> tuple[int, int]:
        number = hashlib.sha256(key).digest()[0] % len(self._partitions)
        held = self._partitions[number]
        offset, held.end = held.end, held.end + 1
        held.messages[offset] = LogMessage(offset, bytes(value), held.epoch)
        return number, offset

    def _partition(self, number: int) -> _Partition:
        if not 0 <= number < len(self._partitions):
            raise ConfigError(
                f"partition {number}: the log has {len(self._partitions)}", reason="no-partition"
            )
        return self._partitions[number]


class FakeStore:
    """A `BatchStore` in memory; ``objects`` may be changed, as whoever owns the folder can.

    Args:
        limit: the size that no object may exceed, in bytes.
    """

    def __init__(self, *, limit: int = 256 << 20) -> None:
        self.objects: dict[str, bytes] = {}
        self._limit = limit

    def put(self, name: str, data: bytes) -> None:
        """Create the object."""
        _require_name(name)
        self._require_size(name, data)
        if self.objects.setdefault(name, bytes(data)) != data:
            raise MismatchError(
                f"object {name}", expected="the bytes offered", actual="other bytes", reason="object-differs"
            )

    def get(self, name: str) -> bytes | None:
        """The object's bytes, or None."""
        _require_name(name)
        found = self.objects.get(name)
        if found is not None:
            self._require_size(name, found)
        return found

    def names(self, prefix: str) -> Iterator[str]:
        """The names that begin with the prefix, ascending."""
        yield from sorted(name for name in self.objects if name.startswith(prefix))

    def delete(self, name: str) -> None:
        """Remove the object."""
        _require_name(name)
        self.objects.pop(name, None)

    def _require_size(self, name: str, data: bytes) -> None:
        if len(data) > self._limit:
            raise MalformedError(
                f"object {name}: {len(data)} bytes, expected at most {self._limit}", reason="too-long"
            )


def _require_name(name: str) -> None:
    allowed = set("0123456789abcdefghijklmnopqrstuvwxyz._-")
    if not all(part and part[0] != "." and set(part) <= allowed for part in name.split("/")):
        raise MalformedError(f"object name {name!r:.160}: not a name", reason="object-name")


class FakeIndex:
    """An `Index` in memory."""

    def __init__(self) -> None:
        self._batches: dict[tuple[bytes, int], tuple[IndexedRecord, ...]] = {}

    def add(self, stream: bytes, seq: int, records: Sequence[IndexedRecord]) -> None:
        """Index one batch."""
        if any((record.stream, record.seq) != (stream, seq) for record in records):
            raise MalformedError(f"records of another batch than {seq}", reason="other-batch")
        self._batches[stream, seq] = tuple(sorted(records, key=lambda record: record.index))

    def find(
        self,
        *,
        record_id: bytes | None = None,
        run: bytes | None = None,
        stage: bytes | None = None,
        subject: bytes | None = None,
        kind: str | None = None,
    ) -> Iterator[IndexedRecord]:
        """The records that match, by position."""
        for position in sorted(self._batches):
            for record in self._batches.get(position, ()):
                wanted = (
                    (record_id, record.id),
                    (run, record.run),
                    (stage, record.stage),
                    (kind, record.kind),
                )
                if all(value is None or value == found for value, found in wanted) and (
                    subject is None or subject in record.subjects
                ):
                    yield record

    def indexed(self, stream: bytes) -> int:
        """The highest seq without a gap."""
        seq = 0
        while (stream, seq + 1) in self._batches:
            seq += 1
        return seq

    def clear(self) -> None:
        """Forget everything."""
        self._batches.clear()


class FakeJournal:
    """A `Journal` in memory: it survives a `Crash`, as a file does, for as long as the test keeps it."""

    def __init__(self) -> None:
        self._entries: dict[bytes, JournalEntry] = {}

    def entries(self) -> Sequence[JournalEntry]:
        """All entries, lowest nonce first."""
        return tuple(sorted(self._entries.values(), key=lambda entry: entry.transaction.nonce))

    def record(self, entry: JournalEntry) -> None:
        """Keep an entry."""
        self._entries[entry.transaction.hash] = entry

    def forget(self, tx_hash: bytes) -> None:
        """Drop an entry."""
        self._entries.pop(tx_hash, None)


class FakeNames:
    """A `PrivateNames` in memory, with a secret that is the same each time."""

    def __init__(self, secret: bytes = b"a secret of thirty-two bytes ...") -> None:
        self._secret = secret
        self._plain: dict[str, str] = {}

    def secret(self) -> bytes:
        """The secret."""
        return self._secret

    def remember(self, values: Sequence[tuple[str, str, str]]) -> None:
        """Keep rows."""
        for domain, token, _ in values:
            if domain not in {"key", "name", "location"} or len(token) != 64:
                raise MalformedError(f"{domain} {token!r:.80}: no domain and token", reason="token")
        self._plain.update({token: plain for _, token, plain in values})

    def plain(self, token: str) -> str | None:
        """The plain value behind a token."""
        return self._plain.get(token)


class FakeSigner:
    """A `RecordSigner` whose key comes of 32 bytes that a test chooses."""

    def __init__(self, seed: bytes = bytes(32)) -> None:
        self._key = Ed25519PrivateKey.from_private_bytes(seed)

    def public_key(self) -> bytes:
        """The raw public key."""
        return self._key.public_key().public_bytes_raw()

    def sign(self, message: bytes) -> bytes:
        """The signature."""
        return self._key.sign(message)


class FakeClock:
    """A `Clock` that goes on only when it is told to, or slept upon."""

    def __init__(self, start: dt.datetime = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)) -> None:
        self._start = start
        self._elapsed = 0.0

    def now(self) -> dt.datetime:
        """The present."""
        return self._start + dt.timedelta(seconds=self._elapsed)

    def monotonic(self) -> float:
        """Seconds since the start."""
        return self._elapsed

    def sleep(self, seconds: float) -> None:
        """Go on by so many seconds, at once."""
        self._elapsed += max(0.0, seconds)
