"""The source text of exactly the function that would run, or a refusal: never that of another one."""

from __future__ import annotations

import ast
import inspect
import textwrap
from typing import TYPE_CHECKING, TypeGuard

from provenance.errors import ConfigError

if TYPE_CHECKING:
    import types

__all__ = ["function_source", "no_source"]

_INTO_MODULE = "Put the function into a module that can be imported, or into a cell of a notebook."


def function_source(fn: types.FunctionType) -> str:
    """The source of exactly this function, decorators included."""
    code = fn.__code__
    try:
        lines, _ = inspect.findsource(code)
    except (OSError, TypeError) as error:
        raise no_source(fn.__qualname__) from error
    text = "".join(lines)
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        raise _other_source(fn.__qualname__) from None
    found = [node for node in ast.walk(tree) if _is_of(node, code)]
    if len(found) > 1:
        found = [node for node in found if _spans(node, code)]
    if len(found) != 1:
        raise _other_source(fn.__qualname__)
    (node,) = found
    first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", []))])
    if isinstance(node, ast.Lambda):
        return ast.get_source_segment(text, node) or ""
    return textwrap.dedent("".join(text.splitlines(keepends=True)[first - 1 : node.end_lineno]))


def _is_of(node: ast.AST, code: types.CodeType) -> TypeGuard[ast.FunctionDef | ast.Lambda]:
    if isinstance(node, ast.Lambda):
        return code.co_name == "<lambda>" and node.lineno == code.co_firstlineno
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or node.name != code.co_name:
        return False
    first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
    arguments = [*node.args.posonlyargs, *node.args.args]
    named = tuple(argument.arg for argument in arguments) == code.co_varnames[: code.co_argcount]
    return first == code.co_firstlineno and named


def _spans(node: ast.AST, code: types.CodeType) -> bool:
    """Of several lambdas that begin on one line: whether this one's body is where the code comes from."""
    body = node.body if isinstance(node, ast.Lambda) else None
    if body is None:
        return True
    places = [place for place in code.co_positions() if place[2] is not None and place[0] is not None]
    return any(
        (place[0], place[2], place[1], place[3])
        == (body.lineno, body.col_offset, body.end_lineno, body.end_col_offset)
        for place in places
    )


def no_source(name: str) -> ConfigError:
    """The error for a function or class without readable source."""
    return ConfigError(f"the source of {name} cannot be read", reason="source-missing", remedy=_INTO_MODULE)


def _other_source(name: str) -> ConfigError:
    return ConfigError(
        f"the source that is found for {name} is not that of the function which would run",
        reason="source-differs",
        remedy="The file was edited since it was imported: start Python again. " + _INTO_MODULE,
    )
