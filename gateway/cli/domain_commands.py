"""The commands that the served domains declare. Importing them takes a second, so they are imported on use."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from portico.gateway import domains
from portico.gateway.mongo.database_clock import clock_of
from portico.gateway.settings import Settings
from portico.resolvers.declarations import Command
from portico.resolvers.indexes import create_indexes

from . import data, loops
from .errors import Failure
from .printing import printable


def all_of() -> Mapping[str, Command]:
    """Returns the commands by name."""
    return domains.load(Settings.from_env().domain_names).commands


def roles() -> Sequence[Any]:
    """Returns the roles that the served domains declare."""
    return domains.load(Settings.from_env().domain_names).roles


def command(name: str) -> Any:
    """Returns the command of a domain with this name; None if there is none."""
    found = all_of().get(name)
    return None if found is None else _command(found)


def _command(found: Command) -> Any:
    cli = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
    cli.command(name=found.name, help=found.about)(_runner(found))
    return typer.main.get_command(cli)


def _runner(found: Command) -> Callable[[], None]:
    def run() -> None:
        went_well = loops.run(_run(data.read_settings(), found, Console(highlight=False)))
        if not isinstance(went_well, bool):
            raise Failure(f"the command {found.name} must return True or False; it returned {went_well!r}.")
        if not went_well:
            raise typer.Exit(1)

    return run


async def _run(settings: Settings, found: Command, out: Console) -> bool:
    chosen = domains.load(settings.domain_names)
    base = domains.base_resources(settings, chosen)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    async with data.connected_database(settings) as db, chosen.opened(base, db) as resources:
        async for _ in create_indexes(db, chosen.collections):
            pass
        async with clock_of(db) as clock:
            with Progress(*columns, console=out, transient=True, disable=not out.is_terminal) as progress:
                task = progress.add_task(found.name, total=None)

                def show(done: int, total: int) -> None:
                    progress.update(task, completed=done, total=max(done, total))

                def print_line(text: str) -> None:
                    out.print(printable(text), markup=False, soft_wrap=True)

                return await found.run(Command.Run(db, clock.now(), resources, print_line, show))
