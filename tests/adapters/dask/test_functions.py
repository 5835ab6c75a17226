"""Who a transform is: handled or refused, and changed by what changes its result."""

from __future__ import annotations

import functools
import importlib
import linecache
import logging
import math
import re
import sys
import textwrap
import threading
import types
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dask.bag
import numpy as np
import pytest

from provenance.adapters.dask.functions import (
    bind,
    builtin_transform,
    identify,
    import_function,
    is_importable,
    transform_name,
)
from provenance.errors import ConfigError
from tests import recorded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from provenance.core.kinds import Transform


class Modules:
    """Writes modules and imports them; a changed one is imported anew."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def load(self, source: str, name: str = "made_module") -> Any:
        sys.modules.pop(name, None)
        (self.folder / f"{name}.py").write_text(textwrap.dedent(source))
        linecache.checkcache()
        importlib.invalidate_caches()
        return importlib.import_module(name)

    def identify(self, source: str, function: str = "f", **others: str) -> Transform:
        for name, text in others.items():
            self.load(text, name)
        return identify(getattr(self.load(source), function))


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Modules]:
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    before = set(sys.modules)
    yield Modules(tmp_path)
    for name in set(sys.modules) - before:
        del sys.modules[name]


def cell(source: str, number: int) -> dict[str, Any]:
    """Run a cell as a notebook does: source in linecache, names in one namespace."""
    name = f"<ipython-input-{number}-abc>"
    source = textwrap.dedent(source)
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    space: dict[str, Any] = {"__name__": "__main__", "np": np}
    exec(compile(source, name, "exec"), space)
    return space


CELL = """\
limit = 3
def make(constant):
    def clean(x):
        # a comment
        return x * constant + limit
    return clean
f = make(2)
"""


def test_a_cell_that_is_run_again_is_the_same_transform() -> None:
    first, again = identify(cell(CELL, 1)["f"]), identify(cell(CELL, 2)["f"])
    assert first == again


def test_comments_and_layout_change_the_source_and_not_the_syntax() -> None:
    one = identify(cell(CELL, 3)["f"])
    other = identify(cell(CELL.replace("# a comment", "# another\n"), 4)["f"])
    assert (one.syntax, one.captured) == (other.syntax, other.captured)
    assert one.source != other.source


@pytest.mark.parametrize(("old", "new"), [("make(2)", "make(3)"), ("limit = 3", "limit = 4")])
def test_a_changed_constant_is_another_capture(old: str, new: str) -> None:
    one, other = identify(cell(CELL, 5)["f"]), identify(cell(CELL.replace(old, new), 6)["f"])
    assert one.syntax == other.syntax
    assert one.captured != other.captured


USES = """
import math
import numpy as np
from helper_module import helper, Helper, helped
import helper_module
SCALE = {"a": [1, 2]}
logger = __import__("logging").getLogger("x")
def inner(x): return x + 1
def f(x, *, more=1):
    logger.debug("x")
    return inner(x) + helper(x) + Helper(2).apply(x) + math.sin(np.abs(x)) + SCALE["a"][0] + helped(x)
def g(x): return helper_module.helper(x)
def unrelated(): return 1
"""
HELPER = """
import functools
CONSTANT = 5
def helper(x): return deeper(x)
def deeper(x): return x * CONSTANT
@functools.cache
def helped(x): return deeper(x)
class Base:
    scale = 2
class Helper(Base):
    def __init__(self, factor): self.factor = factor
    def apply(self, x): return x * self.factor * CONSTANT
"""


@pytest.mark.parametrize(
    ("old", "new", "where"),
    [
        ("x + 1", "x + 2", "uses"),
        ('"a": [1, 2]', '"a": [1, 3]', "uses"),
        ("more=1", "more=2", "uses"),
        ("deeper(x): return x", "deeper(x): return -x", "helper"),
        ("CONSTANT = 5", "CONSTANT = 6", "helper"),
        ("self.factor * CONSTANT", "self.factor + CONSTANT", "helper"),
        ("scale = 2", "scale = 3", "helper"),
    ],
)
def test_what_a_transform_uses_is_part_of_it(modules: Modules, old: str, new: str, where: str) -> None:
    one = modules.identify(USES, helper_module=HELPER)
    uses = USES.replace(old, new) if where == "uses" else USES
    helper = HELPER.replace(old, new) if where == "helper" else HELPER
    other = modules.identify(uses, helper_module=helper)
    assert (one.syntax, one.captured) != (other.syntax, other.captured)


@pytest.mark.parametrize(
    ("old", "new"),
    [("def unrelated(): return 1", "def unrelated(): return 2"), ("def inner", "# said\ndef inner")],
)
def test_what_it_does_not_use_is_not(modules: Modules, old: str, new: str) -> None:
    one = modules.identify(USES, helper_module=HELPER)
    assert one == modules.identify(USES.replace(old, new), helper_module=HELPER)


def test_a_module_that_is_used_counts_whole(modules: Modules) -> None:
    one = modules.identify(USES, "g", helper_module=HELPER)
    same = modules.identify(USES, "g", helper_module=HELPER + "# said\n")
    other = modules.identify(USES, "g", helper_module=HELPER.replace("CONSTANT = 5", "CONSTANT = 6"))
    assert one == same
    assert one.captured != other.captured


def test_functions_that_refer_to_each_other(modules: Modules) -> None:
    source = "def f(x): return g(x) if x else 0\ndef g(x): return f(x - 1)\n"
    assert modules.identify(source) == modules.identify(source)
    assert modules.identify(source) != modules.identify(source.replace("x - 1", "x - 2"))


def test_the_same_function_is_found_among_others_of_its_name(modules: Modules) -> None:
    source = """
    def outer():
        def f(x): return 1
        return f
    def f(x):
        return 2
    inner = outer()
    """
    module = modules.load(source)
    assert identify(module.f).source != identify(module.inner).source
    assert identify(module.f).name == "made_module:f"
    assert identify(module.inner).name == "made_module:outer.<locals>.f"


def test_lambdas_on_one_line_are_told_apart(modules: Modules) -> None:
    module = modules.load("a, b = (lambda x: x + 1), (lambda x: x + 2)\nc = lambda x: x + 1\n")
    first, second, third = map(identify, (module.a, module.b, module.c))
    assert first.syntax == third.syntax != second.syntax


def test_decorators_count(modules: Modules) -> None:
    source = "import functools\n@functools.lru_cache\ndef f(x): return x\n"
    assert modules.identify(source).syntax != modules.identify("def f(x): return x\n").syntax


def test_a_wrapped_function_counts_with_its_wrapper(modules: Modules) -> None:
    source = """
    import functools
    def twice(fn):
        @functools.wraps(fn)
        def inner(x): return fn(x) * 2
        return inner
    @twice
    def f(x): return x + 1
    """
    one = modules.identify(source)
    assert one != modules.identify(source.replace("* 2", "* 3"))
    assert one != modules.identify(source.replace("x + 1", "x + 2"))


# ------------------------------------------------------------------------------------------- other callables


def test_partials_become_parameters() -> None:
    fn = functools.partial(functools.partial(recorded.scale, factor=1.0), factor=3.0)
    assert bind(fn, {}) == (recorded.scale, {"factor": 3.0})
    assert bind(fn, {"factor": 4.0}) == (recorded.scale, {"factor": 4.0})


def test_a_partial_by_position_is_refused() -> None:
    with pytest.raises(ConfigError, match="by position") as refused:
        bind(functools.partial(recorded.scale, 1), {})
    assert refused.value.reason == "transform-partial"


@pytest.mark.parametrize("fn", [np.log1p, math.sin, np.linalg.norm, len])
def test_compiled_and_installed_functions_go_by_name_and_version(fn: Callable[..., Any]) -> None:
    found = identify(fn)
    module, _, name = found.name.partition(":")
    assert name.rpartition(".")[2] == fn.__name__
    assert module
    assert found == identify(fn)
    assert found.captured != identify(math.cos).captured or found.syntax != identify(math.cos).syntax


def test_objects_count_with_their_state(modules: Modules) -> None:
    source = """
    class Scale:
        __slots__ = ("factor",)
        def __init__(self, factor): self.factor = factor
        def __call__(self, x): return x * self.factor
        def method(self, x): return x + self.factor
    two, again, three = Scale(2), Scale(2), Scale(3)
    """
    module = modules.load(source)
    assert identify(module.two) == identify(module.again)
    assert identify(module.two).captured != identify(module.three).captured
    assert identify(module.two.method).captured != identify(module.three.method).captured
    assert identify(module.two.method).name == "made_module:Scale.method"
    assert identify(module.Scale).name == "made_module:Scale"


def nested(**values: Any) -> Callable[..., Any]:
    """A function over these values."""
    return lambda x: (x, values)


LOCK = threading.Lock()


@pytest.mark.parametrize(
    "value",
    [logging.getLogger("x"), LOCK, re.compile("a"), np.float32(1), math, np, Path, list[int], str | None],
)
def test_tools_and_types_are_no_obstacle(value: object) -> None:
    identify(nested(value=value))


@pytest.mark.parametrize(
    "value", [iter([]), np.random.default_rng(), object(), (x for x in ()), memoryview(b"")]
)
def test_what_cannot_be_identified_is_refused_by_name(value: object) -> None:
    with pytest.raises(ConfigError, match="values") as refused:
        identify(nested(value=value))
    assert refused.value.reason == "captured-value"
    assert refused.value.remedy


def test_a_collection_is_refused_with_the_way_to_pass_it() -> None:
    with pytest.raises(ConfigError) as refused:
        identify(nested(value=dask.bag.from_sequence([1], npartitions=1)))
    assert "other=handle" in refused.value.remedy


@pytest.mark.parametrize("value", [None, 1, "text", []])
def test_what_cannot_be_called_is_refused(value: Any) -> None:
    with pytest.raises(ConfigError) as refused:
        identify(value)
    assert refused.value.reason == "transform-type"


def test_without_source_there_is_no_identity() -> None:
    space: dict[str, Any] = {"__name__": "nowhere"}
    exec("def f(x): return x", space)
    with pytest.raises(ConfigError, match="nowhere:f") as refused:
        identify(space["f"])
    assert refused.value.reason == "source-missing"
    exec("class C:\n  def __call__(self): return 1", space)
    with pytest.raises(ConfigError) as refused:
        identify(space["C"]())
    assert refused.value.reason == "source-missing"


@pytest.mark.parametrize("now", ["# moved\n\ndef f(x): return x\n", "def g(x): return x\n", "def f(\n", ""])
def test_a_file_that_was_edited_since_is_noticed(modules: Modules, now: str) -> None:
    module = modules.load("def f(x): return x\n")
    (modules.folder / "made_module.py").write_text(now)
    with pytest.raises(ConfigError) as refused:
        identify(module.f)
    assert refused.value.reason in {"source-differs", "source-missing"}


# --------------------------------------------------------------------------------------------------- names


def test_names_are_importable() -> None:
    assert transform_name(recorded.scale) == "tests.recorded:scale"
    assert is_importable(recorded.scale)
    assert import_function("tests.recorded:scale") is recorded.scale
    assert not is_importable(nested())
    assert not is_importable(lambda: 1)


def test_a_program_has_the_name_that_it_can_be_imported_by(monkeypatch: pytest.MonkeyPatch) -> None:
    main = types.ModuleType("__main__")
    main.__spec__ = types.SimpleNamespace(name="some.program")  # type: ignore[assignment]

    def f() -> None: ...

    f.__module__, f.__qualname__ = "__main__", "f"
    main.f = f  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "__main__", main)
    assert transform_name(f) == "some.program:f"
    assert is_importable(f)
    main.__spec__ = None
    assert transform_name(f) == "__main__:f"
    assert not is_importable(f)


@pytest.mark.parametrize(
    "name", ["nowhere:f", "tests.recorded:nothing", "tests.recorded:DATASET", ":", "", "a"]
)
def test_what_cannot_be_imported_is_refused(name: str) -> None:
    with pytest.raises(ConfigError) as refused:
        import_function(name)
    assert refused.value.reason == "transform-import"


def test_sources_and_sinks_go_by_name_and_version() -> None:
    assert builtin_transform("files", "1") == builtin_transform("files", "1")
    assert builtin_transform("files", "1") != builtin_transform("files", "2")
    assert builtin_transform("files", "1").name == "provenance:files"


def test_packages_are_named_with_their_versions() -> None:
    assert identify(np.log1p).package == f"numpy {np.__version__}"
    assert identify(math.sin).package.startswith("python 3.")
