"""What is sequenced, anchored and final, as log and chain say."""

from __future__ import annotations

import pytest

from provenance.services.status import look_at_log, look_at_streams
from provenance.testing.faults import Crash, Fault, Faults
from tests.services.batcher_world import World


def look(world: World):
    components = world.components()
    return look_at_streams(components.log, components.reader, components.publisher, org=1)


def counts(world: World) -> list[tuple[int, int, int]]:
    return [(part.waiting, part.anchored, part.final) for part in look(world)]


def test_before_anything_is_anchored_all_is_sequenced() -> None:
    world = World()
    assert counts(world) == [(0, 0, 0)]
    world.write(b"a", b"b")
    assert counts(world) == [(2, 0, 0)]
    assert [part.waiting for part in look_at_log(world.log)] == [2]


def test_what_is_anchored_is_final_by_the_chain_s_own_rule() -> None:
    world = World(depth=2, automine=False)
    world.write(b"first")
    world.run()
    world.write(*(b"%d" % number for number in range(4)))
    faults = Faults()
    faults.on("account.send", Fault.CRASH_AFTER)
    with pytest.raises(Crash):
        world.run(faults)
    assert counts(world) == [(4, 0, 1)]
    world.chain.mine()
    assert counts(world) == [(0, 4, 1)]
    world.chain.mine()
    world.chain.mine()
    assert counts(world) == [(0, 0, 5)]
    world.write(b"more")
    assert counts(world) == [(1, 0, 5)]


def test_every_partition_is_shown() -> None:
    world = World(partitions=3)
    world.write(b"one")
    world.run()
    found = look(world)
    assert [part.log.partition for part in found] == [0, 1, 2]
    assert sorted(part.final for part in found) == [0, 0, 1]
    assert sum(part.head is None for part in found) == 2
