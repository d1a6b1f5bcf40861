"""Accounts of domains: they are opened once, money leaves them by their domain alone, and transfers are found again.

`test_booking` stops the first payment, which opens an account, between any two commands.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from bson import ObjectId

from portico import InvalidInput, NotFound
from portico.accounts import InsufficientFunds, find_transfer, open_account, pay_out, transfer
from portico.schema import Kind
from portico.writes import marks
from tests.accounts.support.accounts import OWNER, balances
from tests.accounts.support.accounts import open_account as open_account_of_owner
from tests.support.harness import GatewayClient, assert_invariants
from tests.support.ids import key_in

from .shows import BOX_OFFICE, open_account_of_the_box_office


async def pay(gateway: GatewayClient, source: str, amount: int = 30, **more: Any) -> Any:
    """Pays the box office."""
    given = {"owner": OWNER, "source_id": key_in("Account", source), "destination_id": key_in("Account", BOX_OFFICE)}
    given |= {"amount": amount, "currency": "USD", "now": gateway.state.clock.now()}
    return await transfer(gateway.db, **given | more)


async def give_back(gateway: GatewayClient, destination: str, amount: int = 30, **more: Any) -> Any:
    """Pays from the account of the box office."""
    given = {"reference": "booking", "destination_id": key_in("Account", destination), "amount": amount}
    given |= {"currency": "USD", "now": gateway.state.clock.now(), "operation_id": marks.random_operation_id()}
    return await pay_out(gateway.db, **given | more)


async def test_calls_at_the_same_time_open_one_account(theater: GatewayClient) -> None:
    opened = await asyncio.gather(*(open_account_of_the_box_office(theater) for _ in range(8)))

    stored = await theater.db["accounts"].find({}).to_list()
    assert [Kind.encode_id("Account", one["_id"]) for one in opened] == [BOX_OFFICE] * 8
    assert [(one["owner"], one["name"], one["balance"]) for one in stored] == [(None, "The box office", 0)]


async def test_a_reference_has_one_account_in_each_currency(theater: GatewayClient) -> None:
    now = theater.state.clock.now()
    given = [("booking", "USD"), ("booking", "EUR"), ("booking/tips", "USD"), ("booking", "USD")]

    opened = [
        await open_account(theater.db, reference=reference, name=f"Name {number}", currency=currency, now=now)
        for number, (reference, currency) in enumerate(given)
    ]

    assert opened[3] == opened[0]
    assert len({one["_id"] for one in opened}) == 3
    assert [one["currency"] for one in opened] == ["USD", "EUR", "USD", "USD"]
    with pytest.raises(InvalidInput) as refused:
        await open_account(theater.db, reference="booking", name="", currency="usd", now=now)
    assert [error.path for error in refused.value.each()] == [["name"], ["currency"]]


async def test_only_the_domain_pays_from_its_account(theater: GatewayClient) -> None:
    payer, operation = await open_account_of_owner(theater.db, 100), marks.random_operation_id()
    await open_account_of_the_box_office(theater)
    await pay(theater, payer, operation_id=marks.random_operation_id())

    with pytest.raises(NotFound):
        await pay(theater, BOX_OFFICE, destination_id=key_in("Account", payer), operation_id=operation)
    with pytest.raises(NotFound):
        await give_back(theater, payer, reference="another")
    given = [await give_back(theater, payer, 10, operation_id=operation) for _ in range(2)]
    with pytest.raises(InsufficientFunds):
        await give_back(theater, payer, 21)

    assert given[0]["_id"] == given[1]["_id"]
    assert await balances(theater.db, payer, BOX_OFFICE) == [80, 20]
    await assert_invariants(theater)


async def test_what_became_of_a_transfer_is_found_by_its_operation(theater: GatewayClient) -> None:
    payer, operation = await open_account_of_owner(theater.db, 100), marks.random_operation_id()
    await open_account_of_the_box_office(theater)
    paid = await pay(theater, payer, operation_id=operation)
    with pytest.raises(InsufficientFunds):
        await pay(theater, payer, 71, operation_id=operation, purpose="tip")
    with pytest.raises(NotFound):
        await pay(theater, payer, operation_id=operation, purpose="gift", destination_id=ObjectId())

    settled, refused, missing = [
        await find_transfer(theater.db, operation_id=operation, purpose=purpose) for purpose in ("", "tip", "gift")
    ]

    assert settled is not None
    assert refused is not None
    assert (settled["_id"], settled["state"], settled["amount"]) == (paid["_id"], "SETTLED", 30)
    assert (refused["state"], refused["refused"]) == ("CANCELLED", "funds")
    assert missing is None


async def test_a_caller_without_a_subject_takes_nothing_from_the_account_of_a_domain(theater: GatewayClient) -> None:
    await open_account_of_the_box_office(theater)
    mine = await open_account_of_owner(theater.db, 100)
    await pay(theater, mine, operation_id=marks.random_operation_id())
    stolen = {"owner": None, "destination_id": key_in("Account", mine), "operation_id": marks.random_operation_id()}

    with pytest.raises(NotFound):
        await pay(theater, BOX_OFFICE, **stolen)

    assert await balances(theater.db, mine, BOX_OFFICE) == [70, 30]
