"""The transforms of the voice pipeline, one partition in, one out.

A partition of recordings is any sequence of files with a name, a speaker and bytes; all later ones are Arrow
tables with one row per recording. A recording that cannot be used stays as a row: its values are null and
``rejected`` says why, so that counts agree from the first stage to the last.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np
import pyarrow as pa

from pipeline.audio import Limits, decode
from pipeline.transforms import mel, mix, remove_silence, resample
from pipeline.unusable import UnusableAudioError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

__all__ = ["CLEAN", "SourceFile", "clean", "features", "features_schema", "recordings", "rejections"]

CLEAN = pa.schema(
    [
        pa.field("recording", pa.string(), nullable=False),
        pa.field("speaker", pa.string()),
        pa.field("samples", pa.large_list(pa.float32())),
        pa.field("rejected", pa.string()),
    ]
)
"""What `clean` makes: 16 kHz mono samples without silence, or null and a reason code."""


class SourceFile(Protocol):
    """A recording as it is found: its path below the root, who speaks, and the file's bytes."""

    @property
    def name(self) -> str:
        """The path below the root, with ``/``."""
        ...

    @property
    def key(self) -> str | None:
        """The speaker, if it is known."""
        ...

    @property
    def data(self) -> bytes:
        """The whole file."""
        ...


def features_schema(n_mels: int = 80) -> pa.Schema:
    """What `features` makes: log-mel frames, or null and a reason code."""
    return pa.schema(
        [
            pa.field("recording", pa.string(), nullable=False),
            pa.field("speaker", pa.string()),
            pa.field("features", pa.large_list(pa.list_(pa.float32(), n_mels))),
            pa.field("rejected", pa.string()),
        ]
    )


def clean(
    files: Iterable[SourceFile],
    *,
    threshold_db: float = -40.0,
    floor_db: float = -60.0,
    hangover_ms: int = 100,
    max_clipped: float = 0.01,
    on_bad_input: str = "reject",
) -> pa.Table:
    """Decode, mix to one channel, resample to 16 kHz and remove silence.

    Args:
        files: the recordings of one partition.
        threshold_db: see `pipeline.transforms.remove_silence`.
        floor_db: the same.
        hangover_ms: the same.
        max_clipped: share of the samples that may stand at full scale.
        on_bad_input: ``reject`` keeps an unusable recording as a row with its reason, ``stop`` raises.

    Returns:
        A table of the schema `CLEAN`, rows in the order of ``files``.

    Raises:
        UnusableAudioError: with ``stop``, for the first unusable recording.
    """
    limits = Limits(max_clipped=max_clipped)
    made: list[NDArray[np.float32] | None] = []
    reasons: list[str | None] = []
    names, speakers = [], []
    for file in files:
        names.append(file.name)
        speakers.append(file.key)
        try:
            audio = decode(file.data, limits=limits)
            samples = resample(mix(audio.samples), audio.rate)
            sound = remove_silence(
                samples, threshold_db=threshold_db, floor_db=floor_db, hangover_ms=hangover_ms
            )
        except UnusableAudioError as unusable:
            if on_bad_input == "stop":
                raise unusable.named(file.name) from None
            made.append(None)
            reasons.append(unusable.reason)
        else:
            made.append(sound)
            reasons.append(None)
    return pa.table([names, speakers, _lists(made), pa.array(reasons, pa.string())], schema=CLEAN)


def features(table: pa.Table, *, n_mels: int = 80) -> pa.Table:
    """Log-mel features of every recording that was not rejected.

    Args:
        table: what `clean` made.
        n_mels: number of bands.

    Returns:
        A table of the schema `features_schema`, rows in the order of ``table``.
    """
    schema = features_schema(n_mels)
    made = [None if value is None else mel(value, n_mels=n_mels) for value in _arrays(table["samples"])]
    columns = [table["recording"], table["speaker"], _lists(made, n_mels), table["rejected"]]
    return pa.table(columns, schema=schema)


def recordings(table: pa.Table) -> Iterator[tuple[NDArray[np.float32], str, str]]:
    """The usable rows as a model takes them: (features ``[frames, n_mels]``, speaker, recording).

    Rows without a speaker are left out.
    """
    bands = table.schema.field("features").type.value_type.list_size
    speakers, names = table["speaker"].to_pylist(), table["recording"].to_pylist()
    for values, speaker, name in zip(_arrays(table["features"]), speakers, names, strict=True):
        if values is not None and speaker is not None:
            yield values.reshape(-1, bands), speaker, name


def rejections(table: pa.Table) -> list[tuple[str, str]]:
    """The recordings that could not be used, with their reason codes, in the order of the table."""
    pairs = zip(table["recording"].to_pylist(), table["rejected"].to_pylist(), strict=True)
    return [(name, reason) for name, reason in pairs if reason is not None]


def _arrays(column: pa.ChunkedArray) -> Iterator[NDArray[np.float32] | None]:
    """The lists of a column as flat float32 arrays, without a copy; null stays None."""
    for chunk in column.chunks:
        values = chunk.values
        size = 1
        if pa.types.is_fixed_size_list(values.type):
            size, values = values.type.list_size, values.values
        flat = values.to_numpy()
        ends = chunk.offsets.to_numpy() * size
        for place, valid in enumerate(chunk.is_valid().to_pylist()):
            yield flat[ends[place] : ends[place + 1]] if valid else None


def _lists(made: Sequence[NDArray[np.float32] | None], width: int = 0) -> pa.Array:
    """An Arrow array of lists of numbers, or of rows of ``width`` numbers; None becomes null."""
    lengths = [0 if item is None else len(item) for item in made]
    offsets = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]).astype(np.int64)
    present = [item.reshape(-1) for item in made if item is not None]
    values = pa.array(np.concatenate(present) if present else np.zeros(0, np.float32), pa.float32())
    if width:
        values = pa.FixedSizeListArray.from_arrays(values, width)
    missing = pa.array([item is None for item in made], pa.bool_())
    return pa.LargeListArray.from_arrays(pa.array(offsets), values, mask=missing)
