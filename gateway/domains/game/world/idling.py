"""What the game declares about idle characters: a job."""

from __future__ import annotations

from datetime import timedelta

from portico.resolvers.domains import Job, Turn
from portico.resolvers.game.settings import GameSettings
from portico.resolvers.game.world import resting
from portico.resolvers.game.world.rooms import Rooms


async def _rest_idle(turn: Turn) -> int:
    hours = turn.resources.of(GameSettings).idle_character_hours
    if hours <= 0:
        return 0
    return await resting.rest_idle(turn.db, turn.resources.of(Rooms), idle_for=timedelta(hours=hours), now=turn.now)


JOBS = (Job("rest-characters", _rest_idle),)
