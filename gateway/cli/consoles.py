"""The consoles of commands that print tables or progress. Import it on use: it loads the 60 modules of rich."""

from __future__ import annotations

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

__all__ = ["Table", "out", "progress_of", "wide"]

_WIDE = 1_000
out = Console(highlight=False)


def wide() -> Console:
    """Returns a console that breaks no lines of a file or a pipe."""
    return out if out.is_terminal else Console(width=_WIDE)


def progress_of(console: Console) -> Progress:
    """Returns a display of how much of the files has been read. It stays in what is no terminal."""
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    return Progress(*columns, console=console, transient=not console.is_terminal)
