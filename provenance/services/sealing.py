"""The seal: what of a run counts, read from the log, signed, and put there as its last word.

It is written once. A seal whose acknowledgement was lost is found on the log by the next attempt, so a run
has one seal whatever crashes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from provenance.core import lists, records
from provenance.core.completeness import is_sink
from provenance.core.kinds import Seal, StoreTree
from provenance.core.lists import ListHead
from provenance.core.merkle import leaf_hash
from provenance.core.runs import environments_prefix, store_name
from provenance.core.sealing import RunTally
from provenance.core.tree_lists import decode_tree_list, tree_list_name
from provenance.errors import ConfigError, MalformedError, PendingError
from provenance.services.runlog import read_partitions, utc_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from provenance.core.digests import TreeEntry
    from provenance.core.kinds import Partition
    from provenance.core.runs import RunHistory
    from provenance.core.sealing import Sealable
    from provenance.ports import BatchStore
    from provenance.services.runlog import RunPorts

__all__ = ["check_not_sealed", "seal_run"]

_NAMED = 20


def check_not_sealed(history: RunHistory) -> None:
    """Raise ``ConfigError`` if the run has its seal."""
    if history.seal is not None:
        raise ConfigError(
            f"run {history.id.hex()}: it is sealed",
            reason="sealed",
            remedy="Start a new run: what is sealed is over.",
        )


def seal_run(
    history: RunHistory, status: str, *, ports: RunPorts, is_stored: Callable[[Partition], bool]
) -> bytes:
    """Count, sign and publish; durable when it returns.

    Args:
        history: of the run, read just before.
        status: ``"complete"`` or ``"aborted"``.
        ports: log, store, key and clock.
        is_stored: whether what a sink's record describes lies in the store; asked for divergent ones only.

    Returns:
        The seal's id.

    Raises:
        ConfigError: ``sealed``, it has a seal; ``status``.
        PendingError: ``partitions-missing``: it cannot be complete yet.
    """
    check_not_sealed(history)
    if status not in {"complete", "aborted"}:
        raise ConfigError(f"status {status!r}: expected 'complete' or 'aborted'", reason="status")
    sealable = _count(history, ports, is_stored)
    if status == "complete":
        _check_complete(history, sealable)
    for aside in sealable.set_aside.values():
        _put_list(ports.store, aside)
    seal = Seal(
        run=history.id,
        status=status,
        ended=utc_text(ports.clock.now()),
        stages=sealable.stages,
        environments_added=_put_list(ports.store, _added(history, ports.store)),
    )
    data = records.sign_record(seal.statement(), ports.signer)
    ports.log.append([(history.id, data)])
    return leaf_hash(data)


def _count(history: RunHistory, ports: RunPorts, is_stored: Callable[[Partition], bool]) -> Sealable:
    tally = RunTally(history.stages)
    for record, partition in read_partitions(history.id, ports):
        tally.add(record, partition)
    if tally.divergent:
        for record, partition in read_partitions(history.id, ports):
            tally.review(record, partition)
    stores = {stage: _store(history.id, stage, ports.store) for stage in history.stages}
    return tally.settle(is_stored, {stage: tree for stage, tree in stores.items() if tree is not None})


def _store(run: bytes, stage: bytes, store: BatchStore) -> StoreTree | None:
    tree = store.get(store_name(run, stage))
    if tree is None:
        return None
    data = store.get(tree_list_name(tree))
    if data is None:
        raise MalformedError(f"list of the files of store {tree.hex()}: it is gone", reason="no-tree-list")
    entries: tuple[TreeEntry, ...] = decode_tree_list(data, tree)
    return StoreTree(tree, len(entries))


def _check_complete(history: RunHistory, sealable: Sealable) -> None:
    for stage, numbers in sealable.missing:
        shown = ", ".join(map(str, numbers[:_NAMED])) + (" …" if len(numbers) > _NAMED else "")
        raise PendingError(
            f"stage {history.stages[stage].name!r}: {len(numbers)} partitions have no record yet: {shown}",
            reason="partitions-missing",
            remedy="Compute the stage again in this run, or seal the run as aborted.",
        )
    for sealed in sealable.stages:
        if is_sink(history.stages[sealed.stage]) and sealed.store is None:
            raise PendingError(
                f"stage {sealed.name!r}: its store was not finished",
                reason="store-unfinished",
                remedy="Compute the sink again in this run, or seal the run as aborted.",
            )


def _added(history: RunHistory, store: BatchStore) -> set[bytes]:
    """The environments that the run met and its record does not name."""
    prefix = environments_prefix(history.id)
    met = {bytes.fromhex(name.removeprefix(prefix)) for name in store.names(prefix)}
    initial = history.run.environments if history.run else lists.EMPTY_LIST
    data = store.get(lists.list_name(initial))
    known = set(lists.decode_list(data, initial)) if data is not None else set()
    return met - known


def _put_list(store: BatchStore, ids: Iterable[bytes]) -> ListHead:
    ids = set(ids)
    head = ListHead.over(ids)
    if ids:  # the empty list needs no file: its root says it
        store.put(lists.list_name(head), lists.encode_list(ids))
    return head
