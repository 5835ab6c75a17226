"""Recording by hand, for graphs that one does not rewrite: ``provenance.record`` and ``Run.recorder``.

A recorder is what a stage is told to workers as: it can be pickled into any task of any graph, makes the
record of an output there, and has it on the log when it returns. What it returns names the output as an input
of others.
"""

from __future__ import annotations

import itertools
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from provenance import files
from provenance.adapters.dask.places import hash_file
from provenance.adapters.dask.sources import show
from provenance.adapters.dask.steps import Made, Step, Work, record_made
from provenance.core.lineage import Ref
from provenance.core.partitions import Measured
from provenance.core.records import Subject
from provenance.core.runs import message_key
from provenance.core.tokens import name_token
from provenance.errors import ConfigError, UnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pyarrow as pa

    from provenance.adapters.dask.emission import Outlet
    from provenance.core.kinds import Stage
    from provenance.ports import PrivateNames

__all__ = ["ManualStages", "StageRecorder"]


@dataclass(frozen=True, slots=True)
class StageRecorder:
    """Records outputs of one stage; picklable, so that any task can use it."""

    run: bytes
    stage: bytes
    name: str
    parents: tuple[bytes, ...]
    outlet: Outlet
    schema: pa.Schema | None = field(default=None, compare=False)

    def record(self, output: Any, *, inputs: Sequence[Ref] = (), number: int, key: str | None = None) -> Ref:
        """Record an output; on the log when it returns.

        Args:
            output: a frame, a table, an array, a list, or a dict of named arrays and tables.
            inputs: what earlier calls, of this or other recorders of the run, returned.
            number: the partition's number in the stage, from 0; a retried task gives the same one.
            key: the token of what it holds.

        Raises:
            ConfigError: an input is of a stage that is no parent of this one.
        """
        return self._emit(Made(output, tuple(inputs), key), number)

    def _emit(self, made: Made, number: int) -> Ref:
        for ref in made.read:
            if ref.stage not in self.parents:
                raise ConfigError(
                    f"stage {self.name!r}: an input is of a stage that it does not name as a parent",
                    reason="no-parent",
                    remedy="Name all parents once: run.recorder(name, parents=[…]).",
                )
        step = Step(self.run, self.stage, self.name, _OUTSIDE, self.schema)
        ref, record = record_made(step, Work(self.name, number, None, ()), made)
        self.outlet.emit([(message_key(self.run, self.stage, number), record)])
        return ref


class _Outside:
    """Stands for work that was done elsewhere."""

    def apply(self, work: Work) -> Made:
        """Never called: what is recorded by hand was computed before."""
        raise NotImplementedError


_OUTSIDE = _Outside()


@dataclass(slots=True)
class ManualStages:
    """The stages of a run that are recorded by hand, on its driver.

    Attributes:
        make: describes, signs and publishes a stage: (name, function or None, parents, schema, parameters)
            to (id, stage, the first number that is free).
        outlet: of the run.
        names: the private store.
        personal: whether files' names become tokens.
    """

    make: Callable[..., tuple[bytes, Stage, int]]
    outlet: Outlet
    names: PrivateNames
    personal: bool
    _known: dict[str, StageRecorder] = field(default_factory=dict)
    _numbers: dict[str, Iterator[int]] = field(default_factory=dict)
    _root: Path = field(default_factory=Path.cwd)

    def recorder(
        self,
        name: str,
        fn: Callable[..., Any] | None,
        parents: Sequence[bytes],
        schema: pa.Schema | None,
        params: dict[str, Any],
    ) -> StageRecorder:
        """A stage's recorder; the stage is on the log when it returns."""
        stage_id, stage, first = self.make(name, fn, tuple(parents), schema, params)
        made = StageRecorder(stage.run, stage_id, name, stage.parents, self.outlet, schema)
        self._known[name] = made
        self._numbers[name] = itertools.count(first)
        return made

    def record(
        self,
        output: Any,
        *,
        inputs: Sequence[Ref | str | Path],
        stage: str,
        number: int | None,
        fn: Callable[..., Any] | None,
    ) -> Ref:
        """Record one output; a stage is made at its first."""
        read = [entry if isinstance(entry, Ref) else self._file(stage, entry) for entry in inputs]
        if stage not in self._known:
            self.recorder(stage, fn, list(dict.fromkeys(ref.stage for ref in read)), None, {})
        taken = next(self._numbers[stage]) if number is None else number
        return self._known[stage].record(output, inputs=read, number=taken)

    def _file(self, stage: str, where: str | Path) -> Ref:
        """A file as an input: one partition of a source stage beside the one that reads it."""
        files.refuse_address(where)
        name = f"{stage}.files"
        place = Path(os.path.normpath(Path(where).absolute()))
        if not place.is_relative_to(self._root):
            raise ConfigError(
                f"{show(str(where))}: it lies outside of {self._root}",
                reason="outside",
                remedy="Start the program in a folder above the files that it records.",
            )
        if name not in self._known:
            made = self.recorder(name, None, [], None, {})
            self.names.remember([("location", made.stage.hex(), str(self._root))])
        path = place.relative_to(self._root).as_posix()
        token = name_token(self.names.secret(), path) if self.personal else path
        if self.personal:
            self.names.remember([("name", token, path)])
        try:
            entry = hash_file(place, path)
        except OSError as error:
            raise UnavailableError(
                f"{show(path)}: it cannot be read: {error.strerror}",
                reason="unreadable",
                remedy="Check the path and its permissions.",
            ) from error
        subject = Subject(token, {"sha256": entry.sha256.hex()})
        made_file = Made(None, (), measured=Measured((subject,), 1, entry.size))
        return self._known[name]._emit(made_file, next(self._numbers[name]))  # noqa: SLF001 - of this module
