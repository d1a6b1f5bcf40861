"""What a command raises."""

from __future__ import annotations


class Failure(Exception):
    """The command cannot do what it was asked. The text is one line for people."""
