"""Checks whether every transfer is between accounts that exist."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial

from pymongo import ASCENDING

from portico.resolvers.documents import Database, Document
from portico.resolvers.problems import Problem

from . import accounts
from .transfer_records import CANCELLED, TRANSFERS

_NAME = Problem.named("transfer")
_SHOWN = dict.fromkeys(("source", "destination", "state"), 1)


async def find_wrong_transfers(db: Database) -> AsyncIterator[Problem]:
    """Yields transfers with a missing account.

    Accounts are inserted before their transfers, and never removed.
    """
    found = db[TRANSFERS.name].find({}, _SHOWN, sort=[("_id", ASCENDING)])
    async for problem in Problem.all_in(found, partial(_wrong_in, db), _NAME):
        yield problem


async def _wrong_in(db: Database, batch: list[Document]) -> AsyncIterator[Problem]:
    # A transfer that was called off before it was decided has no sides.
    made = [transfer for transfer in batch if "source" in transfer or transfer["state"] != CANCELLED]
    sides = [(transfer, side) for transfer in made for side in ("source", "destination")]
    named = list({transfer[side] for transfer, side in sides} - {None})
    there = await accounts.find_by_ids(db, named, {"_id": 1})
    for transfer, side in sides:
        # A deposit has no source.
        is_outside = side == "source" and transfer[side] is None
        if not is_outside and transfer[side] not in there:
            yield Problem(_NAME(transfer), f"its {side}, account {transfer[side]}, does not exist")
