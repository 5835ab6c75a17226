"""What the services need from the outside world, as Protocols of at most four methods.

A port says what is durable, what is atomic and which errors come out; the conformance suites in
`provenance.testing.conformance` hold the fakes and the real adapters to it. Errors are those of
`provenance.errors` only: an adapter converts every foreign exception (``UnavailableError`` when the component
cannot be reached, ``MalformedError`` when its answer makes no sense).

Digests, roots, ids and accumulators are raw 32-byte ``bytes`` here; hex belongs to texts.
"""

from __future__ import annotations

from provenance.core.transactions import JournalEntry, SignedTransaction, TxState
from provenance.ports.chain import (
    Anchor,
    AnchorCall,
    Call,
    ChainIdentity,
    ChainReader,
    CloseCall,
    DeployCall,
    Head,
    Journal,
    ListRecordKeyCall,
    OpenCall,
    SetKeyCall,
    Transactor,
)
from provenance.ports.log import Bounds, EventLog, LogMessage, Mark, OffsetMarks, TopicAdmin
from provenance.ports.runs import Recorder, Replayer, StoredFiles
from provenance.ports.signing import Clock, RecordSigner
from provenance.ports.stores import BatchStore, Index, IndexedRecord, PrivateNames

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
    "Mark",
    "OffsetMarks",
    "OpenCall",
    "PrivateNames",
    "RecordSigner",
    "Recorder",
    "Replayer",
    "SetKeyCall",
    "SignedTransaction",
    "StoredFiles",
    "TopicAdmin",
    "Transactor",
    "TxState",
]
