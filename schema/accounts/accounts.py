"""Accounts, and transfers between them."""

from datetime import datetime
from enum import Enum
from typing import Annotated, Any

import strawberry
from graphql import GraphQLError

from portico.loaders.accounts import accounts as account_loaders
from portico.loaders.accounts import transfers as transfer_loaders
from portico.resolvers.accounts import accounts, transfer_records, transfers
from portico.resolvers.accounts.accounts import AccountDocument
from portico.resolvers.accounts.refusals import InsufficientFunds
from portico.resolvers.documents import projection_name
from portico.schema.context import Caller, Info, core
from portico.schema.errors import InvalidInput, NotFound, failure
from portico.schema.fields import as_type, computed, costs, reads, related, stored
from portico.schema.inputs import idempotency_key
from portico.schema.kinds import Kind, Node, node_id
from portico.schema.money import Money
from portico.schema.mutations import mutation
from portico.schema.nodes import load, projection_of
from portico.schema.roles import Role
from portico.schema.viewer import ShowsViewer


def _owns(account: AccountDocument, subject: str | None) -> bool:
    return subject is not None and account["owner"] == subject


ACCOUNT = Kind.of(
    "Account",
    accounts.ACCOUNTS,
    read=account_loaders.by_id,
    reads=("owner",),
    visible_to=lambda document, context: _owns(document, context.subject),
)
TRANSFER = Kind.of(
    "Transfer",
    transfer_records.TRANSFERS,
    read=transfer_loaders.by_id,
    reads=("owners",),
    visible_to=lambda document, context: context.subject in document["owners"],
)


@strawberry.enum(description="The state of a transfer.")
class TransferState(Enum):
    NEW = strawberry.enum_value("NEW", description="Prepared; can still be rolled back.")
    COMMITTED = strawberry.enum_value("COMMITTED", description="Decided; will be settled, even after a crash.")
    ROLLBACK = strawberry.enum_value("ROLLBACK", description="Being rolled back.")
    SETTLED = strawberry.enum_value("SETTLED", description="Finished: the destination has the money.")
    CANCELLED = strawberry.enum_value("CANCELLED", description="Rolled back, or refused.")


@strawberry.type(
    description="Money that is held for its owner. The balance is never negative. The other owner of a transfer sees "
    "the account's id and name."
)
class Account(Node):
    id: strawberry.ID = node_id("Account", "_id")
    name: str = stored(description="The owner's name for it.")

    @reads(
        "owner",
        "balance",
        "currency",
        "pending",
        description="The money that can be spent. For the owner and for a SERVICE.",
    )
    @staticmethod
    def balance(root: strawberry.Parent[AccountDocument], info: Info) -> Money:
        caller = info.context.caller
        if caller is None or not (_owns(root, caller.subject) or caller.has(Role.SERVICE)):
            raise GraphQLError("Only the owner and a SERVICE can read the balance.", extensions={"code": "FORBIDDEN"})
        return as_type(Money, {"amount": root["balance"], "currency": root["currency"]})

    @reads(
        "pending",
        length=10,
        description="Unfinished transfers that the account has recorded. For an account of another owner, only those "
        "that the viewer takes part in.",
    )
    @staticmethod
    async def pending_transfers(root: strawberry.Parent[AccountDocument], info: Info) -> "list[Transfer]":
        answers = [load(core(info), TRANSFER, note.get("record") or note["id"]) for note in root["pending"]]
        return [as_type(Transfer, document) for answer in answers if (document := await answer) is not None]


@strawberry.type(description="A transfer of money between two accounts. Both owners can see it.")
class Transfer(Node):
    id: strawberry.ID = node_id("Transfer", "_id")
    source: Account = related("Account", "source", discloses=True, description="The account that pays.")
    destination: Account = related("Account", "destination", discloses=True, description="The account that is paid.")
    amount: Money = computed(
        lambda transfer: {"amount": transfer["amount"], "currency": transfer["currency"]},
        "amount",
        "currency",
        description="The amount.",
    )
    state: TransferState = stored(description="The state of the transfer.")
    created_at: datetime = stored(description="When it began.")


@strawberry.type
class AccountViewer:
    caller: strawberry.Private[Caller]

    @strawberry.field(description="The viewer's accounts, oldest first.", metadata=costs(length=accounts.MAX_ACCOUNTS))
    async def accounts(self, info: Info) -> list[Account] | None:
        context, projection = info.context, projection_of(core(info), ACCOUNT)
        name = ("the viewer's accounts", projection_name(projection))
        mine = context.loader(name, lambda: account_loaders.by_owner(context.db, projection))
        return as_type(list[Account], await mine.load(self.caller.subject) or ())


@strawberry.input(description="A new, empty account of the viewer.")
class OpenAccountInput:
    name: str = strawberry.field(description="The owner's name for it.")
    currency: str = strawberry.field(default="USD", description="An ISO 4217 code. It never changes.")
    idempotency_key: str | None = idempotency_key()


@strawberry.input(description="Money from outside, for the SERVICE role.")
class DepositInput:
    account_id: strawberry.ID = strawberry.field(description="Any account.")
    amount: Money.Input = strawberry.field(description="The amount, in the account's currency.")
    idempotency_key: str = idempotency_key(is_required=True)


@strawberry.input(description="Money to move between two accounts of the same currency.")
class TransferInput:
    source_id: strawberry.ID = strawberry.field(description="The account that pays; one of the viewer's accounts.")
    destination_id: strawberry.ID = strawberry.field(description="The account that is paid; any account.")
    amount: Money.Input = strawberry.field(description="The amount, in the currency of both accounts.")
    idempotency_key: str = idempotency_key(is_required=True)


@strawberry.type(description="The account after the write.")
class AccountPayload(ShowsViewer):
    account: Account = strawberry.field(description="The current account.")


@strawberry.type(description="The transfer after the write.")
class TransferPayload(ShowsViewer):
    transfer: Transfer = strawberry.field(description="The current transfer.")


failure("The account does not hold enough money.")(InsufficientFunds)


OpenAccountResult = Annotated[
    AccountPayload | InvalidInput,
    strawberry.union("OpenAccountResult", description="The result of opening an account."),
]
DepositResult = Annotated[
    AccountPayload | NotFound | InvalidInput,
    strawberry.union("DepositResult", description="The result of a deposit."),
]
TransferResult = Annotated[
    TransferPayload | InsufficientFunds | NotFound | InvalidInput,
    strawberry.union("TransferResult", description="The result of a transfer."),
]


def _money(given: Money.Input) -> dict[str, Any]:
    return {"amount": int(given.amount), "currency": given.currency}


@strawberry.type
class AccountMutation:
    @mutation(description="Opens an account for the viewer.")
    async def open_account(self, info: Info, input: OpenAccountInput) -> OpenAccountResult | None:
        opened = await accounts.open_account(
            info.context.db,
            owner=info.context.require_caller().subject,
            name=input.name,
            currency=input.currency,
            now=info.context.now,
            operation_id=info.context.operation_id,
        )
        return AccountPayload(account=as_type(Account, opened))

    @mutation(
        role=Role.SERVICE,
        settles=True,
        is_decided=transfers.is_made,
        decides_key=transfer_records.DECISIONS,
        description="Adds money from outside to an account. For a SERVICE.",
    )
    async def deposit(self, info: Info, input: DepositInput) -> DepositResult | None:
        paid = await transfers.deposit(
            info.context.db,
            account_id=Kind.key_in(info.context, "Account", input.account_id),
            **_money(input.amount),
            now=info.context.now,
            operation_id=info.context.operation_id,
            answering=info.context.answering,
        )
        return AccountPayload(account=as_type(Account, paid))

    @mutation(
        settles=True,
        is_decided=transfers.is_made,
        decides_key=transfer_records.DECISIONS,
        description="Moves money from one of the viewer's accounts to any other account: the whole amount or nothing.",
    )
    async def transfer(self, info: Info, input: TransferInput) -> TransferResult | None:
        settled = await transfers.transfer(
            info.context.db,
            owner=info.context.require_caller().subject,
            source_id=Kind.key_in(info.context, "Account", input.source_id),
            destination_id=Kind.key_in(info.context, "Account", input.destination_id),
            **_money(input.amount),
            now=info.context.now,
            operation_id=info.context.operation_id,
            answering=info.context.answering,
        )
        return TransferPayload(transfer=as_type(Transfer, settled))
