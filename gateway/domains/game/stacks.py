"""What the game declares about inventories of any size and trades: jobs and invariants."""

from __future__ import annotations

from collections.abc import AsyncIterator

from portico.resolvers.documents import Database
from portico.resolvers.domains import Invariant, Job, Problem, Turn
from portico.resolvers.game import stack_checks, stack_jobs


async def _finish_trades(turn: Turn) -> int:
    return await stack_jobs.finish_trades(turn.db, now=turn.now)


async def _items(db: Database) -> AsyncIterator[Problem]:
    async for wrong in stack_checks.find_unbalanced_items(db):
        item = wrong["_id"]
        yield Problem(f"item {item.get('category')}/{item.get('item_id')}", wrong["problem"])


async def _stacks(db: Database) -> AsyncIterator[Problem]:
    async for wrong in stack_checks.find_wrong_stacks(db):
        yield Problem(f"stack {wrong['_id']}", wrong["problem"])


JOBS = (Job("finish-trades", _finish_trades),)
INVARIANTS = (
    Invariant("Items in stacks and trades are those that were granted and not consumed.", _items),
    Invariant("Every stack has a valid quantity, and the id of its item.", _stacks),
)
