"""Node and the packages of its peers."""

import shutil
import subprocess
from functools import cache
from pathlib import Path

FOLDER = Path(__file__).parent / "peers"
MODULES = FOLDER / "node_modules"
LOCK = FOLDER / "package-lock.json"
INSTALLED = MODULES / ".package-lock.json"  # npm writes it last


def version() -> str | None:
    program = shutil.which("node")
    return subprocess.check_output([program, "--version"], text=True).strip() if program else None


def install() -> str | None:
    """Install what package-lock.json names, unless that has been done since it changed. Return why it failed."""
    if INSTALLED.exists() and INSTALLED.stat().st_mtime >= LOCK.stat().st_mtime:
        return None
    npm = shutil.which("npm")
    if npm is None:
        return "npm is not installed"
    # No peer needs a script of a package to run at installation.
    command = [npm, "ci", "--ignore-scripts", "--no-progress"]
    done = subprocess.run(command, cwd=FOLDER, capture_output=True, text=True, check=False)
    return f"npm ci failed: {done.stderr.strip()[-300:]}" if done.returncode else None


@cache
def missing() -> str | None:
    """Why no peer in Node can be started here, or None. Installs their packages on the first call."""
    return "Node is not installed" if version() is None else install()
