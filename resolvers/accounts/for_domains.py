"""Accounts of other domains, and payments that are part of their writes."""

from __future__ import annotations

from datetime import datetime
from typing import cast

from bson import ObjectId

from portico.resolvers.documents import Database
from portico.resolvers.errors import NotFound

from . import accounts, transfers
from .accounts import AccountDocument
from .transfer_records import TransferDocument


async def open_account(db: Database, *, reference: str, name: str, currency: str, now: datetime) -> AccountDocument:
    """Returns the account of a domain with this reference, and opens it if there is none. Any number of calls can.

    The account has no owner: payers see its name, and only `pay_out` takes money from it.

    Args:     reference: the name of your domain. If it has several accounts, a text that begins with the name.
              name: of a new account.  currency: ISO 4217. A reference has one account in each currency.
    Raises:   InvalidInput (the name or the currency).
    Writes:   accounts; one insert, if there is none.
    """
    account_id = accounts.domain_account_id(reference, currency)
    found = await accounts.find_by_ids(db, [account_id])
    return found.get(account_id) or await accounts.open_domain_account(
        db, reference, name=name, currency=currency, now=now
    )


async def transfer(
    db: Database,
    *,
    owner: str,
    source_id: ObjectId,
    destination_id: ObjectId,
    amount: int,
    currency: str,
    now: datetime,
    operation_id: str,
    purpose: str = "",
) -> TransferDocument:
    """Moves money between two accounts of the same currency, as part of an operation of another domain.

    The outcome of an operation is final: a repeated call gets the same transfer, or the same refusal. So a
    write first stores what it pays for, with the id of its operation, and then pays. If it crashes, a job pays with the
    stored id, and goes on or rolls back by the outcome.

    Args:     owner: the subject of the caller, who owns the source.  amount: minor units, 1 to 2^53 - 1.
              purpose: tells several transfers of one operation apart.
    Returns:  the transfer. The money has been moved, and can be spent.
    Raises:   NotFound (either account; the source is somebody else's), InvalidInput (the currency, the amount, or the
              destination would hold too much), InsufficientFunds: all final. Conflict: retry.
    Writes:   transfers, accounts; a settlement.
    """
    if not owner:
        # The accounts of domains have no owner, and neither has an anonymous caller.
        raise NotFound("Account", str(source_id))
    moved = await transfers.transfer(
        db,
        owner=owner,
        source_id=source_id,
        destination_id=destination_id,
        amount=amount,
        currency=currency,
        now=now,
        operation_id=_id_of(operation_id, purpose),
    )
    return cast("TransferDocument", moved)


async def pay_out(
    db: Database,
    *,
    reference: str,
    destination_id: ObjectId,
    amount: int,
    currency: str,
    now: datetime,
    operation_id: str,
    purpose: str = "",
) -> TransferDocument:
    """Moves money from the account of a domain with this reference, e.g. to give it back. Otherwise like `transfer`.

    Args:     reference: as for `open_account`; never a text that a caller chooses.
    Raises:   what `transfer` raises.
    Writes:   transfers, accounts; a settlement.
    """
    moved = await transfers.transfer(
        db,
        owner=None,
        source_id=accounts.domain_account_id(reference, currency),
        destination_id=destination_id,
        amount=amount,
        currency=currency,
        now=now,
        operation_id=_id_of(operation_id, purpose),
    )
    return cast("TransferDocument", moved)


async def find_transfer(db: Database, *, operation_id: str, purpose: str = "") -> TransferDocument | None:
    """Returns what became of the transfer of an operation, for a job or an invariant. It changes nothing.

    Returns:  the transfer with the `state` SETTLED, if the money was moved; with the state CANCELLED, if the accounts
              refused it, and `refused` says why; None, if nothing is decided. Then a call of `transfer` may still move
              the money, also one that is running. To decide it, call `transfer` with the id yourself.
    """
    found = await transfers.find_decided(db, _id_of(operation_id, purpose))
    return cast("TransferDocument | None", found)


def _id_of(operation_id: str, purpose: str) -> str:
    return f"{operation_id} {purpose}" if purpose else operation_id
