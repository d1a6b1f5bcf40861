"""The settings of the game."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from portico.resolvers.configuration import setting


@dataclass(frozen=True)
class GameSettings:
    starting_gold: int = setting(100, "The gold pieces of a new character of the game.")
    idle_character_hours: float = setting(
        24.0,
        "Hours without an action until a character of the game rests: it leaves its room, and comes back when it acts.",
    )
    trade_days: float = setting(30.0, "Days until an offered trade expires: its goods go back.")
    trade_history_days: float = setting(365.0, "Days until a settled or cancelled trade is deleted, at least 1.")

    @property
    def trade_expires_after(self) -> timedelta | None:
        """Returns the age at which an offered trade expires; None if none does."""
        return timedelta(days=self.trade_days) if self.trade_days > 0 else None
