"""Stops a write between two of its commands, or runs an action there. Tests import these names from here."""

from __future__ import annotations

from portico.testing import crashing, database_of, stopping
from portico.testing.interruptions import before_every_command, delayed, interrupted

__all__ = ["before_every_command", "crashing", "database_of", "delayed", "interrupted", "stopping"]
