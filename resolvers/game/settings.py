"""The settings of the game."""

from __future__ import annotations

from dataclasses import dataclass

from portico.resolvers.configuration import setting


@dataclass(frozen=True)
class GameSettings:
    starting_gold: int = setting(100, "The gold pieces of a new character of the game.")
