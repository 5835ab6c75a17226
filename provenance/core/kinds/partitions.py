"""What one task made, and what it read for that."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from provenance.core.kinds.fields import expect, optional
from provenance.core.records import Statement, Subject
from provenance.core.schemas import MAX_INPUTS, MAX_SUBJECTS
from provenance.errors import MalformedError

if TYPE_CHECKING:
    import builtins
    from collections.abc import Mapping

    from provenance.core.canonical import JSONObject

__all__ = ["Input", "InputRoot", "Partition"]


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
            **optional(range=None if self.range is None else list(self.range)),
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
            **optional(key=self.key, rejected=self.rejected),
        }
        return Statement("partition", self.subjects, predicate)

    @classmethod
    def from_statement(cls, statement: Statement) -> Partition:
        """From a decoded partition record."""
        predicate = expect(statement, "partition")
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
