"""Says what must not have happened, and what must.

Nothing wrong may be anchored, whatever happens: what is anchored of a partition is what its log told at one
time, from the stream's start on and without a gap. What was told to be final stays. Where log and chain still
fit together, everything recorded becomes final; where they no longer do, every batcher that comes upon it
stops, and says why.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from provenance.core.streams import binding_of
from provenance.ports import TxState
from provenance.testing.checker import Acknowledged, Violation, check_ledger

if TYPE_CHECKING:
    from provenance.core.streams import Opening
    from provenance.errors import ProvenanceError
    from provenance.ports import Anchor, Head
    from provenance.testing.simulation.processes import Batcher
    from provenance.testing.simulation.world import World

__all__ = ["Judge"]

_OF_LOSS = {
    "truncate": {"log-truncated", "log-rewritten"},
    "retention": {"log-retention", "log-rewritten"},
    "recreate": {"log-made-anew", "no-partition", "no-stream", "log-truncated", "log-rewritten"},
}


class Judge:
    """Watches one world.

    Args:
        world: which.
    """

    def __init__(self, world: World) -> None:
        self.violations: list[Violation] = []
        self._world = world
        self._told_final: dict[tuple[bytes, int], bytes] = {}
        self._files: dict[str, dict[int, bytes]] = {}

    def accuse(self, rule: str, where: str, what: str) -> None:
        """Note a violation."""
        self._world.note(f"VIOLATION {rule}: {where}: {what}")
        self.violations.append(Violation(rule, where, what))

    # ------------------------------------------------------------------------------------ while it goes on

    def on_final(self, anchor: Anchor) -> None:
        """A batcher said that an anchor is final."""
        self._world.note(f"batch {anchor.seq} of stream {anchor.stream.hex()[:8]} is final")
        known = self._told_final.setdefault((anchor.stream, anchor.seq), anchor.acc)
        if known != anchor.acc:
            self.accuse("final", f"batch {anchor.seq}", "two accumulators were told to be final")

    def check_stop(self, name: str, error: ProvenanceError, *, is_known: bool) -> None:
        """A batcher stopped for good: was there a reason?

        It may be the log's change while it ran; ``is_known`` says that it started behind the last one, when
        nothing was wrong.
        """
        if error.reason == "read-back" and self._world.store.torn:
            self._world.store.torn = False
            return
        if error.reason not in self._reasons():
            self.accuse("needless-stop", name, f"{error.reason}: {error.message}")
        is_calm = self._world.is_calm and is_known
        if is_calm and error.reason != "no-stream" and not self.conflicts():
            self.accuse("needless-stop", name, f"nothing is wrong now; {error.reason}: {error.message}")

    def is_final_at(self, partition: int, place: tuple[str, int], value: bytes) -> bool:
        """Whether a final batch holds this record at this place."""
        topic_id, offset = place
        for stream, opening in self._streams(partition, topic_id):
            for anchor in self._world.chain.anchors(stream):
                if (
                    anchor.first_offset <= offset < anchor.next_offset
                    and opening.start_offset <= offset
                    and self._world.chain.state_of(anchor.transaction) is TxState.FINAL
                ):
                    return self._leaves(anchor).get(offset) == value
        return False

    def conflicts(self) -> dict[int, set[str]]:
        """Partitions of which chain and log no longer tell one story, and the reasons to stop for it."""
        world = self._world
        found = {}
        for partition in range(world.scenario.partitions):
            reasons = self._conflict(partition) if world.log.identities() else set()
            if reasons:
                found[partition] = reasons
        return found

    def is_settled(self) -> bool:
        """Whether nothing is left to do: all is final, but for partitions where nothing can go on."""
        world = self._world
        conflicts = self.conflicts()
        going_on = self._going_on(conflicts)
        if world.outbox.waits_for(going_on):
            return False
        for partition in going_on:
            streams = self._streams(partition, world.log.topic_id)
            end = self._head(streams[-1][0]).next_offset if streams else 0
            if end < world.log.last(partition) + 1:
                return False
        if conflicts:
            return all(self._has_stopped(batcher, conflicts) for batcher in world.batchers)
        return not any(batcher.journal.entries() for batcher in world.batchers)

    # -------------------------------------------------------------------------------------------- at the end

    def check_end(self) -> None:
        """Everything, when all processes have ended."""
        world = self._world
        conflicts = self.conflicts()
        if not world.is_ending or not self.is_settled():
            waiting = [row for row in world.outbox.rows if not row.is_final]
            left = [batcher.name for batcher in world.batchers if batcher.journal.entries()]
            self.accuse("unsettled", "", f"{waiting} wait, {left} have entries, {conflicts} are known")
        self._check_stopped(conflicts)
        for (stream, seq), acc in self._told_final.items():
            anchor = next(world.chain.anchors(stream, seq), None)
            if anchor is None or anchor.acc != acc:
                self.accuse("final", f"batch {seq}", "it was told to be final, and is gone")
        self._check_ledger(conflicts)

    def _check_stopped(self, conflicts: dict[int, set[str]]) -> None:
        for batcher in self._world.batchers:
            if not self._has_stopped(batcher, conflicts):
                self.accuse("went-on", batcher.name, f"it did not stop although {conflicts}")

    def _has_stopped(self, batcher: Batcher, conflicts: dict[int, set[str]]) -> bool:
        reasons = {r for number in batcher.partitions() for r in conflicts.get(number, ())}
        if not reasons:
            return True
        seen = [error for when, error in batcher.stops if when >= self._world.scenario.chaos]
        return any(error.reason in reasons for error in seen)

    def _check_ledger(self, conflicts: dict[int, set[str]]) -> None:
        world = self._world
        held, acknowledged = {}, []
        for topic_id in world.log.topics():
            for partition in range(world.scenario.partitions):
                streams = self._streams(partition, topic_id)
                if not streams:
                    continue
                told = self._history_of(partition, topic_id, streams)
                if told is None:
                    self.accuse(
                        "mixed", f"partition {partition}", "no history of the log is what is anchored"
                    )
                    continue
                identity = world.log.identity(partition)
                end = max(self._head(stream).next_offset for stream, _ in streams)
                whole = topic_id == world.log.topic_id and partition in self._going_on(conflicts)
                start = streams[0][1].start_offset
                held[type(identity)(identity.cluster_id, identity.topic, topic_id, partition)] = {
                    offset: value
                    for offset, value in told.items()
                    if start <= offset and (whole or offset < end)
                }
        for partition, topic_id, offset, value in world.outbox.acknowledged:
            identity = world.log.identity(partition)
            identity = type(identity)(identity.cluster_id, identity.topic, topic_id, partition)
            if held.get(identity, {}).get(offset) == value:
                acknowledged.append(Acknowledged(identity, offset, value))
        self.violations += check_ledger(world.chain, world.store, acknowledged, held=held)

    def _history_of(
        self, partition: int, topic_id: str, streams: list[tuple[bytes, Opening]]
    ) -> dict[int, bytes] | None:
        """The history of which the streams' content is the beginning."""
        anchored: dict[int, bytes] = {}
        for stream, _ in streams:
            for anchor in self._world.chain.anchors(stream):
                anchored.update(self._leaves(anchor))
        start, end = streams[0][1].start_offset, self._head(streams[-1][0]).next_offset
        for told in self._world.log.histories(topic_id, partition):
            if {offset: value for offset, value in told.items() if start <= offset < end} == anchored:
                return told
        return None

    # ------------------------------------------------------------------------------------------------ looks

    def _reasons(self) -> set[str]:
        found = {reason for kind in self._world.lost for reason in _OF_LOSS[kind]}
        if self._world.scenario.depth and self._world.scenario.reorganisations:
            found |= {"stream-unknown", "refused"}  # its opening was reorganised out
        if self._world.scenario.divided or self._world.scenario.batchers > 1:
            found.add("no-stream")  # of one that may open none, before another one did
        return found

    def _going_on(self, conflicts: dict[int, set[str]]) -> set[int]:
        """The partitions that nothing keeps from going on; a topic that was made anew stops all of them."""
        if any("log-made-anew" in reasons for reasons in conflicts.values()):
            return set()
        return set(range(self._world.scenario.partitions)) - conflicts.keys()

    def _conflict(self, partition: int) -> set[str]:
        world = self._world
        start, end = world.log.ends(partition)
        streams = self._streams(partition, world.log.topic_id)
        if not streams:
            former = [
                stream
                for topic_id in world.log.topics()
                for stream, _ in self._streams(partition, topic_id)
                if any(name.startswith(stream.hex()) for name in world.store.objects)
            ]
            return set(_OF_LOSS["recreate"]) if former and end > start else set()
        head = self._head(streams[-1][0])
        if end < head.next_offset:
            return {"log-truncated", "log-rewritten"}
        if start > head.next_offset:
            return {"log-retention", "log-rewritten"}
        if head.seq and not self._has_last(partition, head):
            return {"log-rewritten", "log-truncated", "log-retention"}
        return set()

    def _has_last(self, partition: int, head: Head) -> bool:
        anchor = next(self._world.chain.anchors(head.stream, head.seq))
        data = self._world.store.objects.get(_name(anchor), b"")
        offset, value = max(self._leaves(anchor).items(), default=(-1, b""))
        message = self._world.log.at(partition, offset)
        epoch = f'"last_leader_epoch":{message.leader_epoch},'.encode() if message else b""
        return message is not None and message.value == value and epoch in data

    def _streams(self, partition: int, topic_id: str) -> list[tuple[bytes, Opening]]:
        identity = self._world.log.identity(partition)
        binding = binding_of(type(identity)(identity.cluster_id, identity.topic, topic_id, partition))
        return [(stream, opening) for stream, opening, _ in self._world.chain.openings(binding)]

    def _head(self, stream: bytes) -> Head:
        head = self._world.chain.head(stream)
        if head is None:
            raise LookupError(stream.hex())
        return head

    def _leaves(self, anchor: Anchor) -> dict[int, bytes]:
        name = _name(anchor)
        found = self._files.get(name)
        data = self._world.store.objects.get(name)
        if found is None and data is not None:
            found = self._files[name] = _read(data)
        return found or {}


def _name(anchor: Anchor) -> str:
    return f"{anchor.stream.hex()}/{anchor.seq:016d}-{anchor.acc.hex()}.batch"


def _read(data: bytes) -> dict[int, bytes]:
    at = 12 + struct.unpack_from(">8sI", data)[1]
    leaves = {}
    while at < len(data):
        offset, size = struct.unpack_from(">QI", data, at)
        leaves[offset] = data[at + 12 : at + 12 + size]
        at += 12 + size
    return leaves
