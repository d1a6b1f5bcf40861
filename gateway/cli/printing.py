"""Untrusted text, made safe for a terminal."""

from __future__ import annotations


def printable(text: str) -> str:
    """Escapes characters that do not print, so that a stored name cannot move the cursor or start a line."""
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode() for character in text
    )
