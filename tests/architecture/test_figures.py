"""The figures in the docs are the stored ones, and say on what they were measured."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.docs import block, written
from bench.origins import LEAST_LIKENESS, MEASURED, RESULTS, likeness, sketch, sources, stored

PAGES = sorted((Path(__file__).parents[2] / "docs").glob("*.md"))
NAMES = sorted(path.stem for path in RESULTS.glob("*.json"))
_LINES = [f"line {number} of a module" for number in range(1_000)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_has_the_stored_figures_and_says_which_are_out_of_date(page: Path) -> None:
    text = page.read_text()

    assert written(text) == text, "run `python -m bench.docs`, or measure what it says is out of date"


@pytest.mark.parametrize("name", NAMES)
def test_results_name_their_commit_and_are_shown_in_a_page(name: str) -> None:
    assert stored(name)["commit"]
    assert any(f"<!-- figures of {name} -->" in page.read_text() for page in PAGES)
    assert f"`{stored(name)['commit']}`" in block(name)


@pytest.mark.parametrize("name", sorted(MEASURED))
def test_each_path_that_a_benchmark_measures_exists(name: str) -> None:
    root = Path(__file__).parents[2]

    assert [path for path in MEASURED[name] if not (root / path).exists()] == []
    assert sources(name)


def test_figures_stay_after_a_small_change_of_the_sources() -> None:
    changed = [*_LINES[:950], *(f"another line {number}" for number in range(50))]

    found = likeness(sketch(["\n".join(_LINES)]), sketch(["\n".join(changed)]))

    assert 0.8 < found < 1


def test_figures_are_out_of_date_after_a_large_change_of_the_sources() -> None:
    changed = [*_LINES[:500], *(f"another line {number}" for number in range(500))]

    assert likeness(sketch(["\n".join(_LINES)]), sketch(["\n".join(changed)])) < LEAST_LIKENESS


def test_figures_without_a_sketch_are_out_of_date() -> None:
    assert likeness([], sketch(["\n".join(_LINES)])) == 0


def test_moving_lines_to_another_module_changes_nothing() -> None:
    whole = sketch(["\n".join(_LINES)])

    assert likeness(whole, sketch(["\n".join(_LINES[600:]), "\n".join(_LINES[:600])])) == 1
