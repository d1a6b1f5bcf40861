"""The rooms of the code: who may know whom, and how large a module may be."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROOMS = ("gateway", "schema", "loaders", "resolvers")
MODULES = [path for room in ROOMS for path in sorted((ROOT / room).rglob("*.py")) if "node_modules" not in path.parts]
OTHERS = [path for folder in ("portico", "tests", "bench") for path in sorted((ROOT / folder).rglob("*.py"))]
OURS = [*MODULES, *OTHERS]
# What each room may import beside the standard library and itself.
ALLOWED = {
    # A merge is worked out where it is decided whether an edit is written.
    "resolvers": {"pymongo", "bson", "merge3"},
    "loaders": {"resolvers"},
    "schema": {"loaders", "resolvers", "strawberry", "graphql", "orjson", "markdown_it", "nh3"},
    "gateway": {
        "schema",
        "loaders",
        "resolvers",
        "graphql",
        "strawberry",
        "starlette",
        "python_multipart",
        "feedgenerator",
        "PIL",
        "uvicorn",
        "httpx",
        "jwt",
        "orjson",
        "structlog",
        "typer",
        "rich",
        "prometheus_client",
    },
}
# Where else the driver is known, and what for.
EXCEPTIONS = {
    "gateway/app.py": {"pymongo.errors", "pymongo.monitoring"},  # whether MongoDB is there; who listens to commands
    "gateway/mongo/database_clock.py": {"pymongo.errors"},  # goes on while the server does not answer
    "gateway/domains/content/assets.py": {"bson"},  # a URL holds the key of a photo
    "gateway/cli/failures.py": {"pymongo.errors"},  # a driver's error ends a command with one line
    "gateway/mongo/direct.py": {"pymongo", "bson"},  # reads past the driver's own way to send commands
    "gateway/mongo/driver.py": {"pymongo", "bson", "motor"},  # connects
    "gateway/mongo/embedded.py": {"pymongo", "fiftyone"},  # connects to what it has started, from a wheel if need be
    "gateway/mongo/links.py": {
        "pymongo",
        "bson",
    },  # takes over connections of the driver's
    "gateway/pages/files.py": {"pymongo.errors"},  # says that the database is not there
    "gateway/http/encoding.py": {"bson"},  # writes documents that something else has stored
    "gateway/operations/plans/trace.py": {"pymongo.monitoring", "pymongo.errors", "bson"},  # shows commands
    "gateway/operations/execution.py": {"pymongo.errors"},  # tells which of its errors is no fault of the gateway
    "gateway/work/jobs.py": {"pymongo.errors"},  # gives its leases back, where there is anybody to take them
}
INSIDE = [path for path in MODULES if not path.is_relative_to(ROOT / "gateway")]
OUTSIDE = [path for path in MODULES if not path.is_relative_to(ROOT / "resolvers")]
# What stands for a collection, and hands its calls on.
STAND_INS = {"gateway/mongo/direct.py", "gateway/mongo/driver.py", "gateway/mongo/faults.py"}
LONGEST = 400


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def imports_of(path: Path) -> Iterator[str]:
    """The modules that a module imports, also inside of functions; the project's own begin with their room."""
    package = name_of(path).split("/")[:-1]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name.removeprefix("portico.") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            yield ".".join([*above, *([node.module] if node.module else [])]).removeprefix("portico.")


def is_below(module: str, roots: set[str]) -> bool:
    return any(module == root or module.startswith(f"{root}.") for root in roots)


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_dependencies_point_one_way(path: Path) -> None:
    name = name_of(path)
    room = name.partition("/")[0]
    allowed = ALLOWED[room] | {room} | set(sys.stdlib_module_names) | EXCEPTIONS.get(name, set())

    assert [module for module in imports_of(path) if not is_below(module, allowed)] == []


def test_every_exception_is_needed() -> None:
    for name, modules in EXCEPTIONS.items():
        found = set(imports_of(ROOT / name))
        assert {module for module in modules if not any(is_below(one, {module}) for one in found)} == set(), name


@pytest.mark.parametrize("path", OURS, ids=name_of)
def test_a_module_can_be_read_at_one_sitting(path: Path) -> None:
    assert len(path.read_text().splitlines()) < LONGEST


@pytest.mark.parametrize("path", [path for path in MODULES if path.stat().st_size], ids=name_of)
def test_a_module_says_what_it_is_for(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text()))


@pytest.mark.parametrize("path", INSIDE, ids=name_of)
def test_only_the_gateway_knows_the_clock_and_the_environment(path: Path) -> None:
    used = {ast.unparse(node) for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Attribute)}

    assert used.isdisjoint({"os.environ", "os.getenv", "datetime.now", "datetime.utcnow", "time.time"})


@pytest.mark.parametrize("path", [path for path in OUTSIDE if name_of(path) not in STAND_INS], ids=name_of)
def test_only_resolvers_issue_queries(path: Path) -> None:
    methods = {"find", "find_one", "aggregate", "insert_one", "insert_many", "update_one", "update_many", "bulk_write"}
    calls = [
        node.func.attr
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    ]

    assert methods.isdisjoint(calls)
