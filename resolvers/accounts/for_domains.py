"""Payments that are part of a write of another domain."""

from __future__ import annotations

from datetime import datetime
from typing import cast

from bson import ObjectId

from portico.resolvers.documents import Database

from . import transfers
from .transfer_records import TransferDocument


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
    moved = await transfers.transfer(
        db,
        owner=owner,
        source_id=source_id,
        destination_id=destination_id,
        amount=amount,
        currency=currency,
        now=now,
        operation_id=f"{operation_id} {purpose}" if purpose else operation_id,
    )
    return cast("TransferDocument", moved)
