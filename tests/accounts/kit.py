"""What the domain accounts tells the tests that run on every domain."""

from __future__ import annotations

from portico.testing.kits import Kit, read_budgets
from tests.accounts.support import cases, failures, leftovers, seeds, stages
from tests.support.selections import INVALID

_ACCOUNT = "... on AccountPayload { account { id name balance { amount currency } pendingTransfers { id } } }"
_TRANSFER = (
    "... on TransferPayload { transfer { id state amount { amount currency } "
    "source { id name } destination { id name } } }"
)
MUTATIONS = {
    "openAccount": f"{_ACCOUNT} ... on InvalidInput {{ path }}",
    "deposit": f"{_ACCOUNT} {INVALID}",
    "transfer": f"{_TRANSFER} {INVALID}",
}


KIT = Kit(
    adds=("openAccount", "Account"),
    mutations=MUTATIONS,
    inputs=cases.CASES,
    failures=failures.FAILURES,
    unfailed={
        # A deposit needs another role.
        ("deposit", "NotFound"),
        ("deposit", "InvalidInput"),
    },
    leftovers={
        "finish-transfers": (leftovers.new_transfer, leftovers.committed_transfer, leftovers.rolled_back_transfer)
    },
    budgets=read_budgets(__file__),
    scattered={"find transfers open_since", "find accounts pending.at", "find transfers ", "find accounts "},
    stages=(stages.Transfers, stages.Refusals, stages.FullAccount, stages.Openings),
    seed=seeds.seed,
)
