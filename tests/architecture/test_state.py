"""No module holds what is served: several gateways with different domains run in one process.

A module may not change what it has assigned at its own level. What a gateway serves is in its `Served`, and what an
operation remembers is in its context.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator

import pytest

from tests.support.rooms import ROOMS, ROOT, modules_below

# What functions change at the level of their module, and why that is right for all gateways of a process.
CHANGED = {
    # The log of the process counts the outages that it leaves out, by event loop. Nothing of it is served.
    ("gateway/outages.py", "_of_loop"),
    # The type of an error, by its class. Each class has its type when it is imported, in all gateways the same one.
    ("schema/errors.py", "_MEMBERS"),
}
# Caches of functions whose result depends on their arguments alone.
CACHES = {
    ("gateway/demo/demo_token.py", "_read"),  # a file by its path and its time
    ("gateway/domains/__init__.py", "load_once"),  # domains never change
    ("gateway/domains/__init__.py", "schema_of"),  # neither does the schema of some domains
    ("gateway/domains/catalog/covers.py", "draw_cover"),
    ("gateway/domains/content/landscapes.py", "draw"),
    ("gateway/http/headers.py", "_sent_name"),
    ("gateway/operations/costly.py", "costly_fields"),  # by the schema
    ("gateway/operations/limits.py", "_introspection_sizes"),  # by the schema
    ("gateway/operations/limits.py", "_whole_introspection"),
    ("gateway/operations/plans/flat.py", "_code"),  # code by its text
    ("gateway/pages/explorer.py", "_examples"),  # a file of the package
    ("gateway/caller_rates.py", "_network"),
    ("gateway/reads/deriving.py", "_equal_find"),
    ("gateway/reads/deriving.py", "_equal_pipeline"),
    ("gateway/reads/lists.py", "_shown_by"),
    ("gateway/reads/paths.py", "_shared"),
    ("gateway/reads/paths.py", "names_of"),
    ("gateway/reads/texts.py", "_folded"),
    ("resolvers/configuration.py", "types_of"),  # by the class
    ("resolvers/catalog/product_search.py", "_of_all"),  # by the order
    ("resolvers/projections.py", "_sorted_projection"),
    ("schema/fields.py", "_plain_getter"),  # by the path
    ("schema/markdown.py", "_parser"),
}
CHANGING = {
    *("add", "append", "appendleft", "clear", "discard", "extend", "insert", "pop", "popitem", "popleft"),
    *("remove", "setdefault", "sort", "update"),
}


@functools.cache
def trees() -> dict[str, ast.Module]:
    """Returns the modules of the rooms, by their paths."""
    return {
        path.relative_to(ROOT).as_posix(): ast.parse(path.read_text())
        for room in ROOMS
        for path in modules_below(ROOT / room)
    }


def changes_in(tree: ast.Module) -> Iterator[str]:
    """The names at the level of a module that its functions change or assign again."""
    names = {name for node in tree.body for name in _assigned_by(node)}
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            own = {argument.arg for argument in ast.walk(function.args) if isinstance(argument, ast.arg)}
            own |= {node.id for node in ast.walk(function) if isinstance(node, ast.Name) and _is_stored(node)}
            for node in ast.walk(function):
                if isinstance(node, ast.Global):
                    yield from node.names
                elif (name := _changed_by(node)) in names - own:
                    yield str(name)


def _assigned_by(node: ast.stmt) -> Iterator[str]:
    if isinstance(node, ast.Assign | ast.AnnAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        yield from (one.id for target in targets for one in ast.walk(target) if isinstance(one, ast.Name))


def _is_stored(node: ast.Name) -> bool:
    return isinstance(node.ctx, ast.Store)


def _changed_by(node: ast.AST) -> str | None:
    """The name of what a call of a method, an assignment to an item or attribute, or a deletion changes."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in CHANGING:
        changed: ast.expr = node.func.value
    elif isinstance(node, ast.Subscript | ast.Attribute) and not isinstance(node.ctx, ast.Load):
        changed = node.value
    else:
        return None
    return changed.id if isinstance(changed, ast.Name) else None


def cached_in(tree: ast.Module) -> Iterator[str]:
    """The functions of a module whose results are cached for the whole process."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            decorators = {ast.unparse(one).partition("(")[0].rpartition(".")[2] for one in node.decorator_list}
            if decorators & {"cache", "lru_cache"}:
                yield node.name


def test_no_function_changes_what_a_module_holds() -> None:
    found = {(path, name) for path, tree in trees().items() for name in changes_in(tree)}

    assert found == CHANGED


def test_only_functions_of_their_arguments_are_cached() -> None:
    found = {(path, name) for path, tree in trees().items() for name in cached_in(tree)}

    assert found == CACHES


@pytest.mark.parametrize(
    "text",
    [
        "HELD = {}\ndef f(key):\n    HELD[key] = 1",
        "HELD: dict[str, int] = {}\ndef f():\n    HELD.clear()",
        "HELD = []\ndef f():\n    HELD[:] = [1]",
        "HELD = set()\nasync def f(key):\n    HELD.add(key)",
        "HELD = {}\ndef f(key):\n    del HELD[key]",
        "HELD = {}\nclass Kind:\n    def __post_init__(self):\n        HELD[self.name] = self",
        "HELD = 0\ndef f():\n    global HELD\n    HELD += 1",
    ],
)
def test_a_change_of_a_module_is_found(text: str) -> None:
    assert set(changes_in(ast.parse(text))) == {"HELD"}


@pytest.mark.parametrize(
    "text",
    [
        "HELD = {}\ndef f(HELD):\n    HELD.clear()",
        "HELD = {}\ndef f():\n    return HELD.get(1)",
        "HELD = {}\nHELD[1] = 2",
    ],
)
def test_a_read_of_a_module_is_none(text: str) -> None:
    assert list(changes_in(ast.parse(text))) == []


def test_the_modules_are_those_of_all_rooms() -> None:
    assert {path.partition("/")[0] for path in trees()} == set(ROOMS)
    assert "resolvers/served.py" in trees()
