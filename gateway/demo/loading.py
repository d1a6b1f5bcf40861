"""What domains use to load their demo data. Loading again is safe: existing data stays, or is reset."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from portico.resolvers.declarations import Resources
from portico.resolvers.documents import Database

# The prefix of the demo's operation ids. They are fixed, so an operation has its effect once, however often it runs.
OPERATION = "k-demo."


@dataclass(frozen=True)
class Demo:
    """What a domain uses to load its demo data.

    `size` multiplies the data, for load tests. `folder` is for temporary files. `load_files` runs the importer of this
    name on files, and shows progress. `say` prints a line.
    """

    db: Database
    now: datetime
    size: int
    folder: Path
    resources: Resources
    load_files: Callable[[str, Sequence[Path]], Awaitable[None]]
    say: Callable[[str], None]
