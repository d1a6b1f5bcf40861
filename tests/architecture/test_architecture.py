"""The rooms of the code: which room may import which, and how large a module may be."""

from __future__ import annotations

import ast
import functools
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.support.rooms import ROOMS, ROOT, modules_below

MODULES = [path for room in ROOMS for path in modules_below(ROOT / room)]
OTHERS = [path for folder in ("portico", "tests", "bench") for path in modules_below(ROOT / folder)]
OURS = [*MODULES, *OTHERS]
# What each room may import besides the standard library and itself.
ALLOWED = {
    # A resolver merges an edit before it decides whether to write it. Cursors are encrypted. Type variables have
    # defaults.
    "resolvers": {"pymongo", "bson", "merge3", "cryptography", "typing_extensions"},
    "loaders": {"resolvers"},
    "schema": {"loaders", "resolvers", "strawberry", "graphql", "orjson", "markdown_it", "nh3"},
    "gateway": {
        "schema",
        "loaders",
        "resolvers",
        "graphql",
        "strawberry",
        "starlette",
        "starlette_compress",
        "python_multipart",
        "feedgenerator",
        "PIL",
        "uvicorn",
        "websockets",
        "httpx",
        "jwt",
        "orjson",
        "structlog",
        "typer",
        "rich",
        "prometheus_client",
        "opentelemetry",
    },
}
# Modules outside of `resolvers` that may import the driver, and why.
EXCEPTIONS = {
    "gateway/app.py": {"pymongo.errors", "pymongo.monitoring"},  # checks that MongoDB is reachable; listens to commands
    "gateway/mongo/database_clock.py": {"pymongo.errors"},  # continues while the server does not answer
    "gateway/domains/content/assets.py": {"bson"},  # a URL contains the key of a photo
    "gateway/cache/fence.py": {"bson"},  # continues a change stream by the number of its cursor
    "gateway/cli/failures.py": {"pymongo.errors"},  # reports a driver error in one line
    "gateway/mongo/conditions.py": {"pymongo"},  # how the driver waits
    "gateway/mongo/direct.py": {"pymongo", "bson"},  # reads without the driver's command path
    "gateway/mongo/direct_writes.py": {"pymongo", "bson"},  # writes without the driver's command path
    "gateway/mongo/driver.py": {"pymongo", "motor"},  # connects
    "gateway/mongo/embedded.py": {"pymongo", "fiftyone"},  # connects to the MongoDB that it starts
    "gateway/mongo/receiving.py": {"pymongo"},  # counts what the driver receives
    "gateway/mongo/links.py": {"pymongo", "bson"},  # takes over connections of the driver
    "gateway/mongo/messages.py": {"pymongo.monitoring", "bson"},  # commands on the wire
    "gateway/mongo/pings.py": {"bson"},  # reads the time in a reply
    "gateway/pages/files.py": {"pymongo.errors"},  # reports that the database is unreachable
    "gateway/operations/json_text.py": {"bson"},  # writes documents that other programs stored
    "gateway/operations/plans/trace.py": {"pymongo.monitoring", "pymongo.errors", "bson"},  # shows commands
    "gateway/outages.py": {"pymongo.errors"},  # recognizes database errors that are no faults
    "gateway/production.py": {"pymongo.uri_parser"},  # checks that the URI has a user and TLS
    "gateway/reads/comparing.py": {"bson"},  # compares values as the database does
    "gateway/reads/feed.py": {"pymongo.errors", "bson"},  # orders changes and reads by the time of the database
    "gateway/reads/matching.py": {"bson"},  # tells a regular expression from a value
    "gateway/reads/read_sets.py": {"pymongo.errors"},  # does without a date if a read fails
    "gateway/telemetry/command_spans.py": {"pymongo.monitoring"},  # listens to commands
    "gateway/work/jobs.py": {"pymongo.errors"},  # releases its leases if the database is reachable
}
INSIDE = [path for path in MODULES if not path.is_relative_to(ROOT / "gateway")]
OUTSIDE = [path for path in MODULES if not path.is_relative_to(ROOT / "resolvers")]
# Stand-ins for a collection, which pass its calls on.
STAND_INS = {
    "gateway/mongo/direct.py",
    "gateway/mongo/driver.py",
    "gateway/mongo/faults.py",
    "gateway/reads/read_sets.py",  # looks ahead for the next date, as part of a run
    "gateway/reads/recorded.py",
}
LONGEST = 400


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@functools.cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def imports_of(path: Path) -> Iterator[str]:
    """The modules that a module imports, also inside functions. A module of the project starts with its room."""
    package = name_of(path).split("/")[:-1]
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name.removeprefix("portico.") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            yield ".".join([*above, *([node.module] if node.module else [])]).removeprefix("portico.")


def is_below(module: str, roots: set[str]) -> bool:
    return any(module == root or module.startswith(f"{root}.") for root in roots)


def test_dependencies_point_one_way() -> None:
    wrong = {}
    for path in MODULES:
        name = name_of(path)
        room = name.partition("/")[0]
        allowed = ALLOWED[room] | {room} | set(sys.stdlib_module_names) | EXCEPTIONS.get(name, set())
        wrong[name] = [module for module in imports_of(path) if not is_below(module, allowed)]

    assert {name: modules for name, modules in wrong.items() if modules} == {}


def test_every_exception_is_needed() -> None:
    for name, modules in EXCEPTIONS.items():
        found = set(imports_of(ROOT / name))
        assert {module for module in modules if not any(is_below(one, {module}) for one in found)} == set(), name


def test_a_module_is_short_enough_to_read_in_one_go() -> None:
    lengths = {name_of(path): len(path.read_text().splitlines()) for path in OURS}

    assert {name: length for name, length in lengths.items() if length >= LONGEST} == {}


def test_a_module_has_a_docstring() -> None:
    assert [name_of(path) for path in MODULES if path.stat().st_size and not ast.get_docstring(parsed(path))] == []


def test_only_the_gateway_reads_the_clock_and_the_environment() -> None:
    refused = {"os.environ", "os.getenv", "datetime.now", "datetime.utcnow", "time.time"}
    used = {
        name_of(path): {ast.unparse(node) for node in ast.walk(parsed(path)) if isinstance(node, ast.Attribute)}
        for path in INSIDE
    }

    assert {name: found & refused for name, found in used.items() if found & refused} == {}


def test_only_resolvers_issue_queries() -> None:
    methods = {"find", "find_one", "aggregate", "insert_one", "insert_many", "update_one", "update_many", "bulk_write"}
    called = {
        name_of(path): {
            node.func.attr
            for node in ast.walk(parsed(path))
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
        }
        for path in OUTSIDE
        if name_of(path) not in STAND_INS
    }

    assert {name: found & methods for name, found in called.items() if found & methods} == {}
