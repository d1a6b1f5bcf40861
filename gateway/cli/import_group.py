"""`portico import`: its commands are the importers that the served domains declare, imported when one is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperGroup

from .lazy import lazy

if TYPE_CHECKING:
    from . import importing
else:
    importing = lazy("cli.importing")


class _Importers(TyperGroup):
    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - click's signature
        return importing.names()

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002 - click's signature
        return importing.command(cmd_name)


app = typer.Typer(
    cls=_Importers,
    help="Import JSON Lines: every good record is kept, every bad one is named. Safe to run again.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.callback()
def import_() -> None:
    """Import JSON Lines: every good record is kept, every bad one is named. Safe to run again."""
