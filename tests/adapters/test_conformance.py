"""The embedded adapters and the fakes keep what their ports promise."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from provenance.adapters.folder_store import FolderStore
from provenance.adapters.keys import RECORD_KEY, FileSigner, create_record_key
from provenance.adapters.private_names import SqlitePrivateNames
from provenance.adapters.sqlite_index import SqliteIndex
from provenance.adapters.sqlite_journal import SqliteJournal
from provenance.adapters.sqlite_log import SqliteLog
from provenance.adapters.system_clock import SystemClock
from provenance.testing import conformance as suites
from provenance.testing.conformance.chain import ChainUnderTest
from provenance.testing.fakes import (
    FakeChain,
    FakeClock,
    FakeIndex,
    FakeJournal,
    FakeLog,
    FakeNames,
    FakeSigner,
    FakeStore,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from provenance.ports import (
        BatchStore,
        Clock,
        EventLog,
        Index,
        Journal,
        PrivateNames,
        RecordSigner,
    )


class TestSqliteLog(suites.EventLogConformance):
    @pytest.fixture
    def open_log(self, tmp_path: Path) -> Callable[[], EventLog]:
        return lambda: SqliteLog(tmp_path / "sub" / "log.sqlite")


class TestFakeLog(suites.EventLogConformance):
    @pytest.fixture(params=[1, 3])
    def open_log(self, request: pytest.FixtureRequest) -> Callable[[], EventLog]:
        log = FakeLog(request.param)
        return lambda: log


class TestFolderStore(suites.BatchStoreConformance):
    @pytest.fixture
    def open_store(self, tmp_path: Path) -> Callable[[], BatchStore]:
        return lambda: FolderStore(tmp_path / "sub" / "batches", limit=self.limit)


class TestFakeStore(suites.BatchStoreConformance):
    @pytest.fixture
    def open_store(self) -> Callable[[], BatchStore]:
        store = FakeStore(limit=self.limit)
        return lambda: store


class TestSqliteIndex(suites.IndexConformance):
    @pytest.fixture
    def open_index(self, tmp_path: Path) -> Callable[[], Index]:
        return lambda: SqliteIndex(tmp_path / "sub" / "index.sqlite")


class TestFakeIndex(suites.IndexConformance):
    @pytest.fixture
    def open_index(self) -> Callable[[], Index]:
        index = FakeIndex()
        return lambda: index


class TestSqliteJournal(suites.JournalConformance):
    @pytest.fixture
    def open_journal(self, tmp_path: Path) -> Callable[[], Journal]:
        return lambda: SqliteJournal(tmp_path / "sub" / "journal.sqlite")


class TestFakeJournal(suites.JournalConformance):
    @pytest.fixture
    def open_journal(self) -> Callable[[], Journal]:
        journal = FakeJournal()
        return lambda: journal


class TestSqlitePrivateNames(suites.PrivateNamesConformance):
    @pytest.fixture
    def open_names(self, tmp_path: Path) -> Callable[[], PrivateNames]:
        return lambda: SqlitePrivateNames(tmp_path / "sub" / "names.sqlite")


class TestFakeNames(suites.PrivateNamesConformance):
    @pytest.fixture
    def open_names(self) -> Callable[[], PrivateNames]:
        names = FakeNames()
        return lambda: names


class TestFileSigner(suites.RecordSignerConformance):
    @pytest.fixture
    def signer(self, tmp_path: Path) -> RecordSigner:
        create_record_key(tmp_path)
        return FileSigner(tmp_path / RECORD_KEY)


class TestFakeSigner(suites.RecordSignerConformance):
    @pytest.fixture
    def signer(self) -> RecordSigner:
        return FakeSigner()


class TestSystemClock(suites.ClockConformance):
    @pytest.fixture
    def clock(self) -> Clock:
        return SystemClock()


class TestFakeClock(suites.ClockConformance):
    @pytest.fixture
    def clock(self) -> Clock:
        return FakeClock()


class TestFakeChain(suites.ChainConformance):
    @pytest.fixture(params=[0, 2])
    def chain(self, request: pytest.FixtureRequest) -> ChainUnderTest:
        governance, publisher = b"\x01" * 20, b"\x02" * 20
        chain = FakeChain.with_contract(governance, publisher, depth=request.param)

        def settle() -> None:
            for _ in range(chain.depth):
                chain.mine()

        return ChainUnderTest(chain, chain.account(governance), chain.account(publisher), settle, b"b" * 32)
