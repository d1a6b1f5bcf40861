"""The public API: all of `import portico` is described, and the example needs nothing else."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from strawberry.types.base import get_object_definition

import portico
from portico import testing
from tests.support.public_api import FAMILIES, GROUPS, PUBLIC

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "reviews"
BOOKING = ROOT / "tests" / "extending" / "booking.py"
FESTIVAL = ROOT / "tests" / "extending" / "festival.py"
PAGE = ROOT / "docs" / "extending.md"
LIBRARIES = {"strawberry", "pymongo", "bson", "pytest"}
LONGEST = 292
NESTED = [
    (name, nested)
    for name, value in PUBLIC.items()
    if inspect.isclass(value)
    for nested, found in vars(value).items()
    if inspect.isclass(found) and not nested.startswith("_")
]


@pytest.mark.parametrize(("module", "name"), [(group.__name__, name) for group in GROUPS for name in group.__all__])
def test_every_name_is_described(module: str, name: str) -> None:
    value = getattr(importlib.import_module(module), name)
    if inspect.isclass(value) or inspect.isfunction(value):
        definition = get_object_definition(value)
        described = value.__doc__ if definition is None else definition.description
        assert described
        assert not described.startswith(f"{name}(")
    section = PAGE.read_text().partition(f"\n### `{module}`\n")[2].partition("\n#")[0]
    assert f"| `{name}` |" in section


@pytest.mark.parametrize(("name", "nested"), NESTED)
def test_every_nested_name_is_described_with_the_name_that_it_belongs_to(name: str, nested: str) -> None:
    [row] = [line for line in PAGE.read_text().splitlines() if line.startswith(f"| `{name}` |")]

    assert getattr(PUBLIC[name], nested).__doc__
    assert f"`{name}.{nested}`" in row or f"{name}.{nested}(" in row


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.__name__)
def test_every_function_of_a_family_is_described(family: ModuleType) -> None:
    row = next(
        line for line in PAGE.read_text().splitlines() if line.startswith(f"| `{family.__name__.rpartition('.')[2]}` |")
    )

    for name in family.__all__:
        assert f"`{name}`" in row
        assert getattr(family, name).__doc__


@pytest.mark.parametrize("name", testing.__all__)
def test_every_name_of_the_test_harness_is_described(name: str) -> None:
    assert getattr(testing, name).__doc__
    assert f"`{name}`" in PAGE.read_text()


def test_a_name_that_is_not_public_does_not_exist() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'create_schema'"):
        portico.create_schema  # noqa: B018 - the access raises


def test_the_command_line_prints_its_help_without_importing_the_api() -> None:
    program = "import portico.gateway.cli.commands, sys; sys.exit('portico._facade' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_the_example_uses_only_the_public_api() -> None:
    for path in EXAMPLE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and not node.level:
                imported = str(node.module)
            elif isinstance(node, ast.Import):
                imported = node.names[0].name
            else:
                continue
            root = imported.split(".")[0]
            is_public = (
                imported in {*(group.__name__ for group in GROUPS), "portico.testing", "portico_reviews.kit"}
                or root in LIBRARIES | sys.stdlib_module_names
            )
            assert is_public, (path, imported)


def test_the_example_is_short() -> None:
    """Blank lines do not count."""
    lines = [line for path in EXAMPLE.rglob("*.py") for line in path.read_text().splitlines() if line.strip()]

    assert len(lines) <= LONGEST


def test_the_tutorial_shows_the_code_of_the_example() -> None:
    files = [*EXAMPLE.rglob("*.py"), EXAMPLE / "pyproject.toml", BOOKING, FESTIVAL]
    sources = "\n".join(path.read_text() for path in files)
    blocks = re.findall(r"^```(?:python|toml)\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)

    assert len(blocks) > 5
    for block in blocks:
        assert block in sources, block
