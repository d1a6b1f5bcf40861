"""Domains: which domain may import which, and that neither modules nor folders import each other in a circle."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping

import pytest

from tests.support.rooms import MAY_IMPORT, MODULES, PARTS, ROOMS, domain_of, part_of


def imports_of(module: str, *, everywhere: bool = False) -> Iterator[str]:
    """The modules of the project that a module imports when it is imported.

    With `everywhere`, also those that it imports in functions, and for type checkers alone.
    """
    path = MODULES[module]
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    tree = ast.parse(path.read_text())
    nodes = ast.walk(tree) if everywhere else _run_on_import(tree)
    for node in nodes:
        if not isinstance(node, ast.ImportFrom):
            continue
        if node.level:
            above = package.split(".")[: len(package.split(".")) - node.level + 1]
            base = ".".join([*above, *([node.module] if node.module else [])])
        else:
            base = str(node.module).removeprefix("portico.")
        below = [f"{base}.{alias.name}" for alias in node.names if f"{base}.{alias.name}" in MODULES]
        yield from below
        if len(below) < len(node.names) and base in MODULES:
            yield base


def _run_on_import(tree: ast.AST) -> Iterator[ast.ImportFrom]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ImportFrom):
            yield node
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _run_on_import(node)


def test_a_domain_imports_itself_and_the_domains_below_it() -> None:
    wrong = {}
    for module in MODULES:
        if domain := domain_of(module):
            allowed = {None, domain, *MAY_IMPORT[domain]}
            wrong[module] = [found for found in imports_of(module) if domain_of(found) not in allowed]

    assert {module: found for module, found in wrong.items() if found} == {}


def test_a_part_of_a_domain_imports_itself_and_what_the_parts_share() -> None:
    wrong = {}
    for module in MODULES:
        if part := part_of(module):
            allowed = {None, part}
            wrong[module] = [found for found in imports_of(module, everywhere=True) if part_of(found) not in allowed]

    assert len(wrong) > 50
    assert {module: found for module, found in wrong.items() if found} == {}


def test_what_the_parts_of_a_domain_share_imports_none_of_them() -> None:
    """The declaration of the domain and its demo are of all parts."""
    shared = [module for module in MODULES if domain_of(module) in PARTS and not part_of(module)]
    known = [module for module in shared if not module.startswith("gateway.domains.")]
    wrong = {module: [found for found in imports_of(module, everywhere=True) if part_of(found)] for module in known}

    assert {module: found for module, found in wrong.items() if found} == {}


def test_a_shared_module_imports_no_domain() -> None:
    shared = [module for module in MODULES if not domain_of(module)]
    wrong = {module: [found for found in imports_of(module) if domain_of(found)] for module in shared}

    assert {module: found for module, found in wrong.items() if found} == {}


def test_no_modules_import_each_other_in_a_circle() -> None:
    graph = {module: set(imports_of(module, everywhere=True)) - {module} for module in MODULES}

    assert circles_of(graph) == []


def test_no_folders_import_each_other_in_a_circle() -> None:
    """A folder of a room counts as one, with all that is below it. A module beside the folders counts alone."""
    graph: dict[str, set[str]] = {}
    for module in MODULES:
        folder = folder_of(module)
        graph.setdefault(folder, set()).update(folder_of(found) for found in imports_of(module, everywhere=True))
        graph[folder].discard(folder)

    assert circles_of(graph) == []


def folder_of(module: str) -> str:
    return ".".join(module.split(".")[:2])


def test_a_circle_is_found_with_all_that_take_part() -> None:
    graph = {"a": {"b"}, "b": {"c", "d"}, "c": {"a"}, "d": {"e"}, "e": {"d"}, "f": {"a", "e"}}

    assert circles_of(graph) == [["a", "b", "c"], ["d", "e"]]


def circles_of(graph: Mapping[str, Collection[str]]) -> list[list[str]]:
    """The groups of nodes that reach each other."""
    reached = {node: _reached_from(node, graph) for node in graph}
    groups = {tuple(sorted(one for one in reached[node] if node in reached[one])) for node in graph}
    return [list(group) for group in sorted(groups) if len(group) > 1]


def _reached_from(node: str, graph: Mapping[str, Collection[str]]) -> set[str]:
    found: set[str] = set()
    left = [node]
    while left:
        for other in graph[left.pop()]:
            if other not in found:
                found.add(other)
                left.append(other)
    return found


@pytest.mark.parametrize("room", ROOMS)
def test_modules_of_a_room_share_a_name_only_across_domains(room: str) -> None:
    shared: dict[str, list[str]] = {}
    for module, path in MODULES.items():
        if module.startswith(f"{room}.") and path.name != "__init__.py":
            name = module.rpartition(".")[2]
            shared.setdefault(name, []).append(module)

    for name, modules in shared.items():
        domains = [domain_of(module) for module in modules]
        assert len(modules) == 1 or (None not in domains and len(set(domains)) == len(domains)), (name, modules)
