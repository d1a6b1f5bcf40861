"""The accounts: balances, deposits and transfers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial

from portico.resolvers.accounts import former_transfers, transfer_checks, transfer_jobs
from portico.resolvers.accounts.accounts import ACCOUNTS
from portico.resolvers.accounts.transfer_records import TRANSFERS
from portico.resolvers.documents import Database
from portico.resolvers.domains import Domain, Invariant, Job, Problem, Turn
from portico.schema.accounts import accounts as schema

from . import demo


async def _finish_transfers(turn: Turn) -> int:
    return await transfer_jobs.finish_transfers(turn.db, now=turn.now)


async def _accounts(db: Database) -> AsyncIterator[Problem]:
    async for wrong in transfer_jobs.find_wrong_accounts(db):
        rolled_back = wrong.get("transfer")
        repair = None if rolled_back is None else partial(former_transfers.remove_note, db, rolled_back, wrong["_id"])
        yield Problem(f"account {wrong['_id']} ({wrong['name']})", wrong["problem"], repair)


async def _transfers(db: Database) -> AsyncIterator[Problem]:
    async for wrong in transfer_checks.find_wrong_transfers(db):
        yield Problem(f"transfer {wrong['_id']}", wrong["problem"])


DOMAIN = Domain(
    name="accounts",
    about="Accounts, deposits and transfers.",
    collections=(ACCOUNTS, TRANSFERS),
    jobs=(Job("finish-transfers", _finish_transfers),),
    invariants=(
        Invariant("Every balance equals the deposits and transfers of the account, and none is negative.", _accounts),
        Invariant("Every transfer is between accounts that exist.", _transfers),
    ),
    kinds=(schema.ACCOUNT, schema.TRANSFER),
    mutations=(schema.AccountMutation,),
    extensions={"Viewer": (schema.AccountViewer,)},
    demo=demo.load,
)
