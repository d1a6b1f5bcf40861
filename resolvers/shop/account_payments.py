"""Payment by account: a transfer from the payer's account to the shop's account in the same currency."""

from __future__ import annotations

from datetime import datetime

from bson import ObjectId

from portico.resolvers.accounts import accounts, transfers
from portico.resolvers.documents import Database, Document
from portico.resolvers.errors import Conflict, InvalidInput, NotFound
from portico.resolvers.shop.payments import ACCOUNT, Charge, PaymentUnknown
from portico.resolvers.shop.refusals import PaymentDeclined
from portico.resolvers.writes.settlements import AT_ONCE, Answering

_TRANSFER = "transfer-"


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


def transfer_of(payment_reference: str) -> ObjectId | None:
    """Returns the transfer that paid an order with this reference; None if it was not paid by account."""
    prefix, transfer = payment_reference[: len(_TRANSFER)], payment_reference[len(_TRANSFER) :]
    return ObjectId(transfer) if prefix == _TRANSFER and ObjectId.is_valid(transfer) else None
