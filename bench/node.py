"""Finds Node.js, and installs the packages of its peers."""

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
    """Install the packages in package-lock.json, unless they are current. Return the reason if that fails."""
    if INSTALLED.exists() and INSTALLED.stat().st_mtime >= LOCK.stat().st_mtime:
        return None
    npm = shutil.which("npm")
    if npm is None:
        return "npm is not installed"
    # No peer needs the installation scripts of its packages.
    command = [npm, "ci", "--ignore-scripts", "--no-progress"]
    done = subprocess.run(command, cwd=FOLDER, capture_output=True, text=True, check=False)
    return f"npm ci failed: {done.stderr.strip()[-300:]}" if done.returncode else None


@cache
def missing() -> str | None:
    """Return why peers in Node.js cannot start here, or None. The first call installs their packages."""
    return "Node is not installed" if version() is None else install()
