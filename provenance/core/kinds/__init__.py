"""The six first kinds of record, each as a frozen dataclass that becomes a statement and comes back from one.

Ids and digests are raw bytes here and 64 hex digits in the statement. An absent optional field is left out,
never null (`spec/records.md`, "Fields of the
predicate").
"""

from __future__ import annotations

from provenance.core.kinds.partitions import Input, InputRoot, Partition
from provenance.core.kinds.runs import Dataset, Run, Stage, Transform
from provenance.core.kinds.seals import Consumption, Seal, SealedStage, StoreTree

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
