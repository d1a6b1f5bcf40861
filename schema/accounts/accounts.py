"""Accounts, and transfers between them."""

from __future__ import annotations

from datetime import datetime
from enum import Enum
from typing import Annotated, Any, cast

import strawberry
from graphql import GraphQLError

from portico.loaders.accounts import accounts as account_loaders
from portico.loaders.accounts import transfers as transfer_loaders
from portico.resolvers import errors
from portico.resolvers.accounts import accounts, transfers
from portico.resolvers.documents import document_id
from portico.schema.access import require_caller
from portico.schema.context import Caller, Info, core
from portico.schema.errors import InvalidInput, NotFound, UserError, member
from portico.schema.fields import Source, computed, costs, reads, related, stored
from portico.schema.inputs import idempotency_key
from portico.schema.money import Money, MoneyInput
from portico.schema.mutations import mutation
from portico.schema.nodes import Kind, Node, key_in, load, node_id, projection_of
from portico.schema.roles import Role


def _owns(account: Source, subject: str | None) -> bool:
    return subject is not None and account["owner"] == subject


ACCOUNT = Kind(
    name="Account",
    path="_id",
    parse=document_id,
    read=account_loaders.by_id,
    types=("Account",),
    type_name=lambda _document: "Account",
    discriminator=("owner",),
    visible_to=lambda document, context: _owns(document, context.subject),
)
TRANSFER = Kind(
    name="Transfer",
    path="_id",
    parse=document_id,
    read=transfer_loaders.by_id,
    types=("Transfer",),
    type_name=lambda _document: "Transfer",
    discriminator=("owners",),
    visible_to=lambda document, context: context.subject in document["owners"],
)


@strawberry.enum(description="How far a transfer has come.")
class TransferState(Enum):
    NEW = strawberry.enum_value("NEW", description="Prepared, may still be rolled back.")
    COMMITTED = strawberry.enum_value("COMMITTED", description="Will be settled, whatever crashes.")
    ROLLBACK = strawberry.enum_value("ROLLBACK", description="Being undone.")
    SETTLED = strawberry.enum_value("SETTLED", description="Settled: both accounts have let go of it.")
    CANCELLED = strawberry.enum_value("CANCELLED", description="Undone.")


@strawberry.type(
    description="Money held for somebody. The balance is never negative. Whoever has paid the account, or was paid by "
    "it, sees its id and its name."
)
class Account(Node):
    id: strawberry.ID = node_id("Account", "_id")
    name: str = stored(description="What its owner calls it.")

    @reads("owner", "balance", "currency", description="What can be spent. For the owner, and for a SERVICE.")
    @staticmethod
    def balance(root: strawberry.Parent[Source], info: Info) -> Money:
        caller = info.context.caller
        if caller is None or not (_owns(root, caller.subject) or caller.has(Role.SERVICE)):
            raise GraphQLError("The balance is its owner's business.", extensions={"code": "FORBIDDEN"})
        return cast("Money", {"amount": root["balance"], "currency": root["currency"]})

    @reads(
        "pending.id",
        length=10,
        description="Transfers that have touched the balance and are not yet settled. Of another person's account "
        "those that the viewer takes part in.",
    )
    @staticmethod
    async def pending_transfers(root: strawberry.Parent[Source], info: Info) -> list[Transfer]:
        answers = [load(core(info), TRANSFER, note["id"]) for note in root["pending"]]
        return [cast("Transfer", document) for answer in answers if (document := await answer) is not None]


@strawberry.type(description="Money on its way from one account to another. Both owners see it.")
class Transfer(Node):
    id: strawberry.ID = node_id("Transfer", "_id")
    source: Account = related("Account", "source", discloses=True, description="The account that pays.")
    destination: Account = related("Account", "destination", discloses=True, description="The account that is paid.")
    amount: Money = computed(
        lambda transfer: {"amount": transfer["amount"], "currency": transfer["currency"]},
        "amount",
        "currency",
        description="How much.",
    )
    state: TransferState = stored(description="How far it has come.")
    created_at: datetime = stored(description="When it began.")


@strawberry.type
class AccountViewer:
    caller: strawberry.Private[Caller]

    @strawberry.field(description="The viewer's accounts, oldest first.", metadata=costs(length=accounts.MAX_ACCOUNTS))
    async def accounts(self, info: Info) -> list[Account]:
        projection = projection_of(core(info), ACCOUNT)
        found = await accounts.find_by_owner(info.context.db, self.caller.subject, projection)
        return cast("list[Account]", found)


@strawberry.input(description="A new account of the viewer's, empty at first.")
class OpenAccountInput:
    name: str = strawberry.field(description="What its owner calls it.")
    currency: str = strawberry.field(default="USD", description="ISO 4217 code. It never changes.")
    idempotency_key: str | None = idempotency_key()


@strawberry.input(description="Money from outside, for the SERVICE role.")
class DepositInput:
    account_id: strawberry.ID = strawberry.field(description="The account, whosever it is.")
    amount: MoneyInput = strawberry.field(description="How much, in the account's currency.")
    idempotency_key: str = idempotency_key(is_required=True)


@strawberry.input(description="Money to be moved between two accounts of one currency.")
class TransferInput:
    source_id: strawberry.ID = strawberry.field(description="The account that pays, one of the viewer's.")
    destination_id: strawberry.ID = strawberry.field(description="The account that is paid, whosever it is.")
    amount: MoneyInput = strawberry.field(description="How much, in the currency of both accounts.")
    idempotency_key: str = idempotency_key(is_required=True)


@strawberry.type(description="The account after the write.")
class AccountPayload:
    account: Account = strawberry.field(description="As it is now.")


@strawberry.type(description="The transfer after the write.")
class TransferPayload:
    transfer: Transfer = strawberry.field(description="As it is now.")


@member(errors.InsufficientFunds)
@strawberry.type(description="The account does not hold so much.")
class InsufficientFunds(UserError):
    pass


OpenAccountResult = Annotated[
    AccountPayload | InvalidInput,
    strawberry.union("OpenAccountResult", description="What came of opening an account."),
]
DepositResult = Annotated[
    AccountPayload | NotFound | InvalidInput,
    strawberry.union("DepositResult", description="What came of a deposit."),
]
TransferResult = Annotated[
    TransferPayload | InsufficientFunds | NotFound | InvalidInput,
    strawberry.union("TransferResult", description="What came of a transfer."),
]


def _money(given: MoneyInput) -> dict[str, Any]:
    return {"amount": int(given.amount), "currency": given.currency}


@strawberry.type
class AccountMutation:
    @mutation(description="Opens an account for the viewer.")
    async def open_account(self, info: Info, input: OpenAccountInput) -> OpenAccountResult | None:
        opened = await accounts.open_account(
            info.context.db,
            owner=require_caller(info.context).subject,
            name=input.name,
            currency=input.currency,
            now=info.context.now,
            operation_id=info.context.operation_id,
        )
        return AccountPayload(account=cast("Account", opened))

    @mutation(role=Role.SERVICE, description="Puts money from outside into an account. For a SERVICE.")
    async def deposit(self, info: Info, input: DepositInput) -> DepositResult | None:
        paid = await transfers.deposit(
            info.context.db,
            account_id=key_in("Account", input.account_id),
            **_money(input.amount),
            now=info.context.now,
            operation_id=info.context.operation_id,
        )
        return AccountPayload(account=cast("Account", paid))

    @mutation(description="Moves money from an account of the viewer's to any other. It happens wholly or not at all.")
    async def transfer(self, info: Info, input: TransferInput) -> TransferResult | None:
        settled = await transfers.transfer(
            info.context.db,
            owner=require_caller(info.context).subject,
            source_id=key_in("Account", input.source_id),
            destination_id=key_in("Account", input.destination_id),
            **_money(input.amount),
            now=info.context.now,
            operation_id=info.context.operation_id,
        )
        return TransferPayload(transfer=cast("Transfer", settled))
