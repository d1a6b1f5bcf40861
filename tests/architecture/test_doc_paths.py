"""The modules that the documentation names exist, so that a renamed one is renamed there, too."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
# Where the paths of a page begin, besides the root.
FOLDERS = (ROOT, ROOT / "tests", ROOT / "examples" / "storefront")


def named_in(text: str) -> Iterator[tuple[str, str]]:
    """The paths of modules in each paragraph or row. A name without a folder is in the folder of the one before it."""
    prose = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    for paragraph in re.split(r"\n\s*\n|\n(?=\|)", prose):
        folder = "."
        for name in re.findall(r"`([\w/.-]+\.(?:py|tsx?))`", paragraph):
            path = PurePosixPath(name)
            if len(path.parts) > 1:
                folder = str(path.parent)
            yield name, str(path if len(path.parts) > 1 else PurePosixPath(folder) / name)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_named_modules_exist(page: Path) -> None:
    missing = [
        name for name, path in named_in(page.read_text()) if not any((folder / path).exists() for folder in FOLDERS)
    ]

    assert missing == []
