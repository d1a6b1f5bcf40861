"""`portico import`: a command for each importer that the served domains declare."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import Parameter, Signature
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from portico.gateway import domains
from portico.gateway.imports.runs import Importer
from portico.gateway.settings import Settings

from . import data, loops
from .errors import Failure

_ABOUT = """Import {name} from {formats}. Valid records are stored, and invalid ones are listed. Safe to repeat.

docs/importing.md describes the format. Exit status 1 means that a record was invalid.
"""


def names() -> list[str]:
    return list(_importers())


def command(name: str) -> Any:
    """Returns the command of the importer with this name; None if there is none."""
    importer = _importers().get(name)
    return None if importer is None else _command(name, importer)


def _importers() -> Mapping[str, Importer]:
    return domains.load(Settings.from_env().domain_names).importers


def _command(name: str, importer: Importer) -> Any:
    cli = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
    cli.command(name=name, help=_ABOUT.format(name=name, formats=importer.formats), short_help=f"Import {name}.")(
        _runner(name, importer)
    )
    return typer.main.get_command(cli)


def _runner(name: str, importer: Importer) -> Callable[..., None]:
    """Returns the function of the command. Typer reads the parameters from its signature."""

    def run(files: list[Path], **options: Any) -> None:
        for file in files:
            if not file.is_file():
                raise Failure(f"{file}: {'not a regular file' if file.exists() else 'no such file'}.")
        given = {option: value for option, value in options.items() if value not in (None, [])}
        settings = data.read_settings()
        out, errors = Console(highlight=False), Console(stderr=True, highlight=False, soft_wrap=True)
        try:
            all_valid = loops.run(data.import_files(settings, name, files, out, errors, given))
        except ValueError as error:
            raise Failure(str(error)) from None
        if not all_valid:
            raise typer.Exit(1)

    files_help = f"{importer.formats}, plain or gzipped."
    given_files = Parameter(
        "files",
        Parameter.POSITIONAL_OR_KEYWORD,
        annotation=Annotated[list[Path], typer.Argument(metavar="FILE…", help=files_help)],
    )
    options = [
        Parameter(
            option.name,
            Parameter.KEYWORD_ONLY,
            default=None,
            annotation=Annotated[option.kind, typer.Option(metavar=option.metavar, help=option.help)],
        )
        for option in importer.options
    ]
    parameters = [given_files, *options]
    run.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run
