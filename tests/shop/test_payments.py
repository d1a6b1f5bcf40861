"""Payments by token with a provider that fails in every way: no card is charged twice, and no paid cart is lost."""

from __future__ import annotations

import asyncio
import gzip
import re
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from portico.gateway.payments.tokens import TOKENS
from portico.gateway.settings import Settings
from portico.resolvers.configuration import Secret
from portico.resolvers.shop import cart_jobs
from portico.resolvers.shop.payments import PaymentMethods
from portico.resolvers.shop.settings import ShopSettings
from tests.shop.support.payment_service import PaymentService
from tests.shop.support.shop import (
    add_input,
    assert_settled,
    cart_of,
    checkout_input,
    full_cart,
    new_cart,
    quantities,
    stock_of,
    stock_up,
)
from tests.support.harness import MUTATIONS, Commands, GatewayClient, SettableClock, running, some_stops, with_settings
from tests.support.ids import key_in
from tests.support.interruptions import crashing

PAGE = Path(__file__).parents[2] / "docs" / "shop.md"
PRICE = 1000


@pytest.fixture
def patience() -> float:
    """Return the seconds that the gateway waits for an answer: few, because many tests wait in vain."""
    return 1.0


@pytest.fixture
async def shop(
    settings: Settings, clock: SettableClock, commands: Commands, service: PaymentService, patience: float
) -> AsyncIterator[GatewayClient]:
    """Yield a gateway whose provider is the service."""
    key = Secret("the gateway's key")
    own = replace(
        settings,
        log_level="warning",
        slices={ShopSettings: ShopSettings(payment_url=service.url, payment_key=key, payment_seconds=patience)},
    )
    async with running(own, clock=clock, commands=commands) as gateway:
        yield gateway


async def assert_sold_once(shop: GatewayClient, service: PaymentService, cart: str, sku: str) -> None:
    (order,) = await shop.db["orders"].find({}).to_list()
    (taken,) = service.taken()
    assert taken[1] == 2 * PRICE
    assert order["payment_reference"] == service.outcomes[taken[0]]["id"]
    assert (await cart_of(shop, cart))["status"] == "COMPLETE"
    assert await stock_of(shop, sku) == (8, 0, 2)
    await assert_settled(shop)


async def assert_unsold(shop: GatewayClient, cart: str, sku: str) -> None:
    assert await shop.db["orders"].count_documents({}) == 0
    left = await cart_of(shop, cart)
    assert (left["status"], quantities(left), left["expiresAt"] is None) == ("ACTIVE", {sku: 2}, False)
    assert await stock_of(shop, sku) == (8, 2, 0)
    await assert_settled(shop)


async def test_the_provider_gets_one_request_with_the_total_and_a_reference(
    shop: GatewayClient, service: PaymentService
) -> None:
    cart, sku = await full_cart(shop)

    done = await shop.result("checkout", checkout_input(cart, "accept"))

    assert done["order"]["paymentReference"] == "ch-1"
    (asked,) = service.asked
    assert (asked.method, asked.path) == ("POST", "/v1/charges")
    assert asked.body == {"amount": 2 * PRICE, "currency": "USD", "token": "accept"}
    assert asked.headers["authorization"] == "Bearer the gateway's key"
    assert asked.headers["idempotency-key"] == service.taken()[0][0]
    await assert_sold_once(shop, service, cart, sku)


async def test_a_declined_payment_unlocks_the_cart_and_another_card_can_pay(
    shop: GatewayClient, service: PaymentService
) -> None:
    cart, sku = await full_cart(shop)
    given = checkout_input(cart, "decline")

    refused = [await shop.result("checkout", given) for _ in range(2)]

    assert refused == [{"__typename": "PaymentDeclined", "message": "The card has expired."}] * 2
    await assert_unsold(shop, cart, sku)
    await shop.payload("checkout", checkout_input(cart, "accept"))
    await assert_sold_once(shop, service, cart, sku)


@pytest.mark.parametrize("patience", [60.0])
@pytest.mark.parametrize("token", ["busy", "throttled"])
async def test_a_busy_provider_is_retried_within_the_call(
    shop: GatewayClient, service: PaymentService, token: str
) -> None:
    cart, sku = await full_cart(shop)

    done = await shop.result("checkout", checkout_input(cart, token))

    assert done["__typename"] == "CheckoutPayload"
    assert service.methods() == ["POST"] * 3
    assert len({asked.headers["idempotency-key"] for asked in service.asked}) == 1
    await assert_sold_once(shop, service, cart, sku)


UNKNOWN = ["drop", "hang", "hang-late", "garbled", "pending"]


@pytest.mark.sample(2)
@pytest.mark.parametrize("token", UNKNOWN)
async def test_a_retry_asks_the_provider_again_if_the_outcome_was_unknown(
    shop: GatewayClient, service: PaymentService, token: str
) -> None:
    cart, sku = await full_cart(shop)
    given = checkout_input(cart, token)

    first = [await shop.result("checkout", given) for _ in range(2)]
    locked = await cart_of(shop, cart)
    others = [
        await shop.result("checkout", checkout_input(cart)),
        await shop.result("addItemToCart", add_input(cart, sku)),
    ]
    service.is_back = True
    then = [await shop.result("checkout", given) for _ in range(2)]

    assert [one["__typename"] for one in first] == ["PaymentPending"] * 2
    assert first[0]["cart"] == {"id": cart, "status": "PENDING"}
    assert (locked["status"], locked["expiresAt"], quantities(locked)) == ("PENDING", None, {sku: 2})
    assert [(answer["__typename"], answer["status"]) for answer in others] == [("CartInactive", "PENDING")] * 2
    assert then[0] == then[1]
    assert then[0]["__typename"] == "CheckoutPayload"
    await assert_sold_once(shop, service, cart, sku)


@pytest.mark.sample(2)
@pytest.mark.parametrize("token", UNKNOWN)
async def test_a_job_finds_the_outcome_if_nobody_retries(
    shop: GatewayClient, service: PaymentService, token: str
) -> None:
    cart, sku = await full_cart(shop)
    given = checkout_input(cart, token)
    assert (await shop.result("checkout", given))["__typename"] == "PaymentPending"
    await shop.run_jobs(minutes=2)
    # Reservations do not expire while the outcome is unknown.
    shop.clock.advance(days=1)
    service.is_back = True

    for _ in range(2):
        await shop.run_jobs(minutes=2)

    was_taken = token in {"drop", "hang-late"}
    if was_taken:
        await assert_sold_once(shop, service, cart, sku)
    else:
        # The charge may not be requested any more, but it may still have been taken.
        assert (await cart_of(shop, cart))["status"] == "PENDING"
        await shop.run_jobs(hours=2)
        assert service.taken() == []
        assert (await cart_of(shop, cart))["status"] == "ACTIVE"
        # This call keeps its answer. Another call can pay.
        assert (await shop.result("checkout", given))["__typename"] == "PaymentDeclined"
        given = checkout_input(cart)
    assert (await shop.result("checkout", given))["__typename"] == "CheckoutPayload"
    await assert_sold_once(shop, service, cart, sku)


def answer(status: str, body: bytes, *headers: str) -> bytes:
    head = "\r\n".join([f"HTTP/1.1 {status}", f"content-length: {len(body)}", *headers])
    return f"{head}\r\n\r\n".encode() + body


CHARGED = b'{"status": "charged", "id": "ch-1"}'
STRANGE = {
    "nothing": answer("200 OK", b""),
    "no JSON": answer("200 OK", b"<html>Welcome</html>"),
    "JSON that is not compressed": answer("200 OK", CHARGED, "content-encoding: gzip"),
    "JSON that is": answer("200 OK", gzip.compress(CHARGED), "content-encoding: gzip"),
    "an unknown compression": answer("200 OK", CHARGED, "content-encoding: of my own"),
    "deep nesting": answer("200 OK", b"[" * 200_000 + b"]" * 200_000),
    "deep nesting beside": answer("200 OK", b'{"status": "charged", "x": ' + b"[" * 9_000 + b"]" * 9_000 + b"}"),
    "a long answer": answer("200 OK", CHARGED + b" " * 5_000_000),
    "another encoding": answer("200 OK", '{"status": "declined", "message": "é"}'.encode("latin-1")),
    "half a character": answer("200 OK", b'{"status": "declined", "message": "\\ud800"}'),
    "no number": answer("200 OK", b'{"status": "charged", "id": NaN}'),
    "a number for an id": answer("200 OK", b'{"status": "charged", "id": 17}'),
    "an object for a message": answer("200 OK", b'{"status": "declined", "message": {"en": "No."}}'),
    "a list for a status": answer("200 OK", b'{"status": ["charged"], "id": "ch-1"}'),
    "a status of its own": answer("299 Yes", b'{"status": "CHARGED", "id": "ch-1"}'),
    "a list": answer("200 OK", b"[" + CHARGED + b"]"),
    "no HTTP": b"charged\r\n\r\n",
    "a redirect": answer("302 Found", b"", "location: http://127.0.0.1:9/v1/charges"),
    "a redirect to nowhere": answer("302 Found", b"", "location: http://[/"),
    "a bad request": answer("400 Bad Request", b'{"error": "the gateway\'s key is no good"}'),
    "an unknown caller": answer("401 Unauthorized", b"{}"),
    "a caller without rights": answer("403 Forbidden", b"{}"),
    "a wrong path": answer("404 Not Found", b"{}"),
}


async def test_invalid_answers_of_the_provider_leave_the_outcome_open_and_stop_no_job(
    shop: GatewayClient, service: PaymentService
) -> None:
    sku = await stock_up(shop, units=100, price=PRICE)
    for name, service.strange in STRANGE.items():
        given = checkout_input(await new_cart(shop, **{sku: 2}))
        service.is_back = False

        answered = await shop.result("checkout", given)
        shop.clock.advance(seconds=61)
        finished = await cart_jobs.finish_checkouts(
            shop.db, shop.state.resources.of(PaymentMethods), now=shop.clock.now()
        )
        service.is_back = True
        done = await shop.result("checkout", given)

        assert (answered["__typename"], finished, done["__typename"]) == ("PaymentPending", 0, "CheckoutPayload"), name
    assert [amount for _, amount in service.taken()] == [2 * PRICE] * len(STRANGE)


@pytest.mark.parametrize("name", ["a redirect", "a bad request", "an unknown caller", "a caller without rights"])
async def test_the_log_has_the_reference_of_a_hanging_charge_and_no_secrets(
    shop: GatewayClient, service: PaymentService, name: str
) -> None:
    cart, _ = await full_cart(shop)
    service.strange = STRANGE[name]

    with capture_logs() as log:
        await shop.result("checkout", checkout_input(cart, "a card's token"))

    (warning,) = log
    assert warning["log_level"] == "warning"
    assert warning["status"] == int(service.strange.split()[1])
    assert key_in("Cart", cart) not in str(log)
    assert await shop.db["carts"].find_one({"checkout.reference": warning["reference"]}, {"_id": 1}) is not None
    assert warning["reference"] == service.asked[0].headers["idempotency-key"]
    assert not any(secret in str(log) for secret in ("the gateway's key", "a card's token"))


async def test_an_old_charge_is_looked_up_before_it_is_requested_again(
    shop: GatewayClient, service: PaymentService
) -> None:
    cart, sku = await full_cart(shop)
    given = checkout_input(cart, "hang")
    await shop.result("checkout", given)
    service.is_back = True
    shop.clock.advance(minutes=2)

    assert (await shop.result("checkout", given))["__typename"] == "CheckoutPayload"

    assert service.methods() == ["POST", "GET", "POST"]
    assert service.asked[1].path == f"/v1/charges/{service.taken()[0][0]}"
    await assert_sold_once(shop, service, cart, sku)


async def test_without_a_provider_tokens_are_declined(gateway: GatewayClient) -> None:
    cart, sku = await full_cart(gateway, price=PRICE)

    refused = await gateway.result("checkout", checkout_input(cart, "accept"))

    assert refused == {"__typename": "PaymentDeclined", "message": "The shop does not accept payments by token."}
    await assert_unsold(gateway, cart, sku)


async def test_an_unreachable_provider_leaves_the_cart_pending(
    settings: Settings, clock: SettableClock, service: PaymentService
) -> None:
    nowhere = with_settings(settings, ShopSettings, payment_url="http://127.0.0.1:9/", payment_seconds=5.0)
    async with running(nowhere, clock=clock) as shop:
        cart, _ = await full_cart(shop)
        given = checkout_input(cart, "accept")
        assert (await shop.result("checkout", given))["__typename"] == "PaymentPending"
    async with running(with_settings(settings, ShopSettings, payment_url=service.url), clock=clock) as shop:
        assert (await shop.result("checkout", given))["__typename"] == "CheckoutPayload"
    assert [amount for _, amount in service.taken()] == [2 * PRICE]


async def test_a_checkout_that_waits_for_the_provider_is_answered_when_the_gateway_stops(
    settings: Settings, clock: SettableClock, service: PaymentService
) -> None:
    waiting = with_settings(settings, ShopSettings, payment_url=service.url, payment_seconds=1.0)
    async with running(waiting, clock=clock) as shop:
        cart, _ = await full_cart(shop)
        under_way = asyncio.create_task(shop.result("checkout", checkout_input(cart, "hang")))
        async with asyncio.timeout(10):
            while not service.asked:  # noqa: ASYNC110 - the service has no event for this
                await asyncio.sleep(0.01)

    assert (await under_way)["__typename"] == "PaymentPending"


async def test_each_token_has_the_effect_that_the_shop_page_documents(shop: GatewayClient) -> None:
    rows = re.findall(r"^\| `([a-z-]+)` \| (.*) \| `(\w+)` \|$", PAGE.read_text(), re.MULTILINE)
    calls = [checkout_input((await full_cart(shop))[0], token) for token, _, _ in rows]

    answered = await asyncio.gather(*(shop.result("checkout", call) for call in calls[:-1]))
    # The last token ends the service for all calls.
    answered.append(await shop.result("checkout", calls[-1]))

    assert {token: does for token, does, _ in rows} == TOKENS
    assert [answer["__typename"] for answer in answered] == [answer for _, _, answer in rows]


@pytest.mark.parametrize("patience", [60.0])
@pytest.mark.parametrize("token", ["accept", "decline", "drop"])
async def test_a_checkout_that_crashes_anywhere_charges_once_or_not_at_all(
    shop: GatewayClient, service: PaymentService, token: str
) -> None:
    for stop in some_stops(2):
        for collection in ("products", "stock", "carts", "orders", "operations"):
            await shop.db[collection].delete_many({})
        service.outcomes.clear()
        service.is_back = False
        cart, sku = await full_cart(shop)
        given = checkout_input(cart, token)
        with crashing(shop, stop) as faulty:
            await shop.ask(MUTATIONS["checkout"], {"input": given})
        service.is_back = True
        await shop.run_jobs(seconds=40)

        # There is exactly one order for each charge.
        assert len(service.taken()) == await shop.db["orders"].count_documents({}), stop
        await assert_settled(shop)
        answered = [await shop.result("checkout", given) for _ in range(2)]

        assert answered[0] == answered[1]
        if token == "decline":
            assert answered[0]["__typename"] == "PaymentDeclined", stop
            await assert_unsold(shop, cart, sku)
        else:
            assert answered[0]["__typename"] == "CheckoutPayload", stop
            await assert_sold_once(shop, service, cart, sku)
        if not faulty.has_crashed:
            break
    assert stop > 2


@pytest.mark.parametrize("patience", [60.0])
async def test_concurrent_retries_of_a_checkout_charge_once(shop: GatewayClient, service: PaymentService) -> None:
    cart, sku = await full_cart(shop)
    given = checkout_input(cart, "drop")

    async def jobs() -> None:
        await shop.run_jobs(seconds=31)

    answers: list[Any] = await asyncio.gather(*(shop.result("checkout", given) for _ in range(5)))
    service.is_back = True
    await asyncio.gather(*(shop.result("checkout", given) for _ in range(5)), jobs())
    again = await shop.result("checkout", given)

    assert {answer["__typename"] for answer in answers} == {"PaymentPending"}
    assert again["__typename"] == "CheckoutPayload"
    await assert_sold_once(shop, service, cart, sku)
