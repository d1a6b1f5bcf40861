"""The type checker knows the fields of documents: it finds a misspelt one in a resolver of the schema."""

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


def test_a_misspelt_field_of_a_document_is_an_error(tmp_path: Path) -> None:
    module = tmp_path / "resolvers_of_a_domain.py"
    module.write_text(RESOLVERS)

    # With the cache of the other runs, which takes seconds instead of a minute.
    run = subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file", ROOT / "pyproject.toml", module],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    errors = [line for line in run.stdout.splitlines() if ": error: " in line]
    assert ["nmae" in errors[0], "slgu" in errors[1], len(errors)] == [True, True, 2], run.stdout + run.stderr
