"""One NaN for all: a NaN's bits depend on the machine and the instruction that made it, and carry no data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["one_nan"]

_QUIET: dict[int, tuple[type[np.unsignedinteger[Any]], int]] = {
    2: (np.uint16, 0x7E00),
    4: (np.uint32, 0x7FC00000),
    8: (np.uint64, 0x7FF8000000000000),
}


def one_nan(values: NDArray[Any]) -> NDArray[Any]:
    """The floats with every NaN made the one of spec/digests.md; the same array if none is. -0.0 stays."""
    nans = np.isnan(values)
    if not nans.any():
        return values
    bits, quiet = _QUIET[values.dtype.itemsize]
    out = values.copy()
    out.view(bits)[nans] = quiet
    return out
