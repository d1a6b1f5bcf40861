"""Text from elsewhere, as it is shown on a terminal."""

from __future__ import annotations


def printable(text: str) -> str:
    """The text with whatever does not print escaped: nobody's name moves the cursor, or begins a line of its own."""
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode() for character in text
    )
