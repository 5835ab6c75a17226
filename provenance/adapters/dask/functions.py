"""Who a transform is: reading a function's source, what it captures, and its place among the modules.

The digests are `provenance.core.transforms`; this is the part that looks into live objects and files. Code of
installed packages and of Python itself counts by name and version, the project's own code by its syntax tree:
also that of the functions, classes and modules that a transform refers to, so that a changed helper is a
changed transform. What cannot be identified is refused when the stage is made, never guessed.
"""

from __future__ import annotations

import dis
import functools
import hashlib
import importlib
import importlib.metadata
import inspect
import linecache
import logging
import sys
import textwrap
import threading
import types
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dask

from provenance.adapters.dask.source_text import function_source, no_source
from provenance.core.kinds import Transform
from provenance.core.transforms import named_digest, syntax_digest, value_digest
from provenance.errors import ConfigError, ProvenanceError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["bind", "builtin_transform", "identify", "import_function", "is_importable", "transform_name"]

_MAIN = "__main__"
_PACKAGES = frozenset({"site-packages", "dist-packages"})
_OURS = "provenance.adapters.dask"
_LOCKS = (type(threading.Lock()), type(threading.RLock()), threading.local)


def bind(fn: Callable[..., Any], values: dict[str, Any]) -> tuple[Callable[..., Any], dict[str, Any]]:
    """The function behind a `functools.partial` and its bound arguments, joined with the parameters.

    Raises:
        ConfigError: ``transform-partial`` for arguments bound by position: a record names parameters.
    """
    while isinstance(fn, functools.partial):
        if fn.args:
            raise ConfigError(
                "the transform is a partial with arguments bound by position, which a record cannot name",
                reason="transform-partial",
                remedy="Bind them by name: functools.partial(function, name=value).",
            )
        values = {**fn.keywords, **values}
        fn = fn.func
    return fn, values


def identify(fn: Callable[..., Any]) -> Transform:
    """A transform's qualified name, digests and package.

    Raises:
        ConfigError: ``transform-type``, ``source-missing``, ``source-differs``, ``captured-value``; the
            message names the transform and what stands in the way.
    """
    if not callable(fn):
        raise ConfigError(
            f"a {type(fn).__qualname__} is no transform",
            reason="transform-type",
            remedy="Give a function: stage(name, function, parameter=value).",
        )
    name = transform_name(fn)
    try:
        source, syntax, captured = _Inspector().describe(fn)
    except ProvenanceError as error:
        raise ConfigError(
            f"transform {name}: {error.message}", reason=error.reason, remedy=error.remedy
        ) from error
    return Transform(name, source_digest(source), syntax, captured, _package(_module_of(fn)))


def builtin_transform(name: str, version: str) -> Transform:
    """The identity of a source or sink of this package: its name and the package's version."""
    digest = named_digest("builtin", name, version)
    return Transform(
        f"provenance:{name}", digest, digest, named_digest("nothing"), f"provenance-ledger {version}"
    )


def source_digest(source: str) -> bytes:
    """SHA-256 of source text: the subject of a stage record."""
    return hashlib.sha256(source.encode("utf-8", "surrogatepass")).digest()


def transform_name(fn: Callable[..., Any]) -> str:
    """``module:qualified.name``; a program run with ``python -m`` has the name that it can be imported by."""
    own = getattr(fn, "__qualname__", None) or getattr(fn, "__name__", None)
    qualname = own or type(fn).__qualname__
    return f"{_module_name(_module_of(fn))}:{qualname}"


def is_importable(fn: Callable[..., Any]) -> bool:
    """Whether a fresh process can find the very function by its name, as a replay does."""
    module, _, qualname = transform_name(fn).partition(":")
    if module == _MAIN or "<" in qualname:
        return False
    found: Any = sys.modules.get(_MAIN if _is_main(module) else module)
    for part in qualname.split("."):
        found = getattr(found, part, None)
    return found is fn


def import_function(name: str) -> Callable[..., Any]:
    """The function that a stage record names.

    Raises:
        ConfigError: ``transform-import``, there is none here.
    """
    module_name, _, qualname = name.partition(":")
    try:
        found: Any = importlib.import_module(module_name)
        for part in qualname.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(
            f"transform {name}: it cannot be imported here ({error})",
            reason="transform-import",
            remedy="Install the pipeline's code where the replay runs. A function of a notebook or a lambda "
            "cannot be replayed: put it into a module.",
        ) from error
    if not callable(found):
        raise ConfigError(f"transform {name}: it is no function", reason="transform-import")
    return found  # type: ignore[no-any-return]


# ------------------------------------------------------------------------------------------ modules, packages


def _module_of(fn: Any) -> str:
    return getattr(fn, "__module__", None) or getattr(type(fn), "__module__", None) or "builtins"


def _module_name(module: str) -> str:
    if module != _MAIN:
        return module
    spec = getattr(sys.modules.get(_MAIN), "__spec__", None)
    return spec.name if spec is not None else _MAIN


def _is_main(module: str) -> bool:
    return module == _module_name(_MAIN)


@functools.cache
def _distributions() -> dict[str, list[str]]:
    return dict(importlib.metadata.packages_distributions())


@functools.cache
def _package(module: str) -> str:
    """``name version`` of what the module was installed with; its top-level name if it was not."""
    top = _module_name(module).partition(".")[0]
    if top in sys.stdlib_module_names:
        return f"python {sys.version_info.major}.{sys.version_info.minor}"
    for name in _distributions().get(top, ()):
        return f"{name} {importlib.metadata.version(name)}"[:256]
    return top[:256]


def _is_installed(module: str) -> bool:
    """Whether a module's code comes with Python or an installed package, and so is known by a version."""
    top = module.partition(".")[0]
    if top == "provenance" or top in sys.builtin_module_names or top in sys.stdlib_module_names:
        return True
    place = getattr(sys.modules.get(module), "__file__", None)
    return place is not None and not _PACKAGES.isdisjoint(Path(place).parts)


# ------------------------------------------------------------------------------------------------- looking in


@dataclass(slots=True)
class _Inspector:
    """Describes one function and everything that it refers to, each once."""

    _seen: set[int] = field(default_factory=set)

    def describe(self, fn: Any) -> tuple[str, bytes, bytes]:
        """(source, syntax digest, captured digest)."""
        if isinstance(fn, types.MethodType):
            source, syntax, captured = self.describe(fn.__func__)
            owner = self.value(fn.__self__, "self")
            return source, syntax, named_digest("method", captured, owner)
        if isinstance(fn, types.FunctionType):
            source = function_source(fn)
            return source, syntax_digest(source), self._captured(fn)
        if isinstance(fn, type):
            return self._describe_class(fn)
        wrapped = getattr(fn, "__wrapped__", None)
        if isinstance(wrapped, types.FunctionType) and type(fn).__module__ == "functools":
            return self.describe(wrapped)  # functools.cache and its like add nothing to the result
        if isinstance(fn, types.BuiltinFunctionType) or not _has_python_call(fn):
            digest = named_digest("compiled", transform_name(fn), _package(_module_of(fn)))
            return "", digest, named_digest("nothing")
        source, syntax, captured = self._describe_class(type(fn))
        return source, syntax, named_digest("object", captured, self._state(fn, "the object"))

    def _captured(self, fn: types.FunctionType) -> bytes:
        self._seen.add(id(fn))
        parts: list[str | bytes] = []
        for name, value in sorted(_references(fn), key=lambda pair: pair[0]):
            parts += [name, self.value(value, name)]
        return named_digest("captured", *parts)

    def value(self, value: Any, name: str) -> bytes:
        """The digest of a value that stands under a name in the code."""
        try:
            return value_digest(value, self._other)
        except ProvenanceError as error:
            raise ConfigError(
                f"it uses {name!r}, and {error.message}", reason="captured-value", remedy=error.remedy
            ) from error

    def _other(self, value: Any) -> bytes:
        if isinstance(value, types.ModuleType):
            return self._module(value)
        if isinstance(value, type | types.FunctionType | types.MethodType):
            return self._code(value)
        if isinstance(value, functools.partial):
            bound = value_digest([value.args, value.keywords], self._other)
            return named_digest("partial", self._other(value.func), bound)
        if type(value).__module__.startswith(_OURS) or dask.is_dask_collection(value):
            raise ConfigError(
                f"a {type(value).__qualname__} is data of a graph, not a value",
                remedy="Pass it as a parameter: stage(name, function, other=handle).",
            )
        if isinstance(value, (logging.Logger, *_LOCKS)):
            return named_digest("tool", type(value).__qualname__)
        if type(value).__module__ in {"typing", "types", "typing_extensions"}:
            return named_digest("type", repr(value))
        if callable(value) and not _has_python_call(value):
            return self._compiled(value)
        return named_digest("object", self._code(type(value)), self._state(value, type(value).__qualname__))

    def _compiled(self, value: Any) -> bytes:
        wrapped = getattr(value, "__wrapped__", None)
        if isinstance(wrapped, types.FunctionType):
            return self._code(wrapped)
        return named_digest("compiled", transform_name(value), _package(_module_of(value)))

    def _code(self, thing: Any) -> bytes:
        module = _module_of(thing)
        name = f"{_module_name(module)}:{getattr(thing, '__qualname__', '?')}"
        if id(thing) in self._seen:
            return named_digest("again", name)
        self._seen.add(id(thing))
        if _is_installed(module):
            return named_digest("installed", name, _package(module))
        _, syntax, captured = self.describe(thing)
        return named_digest("code", name, syntax, captured)

    def _module(self, module: types.ModuleType) -> bytes:
        name = _module_name(module.__name__)
        if id(module) in self._seen:
            return named_digest("again", name)
        self._seen.add(id(module))
        if _is_installed(module.__name__) or not getattr(module, "__file__", None):
            return named_digest("module", name, _package(module.__name__))
        lines = linecache.getlines(str(module.__file__))
        return named_digest("module", name, syntax_digest("".join(lines)))

    def _describe_class(self, kind: type) -> tuple[str, bytes, bytes]:
        self._seen.add(id(kind))
        try:
            source = textwrap.dedent(inspect.getsource(kind))
        except (OSError, TypeError) as error:
            raise no_source(kind.__qualname__) from error
        # What a decorator generated (a dataclass's __repr__) has no source of its own, and adds nothing to
        # the class's.
        methods = [value for value in vars(kind).values() if isinstance(value, types.FunctionType)]
        file = inspect.getsourcefile(kind)
        captured = [self._captured(method) for method in methods if method.__code__.co_filename == file]
        bases = [self._code(base) for base in kind.__bases__ if base is not object]
        return source, syntax_digest(source), named_digest("class", *captured, *bases)

    def _state(self, value: Any, name: str) -> bytes:
        """The digest of an object's attributes; one whose state lies elsewhere has none."""
        if _is_installed(type(value).__module__) and not hasattr(value, "__dict__"):
            raise ConfigError(
                f"a {type(value).__module__}.{type(value).__qualname__} has no digest",
                remedy="Pass plain values as parameters, and make objects like it inside the transform.",
            )
        attributes = dict(getattr(value, "__dict__", {}))
        for kind in type(value).__mro__:
            slots = kind.__dict__.get("__slots__", ())
            for slot in (slots,) if isinstance(slots, str) else slots:
                if hasattr(value, slot):
                    attributes[slot] = getattr(value, slot)
        if id(value) in self._seen:
            return named_digest("again", name)
        self._seen.add(id(value))
        parts: list[str | bytes] = []
        for attribute in sorted(attributes):
            parts += [attribute, self.value(attributes[attribute], f"{name}.{attribute}")]
        return named_digest("state", *parts)


def _has_python_call(value: Any) -> bool:
    return isinstance(getattr(type(value), "__call__", None), types.FunctionType)  # noqa: B004 - which one, not whether


def _references(fn: types.FunctionType) -> Iterator[tuple[str, Any]]:
    """(name, value) of everything that a function takes from outside: closure, defaults, globals."""
    for name, cell in zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True):
        try:
            value = cell.cell_contents
        except ValueError:  # not assigned yet: a function that refers to itself
            continue
        if value is not fn:
            yield name, value
    yield "(defaults)", [list(fn.__defaults__ or ()), dict(fn.__kwdefaults__ or {})]
    for name in sorted(_global_names(fn.__code__)):
        if name in fn.__globals__ and fn.__globals__[name] is not fn:
            yield name, fn.__globals__[name]


def _global_names(code: types.CodeType) -> set[str]:
    names = {
        str(instruction.argval)
        for instruction in dis.get_instructions(code)
        if instruction.opname in {"LOAD_GLOBAL", "LOAD_NAME"}
    }
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names |= _global_names(constant)
    return names
