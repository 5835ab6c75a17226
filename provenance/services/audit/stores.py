"""One stored place of a sink: its parts as their records have them, then the whole as the seal has it.

A part's record gives one digest for all of its objects. Which object differs is told by the store's list of
files (`provenance.core.tree_lists`), if the batch store has it. Each object is read once: for the tree of the
whole its leaf is kept, 64 bytes an object.
"""

from __future__ import annotations

import hashlib
import posixpath
import unicodedata
from typing import TYPE_CHECKING, Any

import numpy as np

from provenance.core import merkle
from provenance.core.digests import TreeEntry, tree1, tree_leaf
from provenance.core.tree_lists import decode_tree_list, tree_list_name
from provenance.errors import ProvenanceError
from provenance.services.audit.findings import Severity

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from provenance.core.kinds import StoreTree
    from provenance.core.records import Subject
    from provenance.ports import BatchStore, StoredFiles
    from provenance.services.audit.findings import Findings
    from provenance.services.audit.model import DataCounts

__all__ = ["StoreCheck", "Where", "is_below"]

_PHYSICAL = ("tree1-sha256", "sha256")
_NAMED = 20  # objects outside of all parts that a message names


class Where:
    """The stage, and the shard of it if there is one, that findings and counts belong to."""

    def __init__(
        self, findings: Findings, counts: DataCounts, *, run: bytes, stage: str, number: int | None = None
    ) -> None:
        self._findings, self._run = findings, run
        self.counts, self.stage, self.number = counts, stage, number

    def shard(self, number: int) -> Where:
        """The same for one shard."""
        return Where(self._findings, self.counts, run=self._run, stage=self.stage, number=number)

    def say(self, severity: Severity, code: str, message: str, **place: Any) -> None:
        """Add a finding."""
        where = f"stage {self.stage!r}" + ("" if self.number is None else f", shard {self.number}")
        place |= {"run": self._run.hex(), "stage": self.stage, "shard": self.number}
        self._findings.add(severity, "data", code, f"{where}: {message}", **place)

    def refuse(self, severity: Severity, code: str, error: ProvenanceError, **place: Any) -> None:
        """Add a finding about what could not be read; the error's text may hold a plain path."""
        self.say(severity, code, f"it cannot be read ({error.reason})", detail=error.message, **place)


class StoreCheck:
    """Checks what one sink stage stored.

    Args:
        files: reads the bytes.
        base: the place's path.
        tree: the whole store's digest and file count, if the seal gives them.
        store: may have the list of the store's files.
        where: the stage.
    """

    def __init__(
        self, files: StoredFiles, base: str, tree: StoreTree | None, store: BatchStore, where: Where
    ) -> None:
        self._files, self._base, self._tree, self._where = files, base, tree, where
        self._store, self._listed_once = store, False
        self._listed: dict[str, TreeEntry] = {}
        self._leaves = _Leaves()
        self._named: set[str] = set()

    def check_part(self, subject: Subject, number: int) -> bool:
        """Read one stored part again; False if it is not as its record says, which has then been said."""
        where = self._where.shard(number)
        kind = next((one for one in _PHYSICAL if one in subject.digest), None)
        if kind is None or not is_below(subject.name):
            code = "no-physical-digest" if kind is None else "unsafe-name"
            where.say(Severity.ERROR, code, "a part that cannot be found by its record", object=subject.name)
            return False
        where.counts.stored_parts += 1
        entries = self._read_part(subject.name, folder=kind == "tree1-sha256")
        actual = _part_digest(entries, subject.name, kind)
        if actual == subject.digest[kind]:
            return True
        if not entries:
            where.say(Severity.ERROR, "object-missing", "a stored part is gone", object=subject.name)
            return False
        if self._name_objects(subject.name, entries, where):
            return False
        where.say(
            Severity.ERROR,
            "object-changed",
            "a stored part has changed",
            object=subject.name,
            detail=posixpath.join(self._base, subject.name),
            expected=f"{kind}:{subject.digest[kind]}",
            actual=f"{kind}:{actual}",
        )
        return False

    def check_whole(self) -> None:
        """Compare the store as a whole with the seal, once all of its parts have been read."""
        if self._tree is None:
            return
        self._leaves.freeze()
        leaves: list[bytes] = []
        others: dict[str, TreeEntry] = {}
        missing = dict(self._list())
        for path in self._files.paths(self._base):
            name = unicodedata.normalize("NFC", path)
            missing.pop(name, None)
            leaf = self._leaves.find(name)
            if leaf is None:
                entry = self._read(path)
                if entry is None:
                    continue
                others[name] = entry
                leaf = merkle.leaf_hash(tree_leaf(entry))
            leaves.append(leaf)
        root = merkle.root(leaves)
        if (root, len(leaves)) == (self._tree.tree, self._tree.files):
            return
        listed = {name: self._listed[name] for name in others if name in self._listed}
        if self._listed:
            # With the list every difference has a name: in a part it was given before, elsewhere it is now.
            self._compare({**missing, **listed}, others, self._where)
            if self._named:
                return
        outside = f"; outside of its parts lie {', '.join(sorted(others)[:_NAMED])}" if others else ""
        self._where.say(
            Severity.ERROR,
            "store-changed",
            f"the store is not as it was sealed{outside}",
            expected=f"tree1-sha256:{self._tree.tree.hex()} over {self._tree.files} files",
            actual=f"tree1-sha256:{root.hex()} over {len(leaves)} files",
        )

    # ---------------------------------------------------------------------------------------------- reading

    def _read_part(self, name: str, *, folder: bool) -> list[TreeEntry]:
        paths = self._files.paths(posixpath.join(self._base, name)) if folder else ()
        names = (posixpath.join(name, path) for path in paths) if folder else (name,)
        entries = [entry for entry in map(self._read, names) if entry is not None]
        for entry in entries:
            self._leaves.add(entry)
        return entries

    def _read(self, path: str) -> TreeEntry | None:
        found = self._files.file(posixpath.join(self._base, path))
        if found is None:
            return None
        self._where.counts.objects += 1
        self._where.counts.bytes += found.size
        return TreeEntry(unicodedata.normalize("NFC", path), found.size, found.sha256)

    # ---------------------------------------------------------------------------------------- naming objects

    def _list(self) -> Mapping[str, TreeEntry]:
        if not self._listed_once and self._tree is not None:
            self._listed_once = True
            try:
                data = self._store.get(tree_list_name(self._tree.tree))
                if data is not None:
                    entries = decode_tree_list(data, self._tree.tree)
                    self._listed = {entry.path: entry for entry in entries}
            except ProvenanceError as error:
                self._where.say(Severity.WARNING, "tree-list", error.message)
        return self._listed

    def _name_objects(self, name: str, entries: Iterable[TreeEntry], where: Where) -> bool:
        """Name the objects of a part that differ; False if the store's list of files is not at hand."""
        listed = self._list().items()
        expected = {path: one for path, one in listed if path == name or path.startswith(f"{name}/")}
        return bool(expected) and self._compare(expected, {one.path: one for one in entries}, where)

    def _compare(
        self, expected: Mapping[str, TreeEntry], found: Mapping[str, TreeEntry], where: Where
    ) -> bool:
        """Say of each object that differs how; whether anything differs, said now or before."""
        different = [path for path in sorted({*expected, *found}) if expected.get(path) != found.get(path)]
        for path in different:
            if path not in self._named:
                self._named.add(path)
                _say_object(path, expected.get(path), found.get(path), where)
        return bool(different)


def _say_object(path: str, was: TreeEntry | None, now: TreeEntry | None, where: Where) -> None:
    if now is None:
        code, what = "object-missing", "is gone"
    elif was is None:
        code, what = "object-extra", "is not of this run"
    else:
        code, what = "object-changed", "has changed"
    where.say(
        Severity.ERROR,
        code,
        f"a stored object {what}",
        object=path,
        expected="" if was is None else f"sha256:{was.sha256.hex()}",
        actual="" if now is None else f"sha256:{now.sha256.hex()}",
    )


def is_below(name: str) -> bool:
    """Whether a name from a record stays below the folder that it is joined to."""
    return not posixpath.isabs(name) and ".." not in name.split("/") and "\0" not in name


def _part_digest(entries: list[TreeEntry], name: str, kind: str) -> str:
    if kind == "sha256":
        return entries[0].sha256.hex() if entries else ""
    return tree1(TreeEntry(one.path[len(name) + 1 :], one.size, one.sha256) for one in entries).hex


class _Leaves:
    """Tree leaves of objects by path, 64 bytes each: collected, then frozen, then looked up."""

    def __init__(self) -> None:
        self._paths, self._values = bytearray(), bytearray()
        self.freeze()

    def add(self, entry: TreeEntry) -> None:
        self._paths += hashlib.sha256(entry.path.encode()).digest()
        self._values += merkle.leaf_hash(tree_leaf(entry))

    def freeze(self) -> None:
        self._keys = np.frombuffer(bytes(self._paths), dtype="S32")
        self._order = np.argsort(self._keys)

    def find(self, path: str) -> bytes | None:
        key = hashlib.sha256(path.encode()).digest()
        at = int(np.searchsorted(self._keys, np.array(key, dtype="S32"), sorter=self._order))
        if at >= len(self._order):
            return None
        index = int(self._order[at]) * 32
        # Compared in the bytes themselves: NumPy gives a byte string back without its trailing zeros.
        return bytes(self._values[index : index + 32]) if self._paths[index : index + 32] == key else None
