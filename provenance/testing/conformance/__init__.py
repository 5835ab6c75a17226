"""One suite per port: what every implementation of it must do, run against the fakes and the real adapters.

A suite is a class of tests with a fixture to fill in; pytest collects a subclass::

    from provenance.testing.conformance import EventLogConformance

    class TestMyLog(EventLogConformance):
        @pytest.fixture
        def open_log(self, tmp_path):
            return lambda: MyLog(tmp_path / "log")

``open_…`` opens the same storage each time it is called: what one handle wrote, another must read. It starts
empty.
"""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite(
    *(
        f"{__name__}.{name}"
        for name in ("batch_store", "chain", "clock", "event_log", "index", "journal", "names", "signer")
    )
)

from provenance.testing.conformance.batch_store import BatchStoreConformance  # noqa: E402 - rewritten first
from provenance.testing.conformance.chain import ChainConformance  # noqa: E402
from provenance.testing.conformance.clock import ClockConformance  # noqa: E402
from provenance.testing.conformance.event_log import EventLogConformance  # noqa: E402
from provenance.testing.conformance.index import IndexConformance  # noqa: E402
from provenance.testing.conformance.journal import JournalConformance  # noqa: E402
from provenance.testing.conformance.names import PrivateNamesConformance  # noqa: E402
from provenance.testing.conformance.signer import RecordSignerConformance  # noqa: E402

__all__ = [
    "BatchStoreConformance",
    "ChainConformance",
    "ClockConformance",
    "EventLogConformance",
    "IndexConformance",
    "JournalConformance",
    "PrivateNamesConformance",
    "RecordSignerConformance",
]
