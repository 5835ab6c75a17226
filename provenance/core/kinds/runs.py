"""What is known before the first task: the dataset, the run, and each of its stages."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from provenance.core.kinds.fields import expect, hex_or_none, optional, raw_or_none
from provenance.core.lists import ListHead
from provenance.core.records import Statement, Subject

if TYPE_CHECKING:
    from collections.abc import Mapping

    from provenance.core.canonical import JSONObject

__all__ = ["Dataset", "Run", "Stage", "Transform"]


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
        predicate = expect(statement, "dataset")
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
            **optional(commit=self.commit, lockfile=hex_or_none(self.lockfile)),
        }
        return Statement("run", (Subject("pipeline", {"tree1-sha256": self.source_tree.hex()}),), predicate)

    @classmethod
    def from_statement(cls, statement: Statement) -> Run:
        """From a decoded run record."""
        predicate = expect(statement, "run")
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
            lockfile=raw_or_none(predicate.get("lockfile")),
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
            **optional(
                schema=None if self.schema is None else [list(column) for column in self.schema],
                partitions=self.partitions,
            ),
        }
        return Statement("stage", (Subject(transform.name, {"sha256": transform.source.hex()}),), predicate)

    @classmethod
    def from_statement(cls, statement: Statement) -> Stage:
        """From a decoded stage record."""
        predicate = expect(statement, "stage")
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
