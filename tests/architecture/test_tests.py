"""The tests: what several of them share is no test module, and what serves one domain is in that domain's folder."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parents[1]


def imports_of(path: Path) -> Iterator[str]:
    """The modules of the tests that a module imports, with the names that may be modules."""
    package = ["tests", *path.relative_to(TESTS).parts[:-1]]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*above, *([node.module] if node.module else [])])
            yield from (f"{module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def test_no_module_imports_a_test_module() -> None:
    found = {
        path.relative_to(TESTS).as_posix(): [
            name
            for name in imports_of(path)
            if name.startswith("tests.") and any(part.startswith("test_") for part in name.split(".")[1:])
        ]
        for path in sorted(TESTS.rglob("*.py"))
    }

    assert {path: names for path, names in found.items() if names} == {}
