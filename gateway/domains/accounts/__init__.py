"""The accounts: balances, deposits and transfers."""

from __future__ import annotations

from portico.resolvers.accounts import transfer_checks, transfer_jobs
from portico.resolvers.accounts.accounts import ACCOUNTS
from portico.resolvers.accounts.transfer_records import TRANSFERS
from portico.resolvers.declarations import Domain, Job
from portico.resolvers.problems import Invariant
from portico.schema.accounts import accounts as schema

from . import demo


async def _finish_transfers(run: Job.Run) -> int:
    return await transfer_jobs.finish_transfers(run.db, now=run.now)


DOMAIN = Domain(
    name="accounts",
    about="Accounts, deposits and transfers.",
    collections=(ACCOUNTS, TRANSFERS),
    jobs=(Job("finish-transfers", _finish_transfers),),
    invariants=(
        Invariant(
            "Every balance equals the deposits and transfers of the account, and none is negative.",
            transfer_jobs.find_wrong_accounts,
        ),
        Invariant("Every transfer is between accounts that exist.", transfer_checks.find_wrong_transfers),
    ),
    kinds=(schema.ACCOUNT, schema.TRANSFER),
    mutations=(schema.AccountMutation,),
    extensions={"Viewer": (schema.AccountViewer,)},
    demo=demo.load,
)
