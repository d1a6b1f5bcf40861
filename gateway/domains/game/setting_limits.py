"""Limits of the game's settings that their types do not say."""

from __future__ import annotations

from portico.gateway.settings import PREFIX, SettingsError
from portico.resolvers.declarations import Resources
from portico.resolvers.game.settings import GameSettings


def require(settings: Resources) -> None:
    """Raises SettingsError if trades would be deleted after less than a day; see `trade_history.prune_trades`."""
    days = settings.of(GameSettings).trade_history_days
    if days < 1:
        raise SettingsError(f"{PREFIX}TRADE_HISTORY_DAYS must be at least 1; got {days:g}.")
