"""Payment by account: a transfer from the payer's account to the shop's account in the same currency, and back."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from bson import ObjectId

from portico.resolvers.accounts import accounts, transfer_records, transfers
from portico.resolvers.accounts.accounts import AccountDocument, domain_account_id
from portico.resolvers.accounts.refusals import InsufficientFunds
from portico.resolvers.documents import Database, Document
from portico.resolvers.errors import Conflict, InvalidInput, NotFound
from portico.resolvers.shop.payments import ACCOUNT, Charge, PaymentUnknown, Refund
from portico.resolvers.shop.refusals import PaymentDeclined, RefundRefused
from portico.resolvers.writes import settlements
from portico.resolvers.writes.settlements import Attempt
from portico.resolvers.writes.settler import AT_ONCE, Answering

_TRANSFER = "transfer-"
# The reference of the shop's accounts.
_SHOP = "shop"
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

    async def ready(self, db: Database, charge: Charge) -> _AccountCharge | None:
        """Returns the charge if the account of the payer has the money."""
        source, shop = await _accounts_of(db, charge)
        if source is None or shop is None or not _is_payers(source, charge):
            return None
        if source["currency"] != charge.currency or source["balance"] < charge.amount:
            return None
        return _AccountCharge(db, charge, source, shop, self._answering)

    async def charge(self, db: Database, charge: Charge, *, now: datetime) -> str:
        """Collects the money by a transfer; see `Payments.charge`. The transfer records the outcome, also a refusal.

        Writes:   transfers, accounts; a settlement.
        """
        source, shop = await _accounts_of(db, charge)
        if source is None or not _is_payers(source, charge):
            raise NotFound("Account", str(charge.payment["account_id"]))
        if source["currency"] != charge.currency:
            raise PaymentDeclined(f"The account is in {source['currency']}, the cart in {charge.currency}.")
        shop = shop or await open_shop_account(db, charge.currency, now=now)
        return await _AccountCharge(db, charge, source, shop, self._answering).collect(now=now)

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


def shop_account_id(currency: str) -> ObjectId:
    """Returns the id of the shop's account in this currency."""
    return domain_account_id(_SHOP, currency)


async def open_shop_account(db: Database, currency: str, *, now: datetime) -> AccountDocument:
    """Returns the shop's account in this currency, and opens it if there is none."""
    return await accounts.open_domain_account(db, _SHOP, name="The shop", currency=currency, now=now)


async def _accounts_of(db: Database, charge: Charge) -> tuple[AccountDocument | None, AccountDocument | None]:
    """Returns the account that pays, and that of the shop."""
    account_id, shop_id = charge.payment["account_id"], shop_account_id(charge.currency)
    found = await accounts.find_stored(db, [account_id, shop_id])
    return found.get(account_id), found.get(shop_id)


def _is_payers(account: AccountDocument, charge: Charge) -> bool:
    return charge.payer is not None and account["owner"] == charge.payer


@dataclass
class _AccountCharge:
    """A charge, with both accounts as they were read."""

    db: Database
    charge: Charge
    source: AccountDocument
    shop: AccountDocument
    answering: Answering
    _begun: tuple[Attempt, bool] | None = field(default=None, init=False)

    @property
    def is_prepared(self) -> bool:
        return self._begun is not None and self._begun[1]

    async def prepare(self, *, now: datetime) -> None:
        amount, reference = self.charge.amount, self.charge.reference
        attempt = transfers.first_attempt(self.source, self.shop, amount=amount, now=now, operation_id=reference)
        self._begun = attempt, await settlements.prepare(self.db, attempt)

    async def undo(self) -> None:
        if self._begun is not None and self._begun[1]:
            await settlements.undo(self.db, self._begun[0])

    async def collect(self, *, now: datetime) -> str:
        try:
            paid = await transfers.move(
                self.db,
                self.source,
                self.shop,
                amount=self.charge.amount,
                now=now,
                operation_id=self.charge.reference,
                reference=self.charge.reference,
                answering=self.answering,
                begun=self._begun,
            )
        except InvalidInput as error:
            raise PaymentDeclined(error.message) from None
        except (Conflict, NotFound):
            # The transfer may be in flight, even if an account is missing. Only the next call can find out.
            raise PaymentUnknown from None
        return transfer_reference(paid["_id"])


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
