"""The value that travels between stages: a partition's data together with the reference to its record.

Parents never have to be looked up: the reference comes with the data, through stealing, spilling and retries.
"""

from __future__ import annotations

import copy
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dask.sizeof import sizeof

from provenance.core.partitions import File, is_table

if TYPE_CHECKING:
    from provenance.core.digests import TreeEntry
    from provenance.core.lineage import Ref

__all__ = ["Carried", "Done", "shield"]

_FIXED = 400  # the reference's own bytes, roughly: ids, digests, names
_UNCHANGING = (str, bytes, int, float, complex, type(None))


@dataclass(frozen=True, slots=True)
class Carried:
    """One computed and recorded partition.

    ``records`` holds its record, and those of the stages that ran in the same task, where nothing is emitted.
    """

    data: Any
    ref: Ref
    records: tuple[bytes, ...] = ()

    def __repr__(self) -> str:
        """Never the data: Dask writes arguments into its logs."""
        return f"<partition {self.ref.number}>"


@dataclass(frozen=True, slots=True)
class Done:
    """What a sink's task returns to the driver: the reference and the files that now lie in the store."""

    ref: Ref
    entries: tuple[TreeEntry, ...] = ()
    records: tuple[bytes, ...] = ()


def _sizeof_carried(carried: Carried) -> int:
    return _FIXED * (1 + len(carried.ref.subjects)) + _sizeof_data(carried.data)


def _sizeof_file(file: File) -> int:
    return _FIXED + _sizeof_data(file.data)


def _sizeof_data(data: Any) -> int:
    if isinstance(data, list) and data and isinstance(data[0], File):
        return sum(_sizeof_file(item) for item in data)  # Dask would look at ten of them and guess
    return int(sizeof(data))


# Unregistered, a 4 MB frame reports 56 bytes, and a worker never thinks of spilling it.
sizeof.register(Carried, _sizeof_carried)
sizeof.register(File, _sizeof_file)


def shield(data: Any) -> Any:
    """The data as a transform gets it: it can change what it likes, and what was hashed stays as it is."""
    import numpy as np

    if isinstance(data, _UNCHANGING):
        return data
    if isinstance(data, np.ndarray):
        view = data.view()
        view.flags.writeable = False
        return view
    if isinstance(data, File):
        return data.with_data(shield(data.data))
    if type(data) is dict:
        return {name: shield(part) for name, part in data.items()}
    if type(data) is list:
        return [shield(item) for item in data]
    if not is_table(data):
        return copy.deepcopy(data)
    pandas = sys.modules.get("pandas")
    if pandas is not None and isinstance(data, pandas.DataFrame | pandas.Series):
        # From 3.0 on a shallow copy is written to apart from its original; before, only a deep one is.
        return data.copy(deep=int(pandas.__version__.partition(".")[0]) < 3)
    return data  # an Arrow table cannot be changed
