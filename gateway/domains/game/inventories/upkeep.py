"""What the game declares about inventories of any size and trades: jobs and invariants."""

from __future__ import annotations

from datetime import timedelta

from portico.resolvers.declarations import Job
from portico.resolvers.game.inventories import stack_checks, stack_jobs, trade_history
from portico.resolvers.game.settings import GameSettings
from portico.resolvers.problems import Invariant


async def _finish_trades(run: Job.Run) -> int:
    return await stack_jobs.finish_trades(run.db, now=run.now)


async def _expire_trades(run: Job.Run) -> int:
    expire_after = run.resources.of(GameSettings).trade_expires_after
    if expire_after is None:
        return 0
    return await trade_history.expire_trades(run.db, expire_after=expire_after, now=run.now)


async def _prune_trades(run: Job.Run) -> int:
    days = run.resources.of(GameSettings).trade_history_days
    if days <= 0:
        return 0
    return await trade_history.prune_trades(run.db, kept=timedelta(days=days), now=run.now)


JOBS = (
    Job("finish-trades", _finish_trades),
    Job("expire-trades", _expire_trades),
    Job("prune-trades", _prune_trades),
)
INVARIANTS = (
    Invariant(
        "Items in stacks and trades are those that were granted and not consumed.", stack_checks.find_unbalanced_items
    ),
    Invariant("Every stack has a valid quantity, and the id of its item.", stack_checks.find_wrong_stacks),
    Invariant("Goods of expired offers have room in their inventory.", trade_history.find_stuck_offers),
)
