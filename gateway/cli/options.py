"""Checks of the options of the command line."""

from __future__ import annotations

import typer


def require_utf8(given: str | None) -> str | None:
    """Returns the option unchanged. Refuses bytes that are not UTF-8, because such text cannot be sent or stored."""
    try:
        (given or "").encode()
    except UnicodeEncodeError:
        raise typer.BadParameter("the value is not UTF-8.") from None
    return given


def require_claims(given: list[str] | None) -> list[str] | None:
    """Returns the option unchanged. Refuses what is not NAME=VALUE."""
    if wrong := [one for one in given or [] if not one.partition("=")[1]]:
        raise typer.BadParameter(f"{wrong[0]!r} is not NAME=VALUE.")
    return given
