"""A new built-in domain touches its own folders and one line, in the tests, too."""

from __future__ import annotations

import difflib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "reviews" / "portico_reviews"
FOLDERS = ("gateway", "loaders", "portico", "resolvers", "schema", "tests")
# The central tests, as far as they are about the new domain or about all domains together.
SELECTED = (
    "test_every_mutation_takes_a_key or test_every_failure_of_every_mutation or test_every_job_has_a_case "
    "or test_jobs_and_checks_read_all_shards or test_a_domain_imports or test_no_module_imports or (Review and (repeat "
    "or belongs_to_one_input)) or finish-reviews"
)
CENTRAL = (
    "tests/architecture/test_domains.py",
    "tests/gateway/test_damaged_documents.py",
    "tests/architecture/test_tests.py",
    "tests/gateway/test_idempotency.py",
    "tests/gateway/test_repeated_answers.py",
    "tests/gateway/test_routing.py",
)


def contents(tree: Path) -> dict[str, bytes]:
    """The files of the folders, by their paths, without what is built."""
    found = {}
    for folder in FOLDERS:
        for place, folders, names in os.walk(tree / folder):
            folders[:] = [name for name in folders if name not in {"__pycache__", "node_modules", "static"}]
            for path in (Path(place, name) for name in names):
                found[path.relative_to(tree).as_posix()] = path.read_bytes()
    return found


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of the sources and their tests, with their byte code, which is valid: copies keep the times of files."""
    built = shutil.ignore_patterns("node_modules")
    for folder in FOLDERS:
        shutil.copytree(ROOT / folder, tmp_path / folder, symlinks=True, ignore=built)
    for name in ("pyproject.toml", "schema.graphql"):
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def add_reviews(tree: Path) -> None:
    """Makes the domain of the example a built-in one."""
    shutil.copytree(EXAMPLE, tree / "gateway/domains/reviews", ignore=shutil.ignore_patterns("kit.py", "__pycache__"))
    (tree / "tests/reviews").mkdir()
    (tree / "tests/reviews/__init__.py").touch()
    shutil.copy(EXAMPLE / "kit.py", tree / "tests/reviews/kit.py")
    registry = tree / "gateway/domains/__init__.py"
    registry.write_text(registry.read_text().replace('"notifications")', '"notifications", "reviews")'))


@pytest.mark.timeout(600)
def test_a_domain_is_added_by_its_folders_and_one_line_and_removed_without_a_trace(tree: Path) -> None:
    before = contents(tree)

    add_reviews(tree)
    with_reviews = contents(tree)
    tested = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", SELECTED, *CENTRAL],
        cwd=tree,
        env={**os.environ, "PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1", "PYTEST_XDIST_WORKER": ""},
        capture_output=True,
        text=True,
        check=False,
    )

    assert tested.returncode == 0, tested.stdout
    assert " passed" in tested.stdout
    others = {path for path in with_reviews if "/reviews/" not in path}
    assert others == before.keys()
    changed = [path for path in others if before[path] != with_reviews[path]]
    assert changed == ["gateway/domains/__init__.py"]
    old, new = (found[changed[0]].decode().splitlines() for found in (before, with_reviews))
    lines = difflib.ndiff(old, new)
    assert [line[0] for line in lines if line[0] in "+-"] == ["-", "+"]
    for folder in ("gateway/domains/reviews", "tests/reviews"):
        shutil.rmtree(tree / folder)
    (tree / changed[0]).write_bytes(before[changed[0]])
    assert contents(tree) == before
