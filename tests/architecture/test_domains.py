"""Domains: which domain may import which, and that no modules import each other in a circle."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from portico.gateway.domains import BUILT_IN, load

ROOT = Path(__file__).parents[2]
ROOMS = ("gateway", "schema", "loaders", "resolvers")
# Which domains each domain may import besides itself.
MAY_IMPORT = {domain.name: set(domain.needs) for domain in load(BUILT_IN).all}
# Shared modules that serve one domain, and that domain.
SERVING = {"gateway/payments/provider": "shop", "gateway/pictures/checking": "content"}
MODULES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for room in ROOMS
    for path in sorted((ROOT / room).rglob("*.py"))
    if "node_modules" not in path.parts
}


def domain_of(module: str) -> str | None:
    """The domain whose folder contains the module; None for a shared module."""
    parts = module.split(".")
    serving = SERVING.get("/".join(parts))
    own = parts[2:3] if parts[:2] == ["gateway", "domains"] else parts[1:2]
    return serving or next((name for name in own if name in MAY_IMPORT), None)


def imports_of(module: str) -> Iterator[str]:
    """The modules of the project that a module imports when it is imported."""
    path = MODULES[module]
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    for node in _run_on_import(ast.parse(path.read_text())):
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


def test_a_shared_module_imports_no_domain() -> None:
    shared = [module for module in MODULES if not domain_of(module)]
    wrong = {module: [found for found in imports_of(module) if domain_of(found)] for module in shared}

    assert {module: found for module, found in wrong.items() if found} == {}


def test_no_modules_import_each_other_in_a_circle() -> None:
    graph = {module: sorted(set(imports_of(module)) - {module}) for module in MODULES}

    assert list(_circles(graph)) == []


def _circles(graph: dict[str, list[str]]) -> Iterator[list[str]]:
    """One circle for each import that closes a circle, found by a depth-first search."""
    done: set[str] = set()
    way: list[str] = []

    def walk(module: str) -> Iterator[list[str]]:
        if module in way:
            yield way[way.index(module) :]
            return
        if module in done:
            return
        way.append(module)
        for found in graph[module]:
            yield from walk(found)
        way.pop()
        done.add(module)

    for module in graph:
        yield from walk(module)


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
