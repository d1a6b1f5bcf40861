"""The pages of the domains end with the same sections in the same order."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from portico.gateway.domains import BUILT_IN

DOCS = Path(__file__).parents[2] / "docs"
# The accounts are on the page of the shop. The game has two pages.
PAGES = sorted({*BUILT_IN, "inventories"} - {"accounts"})
ENDING = ("Failures", "Who may do what", "Bounds", "Guarantees", "Where the data is")
ALWAYS = {"Bounds", "Guarantees", "Where the data is"}


def sections_of(page: str) -> list[str]:
    prose = re.sub(r"^```.*?^```$", "", (DOCS / f"{page}.md").read_text(), flags=re.MULTILINE | re.DOTALL)
    return re.findall(r"^## (.*)$", prose, re.MULTILINE)


@pytest.mark.parametrize("page", PAGES)
def test_a_page_ends_with_the_sections_of_all_pages(page: str) -> None:
    sections = sections_of(page)
    ending = [name for name in ENDING if name in sections]

    assert set(ending) >= ALWAYS
    # After them, a page says how to bring your own data.
    last = [name for name in sections if name.startswith("Your own ")]
    assert sections[-len(ending) - len(last) :] == [*ending, *last]


@pytest.mark.parametrize("page", PAGES)
def test_a_page_that_lists_its_sections_lists_all(page: str) -> None:
    listed = re.findall(r"^\* \[(.*)\]\(#.*\)$", (DOCS / f"{page}.md").read_text(), re.MULTILINE)

    assert listed in ([], sections_of(page))
