"""Runs whose log is away for a while: they go on, and the seal counts what waited."""

from __future__ import annotations

import pytest

from provenance.core.runs import outbox_mark, outbox_marks
from provenance.errors import PendingError, UnavailableError
from provenance.services import runlog, sealing
from provenance.services.outbox import ATTEMPTS
from provenance.services.publish import attach_run, start_run
from provenance.testing.fakes import FakeOutbox
from provenance.testing.faults import Crash, Fault
from tests.services.outbox_world import OutboxWorld, down
from tests.services.run_world import Driver, facts, put, stage


class Kept:
    """A run whose log fails when it is told to, and what its workers send through."""

    def __init__(self) -> None:
        self.world = OutboxWorld(3)
        self.driver = Driver(log=self.world.faulty_log, store=self.world.store)
        self.outgoing = self.world.outgoing()
        ports = self.driver.ports
        self.ports = runlog.RunPorts(ports.log, ports.store, ports.signer, self.world.clock, self.outgoing)

    def start(self):
        return start_run(facts(), self.ports, self.driver.is_stored)

    def put(self, run: bytes, of: bytes, number: int):
        class Through:
            def append(_, records):  # noqa: N805 - stands where a log does
                self.outgoing.send(records, lambda: self.world.faulty_log)

        return put(Through(), run, of, number)


def test_a_run_goes_on_without_its_log_and_its_seal_counts_what_waited() -> None:
    kept = Kept()
    recorder = kept.start()
    down(kept.world, times=3)
    drafted = recorder.draft(stage(recorder.id, "numbers"))
    recorder.publish([drafted])
    ids = [kept.put(recorder.id, drafted, number)[0] for number in range(2)]
    depth = kept.world.outbox.depth()
    assert (depth.records, depth.unsent) == (3, 3)
    marks = {outbox_mark(recorder.id, record) for record in [drafted, *ids]}
    assert set(kept.world.store.names(outbox_marks(recorder.id))) == marks
    recorder.seal("complete")
    history = runlog.read_history(recorder.id, kept.ports)
    assert (list(history.stages), history.seal is not None) == ([drafted], True)
    assert {record for record, _ in runlog.read_partitions(recorder.id, kept.ports)} == set(ids)
    assert list(kept.world.store.names(outbox_marks(recorder.id))) == []


@pytest.mark.parametrize("status", ["complete", "aborted"])
def test_a_seal_waits_for_the_outbox_here(status: str) -> None:
    kept = Kept()
    recorder = kept.start()
    drafted = recorder.draft(stage(recorder.id, "numbers", partitions=1))
    recorder.publish([drafted])
    down(kept.world, times=1 + ATTEMPTS)
    kept.put(recorder.id, drafted, 0)
    with pytest.raises(PendingError, match="1 records wait in the outbox") as caught:
        recorder.seal(status)
    assert (caught.value.reason, "attach" in caught.value.remedy) == ("outbox-waits", True)
    recorder.seal(status)
    assert runlog.read_history(recorder.id, kept.ports).seal is not None


@pytest.mark.parametrize("status", ["complete", "aborted"])
def test_a_seal_waits_for_outboxes_elsewhere_that_it_cannot_see(status: str) -> None:
    kept = Kept()
    recorder = kept.start()
    drafted = recorder.draft(stage(recorder.id, "numbers", partitions=None))
    recorder.publish([drafted])
    kept.put(recorder.id, drafted, 0)
    elsewhere, kept.world.outbox = kept.world.outbox, FakeOutbox()
    kept.outgoing = kept.world.outgoing()
    down(kept.world)
    _, partition = kept.put(recorder.id, drafted, 1)
    far, kept.world.outbox = kept.world.outbox, elsewhere
    assert far.depth().unsent == 1
    with pytest.raises(PendingError, match="1 records wait in the outbox of some machine") as caught:
        recorder.seal(status)
    assert caught.value.reason == "outbox-waits"
    (row,) = far.rows(0, 10)
    kept.world.log.append([(row.key, row.value)])  # that machine sends it
    recorder.seal(status)
    found = [one for _, one in runlog.read_partitions(recorder.id, kept.ports)]
    assert partition in found
    assert list(kept.world.store.names(outbox_marks(recorder.id))) == []


def test_a_mark_of_a_task_that_died_before_it_kept_anything_goes_when_the_task_ran_again() -> None:
    kept = Kept()
    recorder = kept.start()
    drafted = recorder.draft(stage(recorder.id, "numbers", partitions=1))
    recorder.publish([drafted])
    down(kept.world)
    kept.world.faults.on("outbox.keep", Fault.CRASH_BEFORE)
    with pytest.raises(Crash):
        kept.put(recorder.id, drafted, 0)
    with pytest.raises(PendingError):
        sealing.seal_run(
            runlog.read_history(recorder.id, kept.ports),
            "aborted",
            ports=kept.ports,
            is_stored=lambda _: True,
        )
    kept.world.clock.sleep(60)
    record, _ = kept.put(recorder.id, drafted, 0)
    recorder.seal("complete")
    assert [one for one, _ in runlog.read_partitions(recorder.id, kept.ports)] == [record]


def test_a_store_that_cannot_take_the_mark_ends_the_task() -> None:
    kept = Kept()
    recorder = kept.start()
    drafted = recorder.draft(stage(recorder.id, "numbers", partitions=1))
    recorder.publish([drafted])
    down(kept.world)
    kept.world.faults.on("store.put", Fault.FAILED)
    with pytest.raises(UnavailableError, match=r"store\.put"):
        kept.put(recorder.id, drafted, 0)
    assert kept.world.waiting() == []


def test_stages_in_the_outbox_are_there_when_another_process_attaches() -> None:
    kept = Kept()
    recorder = kept.start()
    down(kept.world)
    drafted = recorder.draft(stage(recorder.id, "numbers"))
    recorder.publish([drafted])
    again = attach_run(recorder.id.hex(), kept.ports, kept.driver.is_stored)
    assert list(again.stages) == [drafted]
