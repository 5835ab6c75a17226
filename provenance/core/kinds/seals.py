"""What is known at the end: the seal of a run, and what a model was trained on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from provenance.core.kinds.fields import expect, optional
from provenance.core.lists import EMPTY_LIST, ListHead
from provenance.core.records import Statement, Subject
from provenance.errors import MalformedError

if TYPE_CHECKING:
    import builtins

    from provenance.core.canonical import JSONObject

__all__ = ["Consumption", "Seal", "SealedStage", "StoreTree"]


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
            **optional(store=store),
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
        predicate = expect(statement, "seal")
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
        predicate = expect(statement, "consumption")
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
