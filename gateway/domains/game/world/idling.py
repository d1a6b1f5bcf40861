"""What the game declares about idle characters: a job."""

from __future__ import annotations

from datetime import timedelta

from portico.resolvers.declarations import Job
from portico.resolvers.game.settings import GameSettings
from portico.resolvers.game.world import resting
from portico.resolvers.game.world.rooms import Rooms


async def _rest_idle(run: Job.Run) -> int:
    hours = run.resources.of(GameSettings).idle_character_hours
    if hours <= 0:
        return 0
    return await resting.rest_idle(run.db, run.resources.of(Rooms), idle_for=timedelta(hours=hours), now=run.now)


JOBS = (Job("rest-characters", _rest_idle),)
