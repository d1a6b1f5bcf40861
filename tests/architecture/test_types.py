"""The type checker knows the fields of documents, and the decorators of the public names."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
RESOLVERS = """
from __future__ import annotations

import strawberry

from portico.resolvers.catalog.categories import CategoryDocument
from portico.schema.catalog.categories import CATEGORY
from portico.schema.context import Info
from portico.schema.reading import load_one


async def right(info: Info, key: object) -> str | None:
    found = await load_one(info, CATEGORY, key)
    return None if found is None else found["name"]


async def misspelt(info: Info, key: object) -> str | None:
    found = await load_one(info, CATEGORY, key)
    return None if found is None else found["nmae"]


def below(root: strawberry.Parent[CategoryDocument]) -> list[str]:
    return [ancestor["slgu"] for ancestor in root["ancestors"]]
"""


FIELDS = """
from __future__ import annotations

from typing import Any

import strawberry

from portico import Info, schema


@strawberry.type
class Things:
    @schema.reads("size", description="Its size.")
    @staticmethod
    async def size(root: strawberry.Parent[Any]) -> int:
        return int(root["size"])

    @schema.mutation(description="Adds a thing.")
    async def add_thing(self, info: Info) -> str | None:
        return info.context.require_caller().subject

    @strawberry.field(description="A thing.")
    def thing(self) -> str:
        return "thing"
"""


def errors_in(folder: Path, text: str) -> list[str]:
    module = folder / "module_of_a_domain.py"
    module.write_text(text)
    # With the cache of the other runs, which takes seconds instead of a minute.
    run = subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file", ROOT / "pyproject.toml", module],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    return [line for line in run.stdout.splitlines() if ": error: " in line] + run.stderr.splitlines()


def test_a_misspelt_field_of_a_document_is_an_error(tmp_path: Path) -> None:
    errors = errors_in(tmp_path, RESOLVERS)

    assert ["nmae" in errors[0], "slgu" in errors[1], len(errors)] == [True, True, 2], errors


def test_fields_of_a_package_are_typed_except_those_of_strawberry(tmp_path: Path) -> None:
    """For `strawberry.field`, docs/extending.md names the setting that allows it."""
    (error,) = errors_in(tmp_path, FIELDS)

    assert 'Untyped decorator makes function "thing" untyped' in error
