"""What the driver of a run signs and publishes: the dataset, the run, its stages, its seal.

Workers publish bare partition records by themselves; the seal vouches for all of them. The order is what
makes the records mean something: the run is on the log before the first task, a stage before any partition
of it, the seal last. Drafting a stage costs a signature and writes nothing, so that a stage which is never
computed leaves no trace.

===================================== ===================================================================
a crash after                         means
===================================== ===================================================================
the descriptor, environments stored   nothing: objects of the batch store that no record names
the dataset record                    nothing: the next run writes the same bytes
the run record                        a run without stages; it is never sealed
stages                                the run can be attached to and goes on
===================================== ===================================================================
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from provenance.core import records
from provenance.core.descriptor import decode_descriptor
from provenance.core.digests import tree1
from provenance.core.kinds import Dataset, Run
from provenance.core.lists import ListHead, decode_list, encode_list, list_name
from provenance.core.merkle import leaf_hash
from provenance.core.runs import encode_environment, environment_name, starts_name, store_name
from provenance.core.tree_lists import encode_tree_list, tree_list_name
from provenance.errors import ConfigError, MalformedError
from provenance.services import runlog, sealing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from provenance.core.canonical import JSONObject
    from provenance.core.digests import TreeEntry
    from provenance.core.kinds import Partition, Stage
    from provenance.core.runs import RunHistory
    from provenance.services.runlog import RunPorts

__all__ = ["DriverRecorder", "RunFacts", "attach_run", "start_run"]


@dataclass(frozen=True, slots=True)
class RunFacts:
    """What is known of a run before it starts, apart from its data.

    Attributes:
        name: the run's name.
        descriptors: the datasets' ``dataset.toml`` files, as bytes.
        environments: a document for each different worker environment.
        source: the files of the pipeline's source.
        producer: name and version of the program that records.
        dirty: whether the source differs from the commit, or there is no commit.
        commit: of the source, in hex.
        lockfile: SHA-256 of the lock file.
        seeds: by name.
    """

    name: str
    descriptors: Sequence[bytes]
    environments: Sequence[JSONObject]
    source: Sequence[TreeEntry]
    producer: tuple[str, str]
    dirty: bool = True
    commit: str | None = None
    lockfile: bytes | None = None
    seeds: Mapping[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class DriverRecorder:
    """A `Recorder` over a log and a batch store.

    Attributes:
        id: of the run.
        run: its record.
        datasets: what it reads.
        ports: log, store, key and clock.
        is_stored: whether what a divergent record of a sink describes lies in the store.
    """

    id: bytes
    run: Run
    datasets: tuple[Dataset, ...]
    ports: RunPorts
    is_stored: Callable[[Partition], bool]
    stages: dict[bytes, Stage] = field(default_factory=dict)
    _drafts: dict[bytes, tuple[Stage, bytes]] = field(default_factory=dict)

    def environments(self) -> frozenset[bytes]:
        """The ids of the environments that the run's record names."""
        head = self.run.environments
        data = self.ports.store.get(list_name(head))
        return frozenset(decode_list(data, head)) if data is not None else frozenset()

    def draft(self, stage: Stage) -> bytes:
        """Sign a stage's record; nothing is written."""
        data = records.sign_record(stage.statement(), self.ports.signer)
        record = leaf_hash(data)
        self._drafts[record] = (stage, data)
        return record

    def publish(self, stages: Sequence[bytes]) -> None:
        """Put drafts on the log, durably, in the order given."""
        waiting = [stage for stage in stages if stage not in self.stages]
        names = {stage.name for stage in self.stages.values()}
        for record in waiting:
            name = self._drafts[record][0].name
            if name in names:
                raise ConfigError(
                    f"stage {name!r}: this run has another stage of that name",
                    reason="stage-name",
                    remedy="Give the stage another name, or start a new run.",
                )
            names.add(name)
        self.ports.log.append([(self.id, self._drafts[record][1]) for record in waiting])
        self.stages.update((record, self._drafts[record][0]) for record in waiting)

    def stored(self, stage: bytes, entries: Sequence[TreeEntry]) -> None:
        """Keep the tree of a finished store."""
        digest = tree1(entries)
        self.ports.store.put(tree_list_name(digest.value), encode_tree_list(digest.entries))
        self.ports.store.put(store_name(self.id, stage), digest.value)

    def seal(self, status: str) -> bytes:
        """Seal the run from what the log holds."""
        history = runlog.read_history(self.id, self.ports)
        return sealing.seal_run(history, status, ports=self.ports, is_stored=self.is_stored)


def start_run(facts: RunFacts, ports: RunPorts, is_stored: Callable[[Partition], bool]) -> DriverRecorder:
    """Publish a run's datasets and the run itself; durable when it returns, so that tasks may start.

    Raises:
        MalformedError: a descriptor is not what it should be; nothing was written.
        UnavailableError: the log or the store cannot be written to.
    """
    datasets = tuple(decode_descriptor(data).dataset() for data in facts.descriptors)
    for dataset, data in zip(datasets, facts.descriptors, strict=True):
        ports.store.put(f"datasets/{dataset.descriptor.hex()}.toml", data)
    environments = dict(encode_environment(document) for document in facts.environments)
    for environment, data in environments.items():
        ports.store.put(environment_name(environment), data)
    head = ListHead.over(environments)
    ports.store.put(list_name(head), encode_list(environments))
    source = tree1(facts.source)
    ports.store.put(tree_list_name(source.value), encode_tree_list(source.entries))
    signed = [records.sign_record(dataset.statement(), ports.signer) for dataset in datasets]
    run = Run(
        name=facts.name,
        nonce=secrets.token_bytes(16),
        datasets=tuple(sorted({leaf_hash(data) for data in signed})),
        source_tree=source.value,
        dirty=facts.dirty,
        environments=head,
        seeds=facts.seeds,
        started=runlog.utc_text(ports.clock.now()),
        producer=facts.producer,
        commit=facts.commit,
        lockfile=facts.lockfile,
    )
    data = records.sign_record(run.statement(), ports.signer)
    run_id = leaf_hash(data)
    ports.store.put(starts_name(run_id), runlog.encode_starts(ports.log))
    ports.log.append([*((leaf_hash(dataset), dataset) for dataset in signed), (run_id, data)])
    return DriverRecorder(run_id, run, datasets, ports, is_stored)


def attach_run(run: str, ports: RunPorts, is_stored: Callable[[Partition], bool]) -> DriverRecorder:
    """Go on with a run that another process, cell or script started.

    Raises:
        ConfigError: ``run-id`` (it is none), ``no-run`` (the log has no such run signed by our key),
        ``sealed``.
    """
    history, found = runlog.find_run(run, ports)
    sealing.check_not_sealed(history)
    datasets = tuple(_datasets(history, found, ports))
    return DriverRecorder(history.id, found, datasets, ports, is_stored, dict(history.stages))


def _datasets(history: RunHistory, run: Run, ports: RunPorts) -> Iterator[Dataset]:
    """The datasets of a run, from the records on the log; they are published just before it."""
    wanted = set(run.datasets)
    for value in runlog.read_values(history.id, ports):
        if not wanted:
            return
        if leaf_hash(value) in wanted:
            wanted.discard(leaf_hash(value))
            yield Dataset.from_statement(records.decode_record(value).statement)
    if wanted:
        raise MalformedError(
            f"run {history.id.hex()}: {len(wanted)} of its dataset records are not on the log",
            reason="no-dataset",
            remedy="Look whether the log was replaced or cut since the run began.",
        )
