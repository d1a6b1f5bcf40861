"""Two accounts, and the operations on them."""

from __future__ import annotations

from typing import Any, ClassVar

from portico.resolvers.money import MAX_AMOUNT
from portico.schema.roles import Role
from portico.testing.stages import Case, Stage
from tests.accounts.support.accounts import NOWHERE, assert_money, balances, deposit_input, open_account, transfer_input


class Transfers(Stage):
    """Two accounts, the first of which holds 100, and the operations on them."""

    collections = ("accounts", "transfers", "operations")
    job_names = ("finish-transfers",)
    job_seconds = 6
    least = (3, 3)
    before: ClassVar[Any] = [100, 0]
    cases = {  # noqa: RUF012 - no test changes it
        "a deposit": Case("deposit", lambda stage: deposit_input(stage.mine, 50), "AccountPayload", [150, 0]),
        "a transfer": Case("transfer", lambda stage: stage.transfer(30), "TransferPayload", [70, 30]),
        "a transfer of everything": Case("transfer", lambda stage: stage.transfer(100), "TransferPayload", [0, 100]),
    }

    async def build(self) -> None:
        self.mine, self.theirs = (
            await open_account(self.gateway.db, 100),
            await open_account(self.gateway.db, owner="another"),
        )

    def token(self, _mutation: str) -> str:
        token: str = self.gateway.token(roles=[Role.SERVICE])
        return token

    def transfer(self, amount: int) -> dict[str, Any]:
        return transfer_input(self.mine, self.theirs, amount)

    async def state(self) -> Any:
        return await balances(self.gateway.db, self.mine, self.theirs)

    async def assert_settled(self) -> None:
        await assert_money(self.gateway, sum(await self.state()))


class Refusals(Transfers):
    """Calls that the read of the accounts refuses. They leave no notes, so they have few commands."""

    least = (1, 2)
    cases = {  # noqa: RUF012 - no test changes it
        "a transfer of too much": Case("transfer", lambda stage: stage.transfer(101), "InsufficientFunds", [100, 0]),
        "a transfer to no account": Case(
            "transfer", lambda stage: transfer_input(stage.mine, NOWHERE, 1), "NotFound", [100, 0]
        ),
        "a deposit to no account": Case("deposit", lambda _: deposit_input(NOWHERE, 1), "NotFound", [100, 0]),
    }


class FullAccount(Transfers):
    """A transfer to an account that has no room for it. The note of the source is undone."""

    before: ClassVar[Any] = [100, MAX_AMOUNT - 50]
    cases = {  # noqa: RUF012 - no test changes it
        "a transfer without room": Case("transfer", lambda stage: stage.transfer(51), "InvalidInput", before),
    }

    async def build(self) -> None:
        self.mine, self.theirs = (
            await open_account(self.gateway.db, 100),
            await open_account(self.gateway.db, MAX_AMOUNT - 50, owner="another"),
        )


class Openings(Transfers):
    """The same accounts. The state is their number."""

    least = (2, 3)
    before: ClassVar[Any] = 2
    cases = {  # noqa: RUF012 - no test changes it
        "an opening": Case("openAccount", lambda _: {"name": "Savings"}, "AccountPayload", 3),
    }

    async def state(self) -> Any:
        return await self.gateway.db["accounts"].count_documents({})

    async def assert_settled(self) -> None:
        await assert_money(self.gateway, 100)
