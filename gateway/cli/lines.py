"""Prints lines in colour, unless the environment asks for none. For tables and progress, see `consoles`."""

from __future__ import annotations

import os

import typer


def warn(text: str, color: str = "yellow") -> None:
    """Prints a line about a problem to standard error."""
    typer.secho(f"portico: {text}", fg=color, err=True, color=_color())


def show(text: str, bold: str) -> None:
    """Prints a line in which a part is bold."""
    typer.echo(text.replace(bold, typer.style(bold, bold=True), 1), color=_color())


def _color() -> bool | None:
    """Returns False if nothing may be coloured, and None if that depends on the terminal.

    Source: no-color.org. A terminal that is `dumb` understands no colours.
    """
    return False if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb" else None
