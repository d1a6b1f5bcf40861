"""`portico import`: a group of commands, one for each importer of the served domains. They are imported on use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperGroup

from .lazy import import_lazily

if TYPE_CHECKING:
    from . import importing
else:
    importing = import_lazily("cli.importing")


class _Importers(TyperGroup):
    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - click's signature
        return importing.names()

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002 - click's signature
        return importing.command(cmd_name)


app = typer.Typer(
    cls=_Importers,
    help="Import JSON Lines. Valid records are stored, and invalid ones are listed. Safe to repeat.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.callback()
def import_() -> None:
    """Import JSON Lines. Valid records are stored, and invalid ones are listed. Safe to repeat."""
