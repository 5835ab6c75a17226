"""The six first kinds of record, each as a frozen dataclass that becomes a statement and comes back from one.

Ids and digests are raw bytes here and 64 hex digits in the statement. An absent optional field is left out,
never null (`spec/records.md`, "Fields of the
predicate").
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from provenance.core.lists import EMPTY_LIST, ListHead
from provenance.core.records import Statement, Subject
from provenance.core.schemas import MAX_INPUTS, MAX_SUBJECTS
from provenance.errors import MalformedError

if TYPE_CHECKING:
    import builtins
    from collections.abc import Mapping

    from provenance.core.canonical import JSONObject

__all__ = [
    "Consumption",
    "Dataset",
    "Input",
    "InputRoot",
    "Partition",
    "Run",
    "Seal",
    "SealedStage",
    "Stage",
    "StoreTree",
    "Transform",
]


def _optional(**fields: object) -> JSONObject:
    return {name: value for name, value in fields.items() if value is not None}


def _hex(value: bytes | None) -> str | None:
    return None if value is None else value.hex()


def _raw(text: str | None) -> bytes | None:
    return None if text is None else bytes.fromhex(text)


def _expect(statement: Statement, kind: str) -> JSONObject:
    if statement.kind != kind:
        raise MalformedError(f"{statement.kind} record: expected a {kind} record", reason="other-kind")
    return statement.predicate


@dataclass(frozen=True, slots=True)
class Dataset:
    """What the data is and what may be done with it; the descriptor file holds the rest.

    ``descriptor`` is its SHA-256.
    """

    name: str
    version: str
    licence: str
    names_are_personal: bool
    descriptor: bytes

    def statement(self) -> Statement:
        """The dataset record's statement."""
        return Statement(
            "dataset",
            (Subject("dataset.toml", {"sha256": self.descriptor.hex()}),),
            {
                "name": self.name,
                "version": self.version,
                "licence": self.licence,
                "names_are_personal": self.names_are_personal,
                "descriptor": self.descriptor.hex(),
            },
        )

    @classmethod
    def from_statement(cls, statement: Statement) -> Dataset:
        """From a decoded dataset record."""
        predicate = _expect(statement, "dataset")
        return cls(**{**predicate, "descriptor": bytes.fromhex(predicate["descriptor"])})


@dataclass(frozen=True, slots=True)
class Run:
    """One execution of a pipeline; the record's id is the run id.

    ``nonce`` is 16 bytes; ``source_tree`` the tree1 of the pipeline's sources.
    """

    name: str
    nonce: bytes
    datasets: tuple[bytes, ...]
    source_tree: bytes
    dirty: bool
    environments: ListHead
    seeds: Mapping[str, int]
    started: str
    producer: tuple[str, str]
    commit: str | None = None
    lockfile: bytes | None = None

    def statement(self) -> Statement:
        """The run record's statement."""
        predicate = {
            "name": self.name,
            "nonce": self.nonce.hex(),
            "datasets": [dataset.hex() for dataset in self.datasets],
            "dirty": self.dirty,
            "environments": self.environments.as_json(),
            "seeds": dict(self.seeds),
            "started": self.started,
            "producer": {"name": self.producer[0], "version": self.producer[1]},
            **_optional(commit=self.commit, lockfile=_hex(self.lockfile)),
        }
        return Statement("run", (Subject("pipeline", {"tree1-sha256": self.source_tree.hex()}),), predicate)

    @classmethod
    def from_statement(cls, statement: Statement) -> Run:
        """From a decoded run record."""
        predicate = _expect(statement, "run")
        return cls(
            name=predicate["name"],
            nonce=bytes.fromhex(predicate["nonce"]),
            datasets=tuple(bytes.fromhex(dataset) for dataset in predicate["datasets"]),
            source_tree=bytes.fromhex(statement.subjects[0].digest["tree1-sha256"]),
            dirty=predicate["dirty"],
            environments=ListHead.from_json(predicate["environments"]),
            seeds=predicate["seeds"],
            started=predicate["started"],
            producer=(predicate["producer"]["name"], predicate["producer"]["version"]),
            commit=predicate.get("commit"),
            lockfile=_raw(predicate.get("lockfile")),
        )


@dataclass(frozen=True, slots=True)
class Transform:
    """What a stage runs: qualified name, SHA-256 of its source.

    Of its normalised syntax tree and of its captured values, package and version.
    """

    name: str
    source: bytes
    syntax: bytes
    captured: bytes
    package: str


@dataclass(frozen=True, slots=True)
class Stage:
    """One step of a run.

    ``schema`` is the declared one as (name, type) pairs; without ``partitions`` their number is known at the
    seal only.
    """

    run: bytes
    name: str
    parents: tuple[bytes, ...]
    transform: Transform
    parameters: JSONObject = field(default_factory=dict)
    profile: str = "exact"
    tolerances: Mapping[str, str] = field(default_factory=dict)
    schema: tuple[tuple[str, str], ...] | None = None
    partitions: int | None = None

    def statement(self) -> Statement:
        """The stage record's statement."""
        transform = self.transform
        predicate = {
            "run": self.run.hex(),
            "name": self.name,
            "parents": [parent.hex() for parent in self.parents],
            "transform": {
                "name": transform.name,
                "syntax": transform.syntax.hex(),
                "captured": transform.captured.hex(),
                "package": transform.package,
            },
            "parameters": self.parameters,
            "profile": self.profile,
            "tolerances": dict(self.tolerances),
            **_optional(
                schema=None if self.schema is None else [list(column) for column in self.schema],
                partitions=self.partitions,
            ),
        }
        return Statement("stage", (Subject(transform.name, {"sha256": transform.source.hex()}),), predicate)

    @classmethod
    def from_statement(cls, statement: Statement) -> Stage:
        """From a decoded stage record."""
        predicate = _expect(statement, "stage")
        transform, schema = predicate["transform"], predicate.get("schema")
        return cls(
            run=bytes.fromhex(predicate["run"]),
            name=predicate["name"],
            parents=tuple(bytes.fromhex(parent) for parent in predicate["parents"]),
            transform=Transform(
                name=transform["name"],
                source=bytes.fromhex(statement.subjects[0].digest["sha256"]),
                syntax=bytes.fromhex(transform["syntax"]),
                captured=bytes.fromhex(transform["captured"]),
                package=transform["package"],
            ),
            parameters=predicate["parameters"],
            profile=predicate["profile"],
            tolerances=predicate["tolerances"],
            schema=None if schema is None else tuple((name, kind) for name, kind in schema),
            partitions=predicate.get("partitions"),
        )


@dataclass(frozen=True, slots=True)
class Input:
    """One input partition: its record, the name of the subject that was read, all of its digests.

    And the byte range where a file was split.
    """

    record: bytes
    name: str
    digest: Mapping[str, str]
    range: tuple[int, int] | None = None

    def as_json(self) -> JSONObject:
        """As it stands in a partition record."""
        return {
            "record": self.record.hex(),
            "name": self.name,
            "digest": dict(self.digest),
            **_optional(range=None if self.range is None else list(self.range)),
        }


@dataclass(frozen=True, slots=True)
class InputRoot:
    """All inputs from one parent stage, above 64: how many records were really read.

    And the root over their ids by partition number.
    """

    stage: bytes
    count: int
    root: bytes

    def as_json(self) -> JSONObject:
        """As it stands in a partition record."""
        return {"stage": self.stage.hex(), "count": self.count, "root": self.root.hex()}


@dataclass(frozen=True, slots=True)
class Partition:
    """One output partition.

    ``subjects`` are its named parts, ``inputs`` sorted by (stage, partition, name); ``key`` a token,
    ``rejected`` a reason code.
    """

    run: builtins.bytes
    stage: builtins.bytes
    number: int
    rows: int
    bytes: int
    subjects: tuple[Subject, ...]
    inputs: tuple[Input, ...] | tuple[InputRoot, ...]
    key: str | None = None
    rejected: str | None = None

    def statement(self) -> Statement:
        """The partition record's statement; refuses more parts or inputs than a record may list."""
        if len(self.subjects) > MAX_SUBJECTS:
            raise MalformedError(
                f"partition {self.number}: {len(self.subjects)} parts, expected at most {MAX_SUBJECTS}",
                reason="subjects",
            )
        if len(self.inputs) > MAX_INPUTS:
            raise MalformedError(
                f"partition {self.number}: {len(self.inputs)} inputs listed, expected at most {MAX_INPUTS}",
                reason="inputs",
            )
        predicate = {
            "run": self.run.hex(),
            "stage": self.stage.hex(),
            "number": self.number,
            "rows": self.rows,
            "bytes": self.bytes,
            "inputs": [entry.as_json() for entry in self.inputs],
            **_optional(key=self.key, rejected=self.rejected),
        }
        return Statement("partition", self.subjects, predicate)

    @classmethod
    def from_statement(cls, statement: Statement) -> Partition:
        """From a decoded partition record."""
        predicate = _expect(statement, "partition")
        return cls(
            run=bytes.fromhex(predicate["run"]),
            stage=bytes.fromhex(predicate["stage"]),
            number=predicate["number"],
            rows=predicate["rows"],
            bytes=predicate["bytes"],
            subjects=statement.subjects,
            inputs=_inputs(predicate["inputs"]),
            key=predicate.get("key"),
            rejected=predicate.get("rejected"),
        )


def _inputs(entries: list[JSONObject]) -> tuple[Input, ...] | tuple[InputRoot, ...]:
    if entries and "root" in entries[0]:
        return tuple(
            InputRoot(bytes.fromhex(entry["stage"]), entry["count"], bytes.fromhex(entry["root"]))
            for entry in entries
        )
    return tuple(
        Input(bytes.fromhex(entry["record"]), entry["name"], entry["digest"], _range(entry.get("range")))
        for entry in entries
    )


def _range(value: list[int] | None) -> tuple[int, int] | None:
    return None if value is None else (value[0], value[1])


@dataclass(frozen=True, slots=True)
class StoreTree:
    """The tree1 of a written store, and how many files it has."""

    tree: bytes
    files: int


@dataclass(frozen=True, slots=True)
class SealedStage:
    """What a seal says of one stage: counts.

    And the root over the ids of its counted records in partition order.
    """

    stage: builtins.bytes
    name: str
    partitions: int
    rows: int
    bytes: int
    root: builtins.bytes
    store: StoreTree | None = None
    set_aside: ListHead = EMPTY_LIST

    def as_json(self) -> JSONObject:
        """As it stands in a seal; the name goes to the subject."""
        store = None if self.store is None else {"tree": self.store.tree.hex(), "files": self.store.files}
        return {
            "stage": self.stage.hex(),
            "partitions": self.partitions,
            "rows": self.rows,
            "bytes": self.bytes,
            "root": self.root.hex(),
            "set_aside": self.set_aside.as_json(),
            **_optional(store=store),
        }

    @classmethod
    def from_json(cls, name: str, value: JSONObject) -> SealedStage:
        """From an entry of a decoded seal and its subject's name."""
        store = value.get("store")
        return cls(
            stage=bytes.fromhex(value["stage"]),
            name=name,
            partitions=value["partitions"],
            rows=value["rows"],
            bytes=value["bytes"],
            root=bytes.fromhex(value["root"]),
            store=None if store is None else StoreTree(bytes.fromhex(store["tree"]), store["files"]),
            set_aside=ListHead.from_json(value["set_aside"]),
        )


@dataclass(frozen=True, slots=True)
class Seal:
    """The end of a run: what counts.

    ``status`` is ``complete`` or ``aborted``; subjects are the stages' roots, in the order of ``stages``.
    """

    run: bytes
    status: str
    ended: str
    stages: tuple[SealedStage, ...]
    environments_added: ListHead = EMPTY_LIST

    def statement(self) -> Statement:
        """The seal's statement."""
        subjects = tuple(Subject(stage.name, {"rfc6962-sha256": stage.root.hex()}) for stage in self.stages)
        predicate = {
            "run": self.run.hex(),
            "status": self.status,
            "ended": self.ended,
            "environments_added": self.environments_added.as_json(),
            "stages": [stage.as_json() for stage in self.stages],
        }
        return Statement("seal", subjects, predicate)

    @classmethod
    def from_statement(cls, statement: Statement) -> Seal:
        """From a decoded seal; refuses one whose subjects are not its stages' roots."""
        predicate = _expect(statement, "seal")
        roots = [subject.digest.get("rfc6962-sha256") for subject in statement.subjects]
        if roots != [entry["root"] for entry in predicate["stages"]]:
            raise MalformedError("seal: its subjects are not the roots of its stages", reason="seal-subjects")
        names = [subject.name for subject in statement.subjects]
        return cls(
            run=bytes.fromhex(predicate["run"]),
            status=predicate["status"],
            ended=predicate["ended"],
            stages=tuple(
                SealedStage.from_json(name, entry)
                for name, entry in zip(names, predicate["stages"], strict=True)
            ),
            environments_added=ListHead.from_json(predicate["environments_added"]),
        )


@dataclass(frozen=True, slots=True)
class Consumption:
    """What a model was trained on.

    ``source`` is the run's or the release's id, ``checkpoint`` and ``code`` SHA-256, ``environment`` an id.
    """

    source: bytes
    stage: bytes
    checkpoint: bytes
    shards: ListHead
    order_seed: int
    epochs: int
    world_size: int
    precision: str
    verified: int
    unverified: int
    code: bytes
    environment: bytes
    is_release: bool = False

    def statement(self) -> Statement:
        """The consumption record's statement."""
        predicate: dict[str, Any] = {
            "release" if self.is_release else "run": self.source.hex(),
            "stage": self.stage.hex(),
            "shards": self.shards.as_json(),
            "order_seed": self.order_seed,
            "epochs": self.epochs,
            "world_size": self.world_size,
            "precision": self.precision,
            "verified": self.verified,
            "unverified": self.unverified,
            "code": self.code.hex(),
            "environment": self.environment.hex(),
        }
        return Statement(
            "consumption", (Subject("checkpoint", {"sha256": self.checkpoint.hex()}),), predicate
        )

    @classmethod
    def from_statement(cls, statement: Statement) -> Consumption:
        """From a decoded consumption record."""
        predicate = _expect(statement, "consumption")
        plain = {
            name: predicate[name]
            for name in ("order_seed", "epochs", "world_size", "precision", "verified", "unverified")
        }
        return cls(
            source=bytes.fromhex(predicate.get("release") or predicate["run"]),
            stage=bytes.fromhex(predicate["stage"]),
            checkpoint=bytes.fromhex(statement.subjects[0].digest["sha256"]),
            shards=ListHead.from_json(predicate["shards"]),
            code=bytes.fromhex(predicate["code"]),
            environment=bytes.fromhex(predicate["environment"]),
            is_release="release" in predicate,
            **plain,
        )
