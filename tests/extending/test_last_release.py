"""The example of the last release runs on this version: names that moved or went work for one minor version.

A soak also runs its tests of crashes and pauses, which `tests/extending/test_wheels.py` runs on the example of now.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

import portico
from portico import _deprecated
from tests.support.harness import IS_SOAK
from tests.support.processes import environment

LAST = Path(__file__).parent / "last_release"
ENTRY_POINTS = """[portico.domains]
reviews = portico_reviews:DOMAIN
[portico.kits]
reviews = portico_reviews.kit:KIT
"""
# The options of pytest, and how many tests they select.
SELECTED, COUNT = ([], 20) if IS_SOAK else (["-k", "not one_effect or race"], 6)
IMPORTED = "import portico_reviews; print(portico_reviews.__file__)"


@pytest.mark.timeout(600)
def test_the_example_of_the_last_release_passes_its_tests(tmp_path: Path) -> None:
    project = tmp_path / "project"
    shutil.copytree(LAST, project)
    described = project / "portico_reviews-0.1.0.dist-info"
    described.mkdir()
    (described / "METADATA").write_text("Metadata-Version: 2.1\nName: portico-reviews\nVersion: 0.1.0\n")
    (described / "entry_points.txt").write_text(ENTRY_POINTS)
    env = environment(PYTHONPATH=str(project))

    place = subprocess.run(
        [sys.executable, "-c", IMPORTED], check=False, cwd=tmp_path, env=env, capture_output=True, text=True
    )
    tested = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *SELECTED],
        cwd=project,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )

    assert Path(place.stdout.strip()).is_relative_to(project)
    assert tested.returncode == 0, tested.stdout + tested.stderr
    assert f"{COUNT} passed" in tested.stdout
    assert "`portico.document_kind` is deprecated" in tested.stdout


@pytest.mark.parametrize("name", [*_deprecated.MOVED, *_deprecated.GONE])
def test_a_name_of_the_last_release_works_with_a_warning(name: str) -> None:
    place = _deprecated.MOVED.get(name)
    advice = f"use `{place}`" if place else _deprecated.ADVICE.get(name, "it has no successor")
    message = rf"`portico\.{name}` is deprecated.*: {re.escape(advice)}\."

    with pytest.warns(DeprecationWarning, match=message) as caught:
        assert getattr(portico, name) is not None

    assert [warning.filename for warning in caught] == [__file__]


def test_the_names_of_this_release_come_without_a_warning() -> None:
    with warnings.catch_warnings(action="error"):
        for name in portico.__all__:
            assert getattr(portico, name) is not None
