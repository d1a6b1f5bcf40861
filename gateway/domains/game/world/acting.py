"""What the game declares about turns: jobs and invariants."""

from __future__ import annotations

from portico.resolvers.declarations import Job
from portico.resolvers.game.world import turn_checks, turn_jobs
from portico.resolvers.game.world.rooms import Rooms
from portico.resolvers.problems import Invariant


async def _finish_turns(run: Job.Run) -> int:
    return await turn_jobs.finish_turns(run.db, run.resources.of(Rooms), now=run.now)


async def _settle_rooms(run: Job.Run) -> int:
    return await turn_jobs.settle_rooms(run.db, run.resources.of(Rooms), now=run.now)


JOBS = (Job("finish-turns", _finish_turns), Job("settle-rooms", _settle_rooms))
INVARIANTS = (
    Invariant("Every item of the game is in exactly one place.", turn_checks.find_wrong_items),
    Invariant("The gold of the game is neither made nor lost.", turn_checks.find_wrong_gold),
    Invariant(
        "Every character is in the roster of its room, with what it carries and a current copy.",
        turn_checks.find_wrong_rosters,
    ),
    Invariant(
        "No action of a character, and nothing that one leaves in a room, waits for more than a minute.",
        turn_checks.find_left_behind,
    ),
)
