"""What a command raises."""

from __future__ import annotations


class Failure(Exception):
    """The command cannot continue. The text is one line for the user."""
