"""The built wheels can be installed: the example's tests pass against them in a separate environment."""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

from tests.support.harness import IS_SOAK
from tests.support.processes import environment

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "reviews"
# The options of pytest, and how many tests they select.
SELECTED, COUNT = ([], 20) if IS_SOAK else (["-k", "not one_effect or race"], 6)


def run(*command: str | Path, cwd: Path, timeout: float = 600) -> str:
    """Return what the command prints. Fail if the command fails."""
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=environment(PIP_DISABLE_PIP_VERSION_CHECK="1"),
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def environment_with(wheels: list[Path], folder: Path) -> Path:
    """The Python of a fresh virtual environment with these wheels. It borrows their dependencies."""
    venv.create(folder)
    python = folder / "bin" / "python"
    pip = (sys.executable, "-m", "pip", "--python", python)
    run(*pip, "install", "--no-index", "--no-deps", *wheels, cwd=folder)
    site = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=folder).strip())
    # Python searches the lent folder after the wheels, and ignores its `.pth` files.
    (site / "lent.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return python


@pytest.mark.timeout(900)
def test_the_example_passes_its_tests_against_the_wheels(tmp_path: Path) -> None:
    run(
        *(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation"),
        *("--wheel-dir", tmp_path / "wheels", ROOT, EXAMPLE),
        cwd=tmp_path,
    )
    wheels = sorted((tmp_path / "wheels").glob("*.whl"))
    assert [wheel.name.split("-")[0] for wheel in wheels] == ["portico", "portico_reviews"]
    python = environment_with(wheels, tmp_path / "env")
    shutil.copytree(EXAMPLE / "tests", tmp_path / "project" / "tests")
    shutil.copy(EXAMPLE / "pyproject.toml", tmp_path / "project")

    place = run(python, "-c", "import portico, portico_reviews; print(portico.__file__)", cwd=tmp_path).strip()
    tested = run(python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *SELECTED, cwd=tmp_path / "project")

    assert Path(place).is_relative_to(tmp_path / "env")
    assert f"{COUNT} passed" in tested
    assert "type Review implements Node" in run(python.with_name("portico"), "schema", cwd=tmp_path)
