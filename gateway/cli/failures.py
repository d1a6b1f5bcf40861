"""Expected failures of a command, as one line for the user."""

from __future__ import annotations

import re

from pymongo.errors import PyMongoError

from portico.gateway.auth import InvalidToken
from portico.gateway.mongo.embedded import EmbeddedError
from portico.gateway.settings import SettingsError
from portico.resolvers.served import InvalidDomains

from .listening import PortTaken
from .printing import printable


def line_of(error: Exception) -> str | None:
    """Returns the line that describes an expected failure; None for a bug, which needs a traceback."""
    if isinstance(error, SettingsError | InvalidDomains | EmbeddedError | PortTaken | InvalidToken):
        return str(error)
    if isinstance(error, PyMongoError):
        return printable(f"MongoDB: {_one_line(str(error))}")
    if isinstance(error, OSError):
        return printable(f"{error.filename or 'the system'}: {error.strerror}")
    return None


def _one_line(text: str) -> str:
    # The driver lists every server and timeout. The first clause names the cause.
    return re.split(r", full error|, Timeout:|\(configured timeouts", text)[0].strip()
