"""Payment by account: a transfer from the payer's account to the shop's account in the same currency, and back."""

from __future__ import annotations

from datetime import datetime

from bson import ObjectId

from portico.resolvers.accounts import accounts, transfer_records, transfers
from portico.resolvers.accounts.refusals import InsufficientFunds
from portico.resolvers.documents import Database, Document
from portico.resolvers.errors import Conflict, InvalidInput, NotFound
from portico.resolvers.shop.payments import ACCOUNT, Charge, PaymentUnknown, Refund
from portico.resolvers.shop.refusals import PaymentDeclined, RefundRefused
from portico.resolvers.writes.settlements import AT_ONCE, Answering

_TRANSFER = "transfer-"
# The reference of a transfer that refunds: this, and the id of the order.
_REFUND = "refund "


class AccountPayments:
    """Payments with {method: `account`, account_id}. The first payment in a currency opens the shop's account.

    `answering` is how a call is answered that pays.
    """

    def __init__(self, answering: Answering = AT_ONCE) -> None:
        self._answering = answering

    def accepts(self, payment: Document) -> bool:
        return bool(payment["method"] == ACCOUNT)

    async def charge(self, db: Database, charge: Charge, *, now: datetime) -> str:
        """Collects the money by a transfer; see `Payments.charge`. The transfer records the outcome, also a refusal.

        Writes:   transfers, accounts; a settlement.
        """
        account_id, shop_id = charge.payment["account_id"], accounts.shop_account_id(charge.currency)
        found = await accounts.find_stored(db, [account_id, shop_id])
        source = found.get(account_id)
        if source is None or charge.payer is None or source["owner"] != charge.payer:
            raise NotFound("Account", str(account_id))
        if source["currency"] != charge.currency:
            raise PaymentDeclined(f"The account is in {source['currency']}, the cart in {charge.currency}.")
        shop = found.get(shop_id) or await accounts.open_shop_account(db, charge.currency, now=now)
        try:
            paid = await transfers.move(
                db,
                source,
                shop,
                amount=charge.amount,
                now=now,
                operation_id=charge.reference,
                reference=charge.reference,
                answering=self._answering,
            )
        except InvalidInput as error:
            raise PaymentDeclined(error.message) from None
        except (Conflict, NotFound):
            # The transfer may be in flight, even if an account is missing. Only the next call can find out.
            raise PaymentUnknown from None
        return f"{_TRANSFER}{paid['_id']}"

    async def refund(self, db: Database, refund: Refund, *, now: datetime) -> str:
        """Gives the money back by a transfer to the account that paid; see `Payments.refund`.

        Writes:   transfers, accounts; a settlement.
        """
        paid_by = transfer_of(refund.payment_reference)
        assert paid_by is not None, "it was not paid by account"
        payment = (await transfer_records.find_by_ids(db, [paid_by]))[paid_by]
        payer_id, shop_id = payment["source"], payment["destination"]
        assert payer_id is not None
        found = await accounts.find_stored(db, [payer_id, shop_id])
        try:
            moved = await transfers.move(
                db,
                found[shop_id],
                found[payer_id],
                amount=refund.amount,
                now=now,
                operation_id=refund.reference,
                reference=f"{_REFUND}{refund.order_id}",
            )
        except (InsufficientFunds, InvalidInput) as error:
            raise RefundRefused(error.message) from None
        except Conflict:
            raise PaymentUnknown from None
        return transfer_reference(moved["_id"])


def refunded_by(reference: str) -> str | None:
    """Returns the id of the order that a transfer with this reference refunds; None if it refunds none."""
    return reference.removeprefix(_REFUND) if reference.startswith(_REFUND) else None


def transfer_reference(transfer: ObjectId) -> str:
    """Returns the payment reference of what this transfer has paid."""
    return f"{_TRANSFER}{transfer}"


def transfer_of(payment_reference: str) -> ObjectId | None:
    """Returns the transfer that paid an order with this reference; None if it was not paid by account."""
    prefix, transfer = payment_reference[: len(_TRANSFER)], payment_reference[len(_TRANSFER) :]
    return ObjectId(transfer) if prefix == _TRANSFER and ObjectId.is_valid(transfer) else None
