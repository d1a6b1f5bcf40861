"""Loads the demo data of the served domains, each in its turn. What is there already stays, or is brought back."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from portico.resolvers.documents import Database
from portico.resolvers.domains import Resources

# An operation whose id begins so has its effect once, however often the demo is started.
OPERATION = "k-demo."


@dataclass(frozen=True)
class Demo:
    """What a domain loads its demo data with.

    `size` multiplies the data, for load. `folder` is for files that are made on the way. `load_files` imports files by
    the name of an importer, and shows progress; `say` prints a line.
    """

    db: Database
    now: datetime
    size: int
    folder: Path
    resources: Resources
    load_files: Callable[[str, Sequence[Path]], Awaitable[None]]
    say: Callable[[str], None]
