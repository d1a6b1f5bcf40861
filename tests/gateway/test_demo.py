"""The demo's data: a shop with stock and accounts to pay from, a blog with a draft and a future entry, and a page.

Starting the demo again does not change them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from portico.gateway.demo import demo_token
from portico.gateway.settings import Settings
from portico.resolvers.configuration import HttpUrl
from portico.resolvers.shop.settings import ShopSettings
from portico.schema.roles import Role
from tests.content.support.site import at, create_section
from tests.support.databases import LISTS, lists_in_indexes
from tests.support.demo import Demo, load_demo
from tests.support.harness import IS_SOAK, GatewayClient, assert_invariants, with_settings

SHOP = """
{
  viewer { accounts { name balance { amount currency } } }
  products(first: 100) { nodes { sku stock { available reserved sold } } }
  sold: products(filter: { inStock: false }) { totalCount }
  stocked: products(filter: { inStock: true }) { totalCount }
}
"""
BLOG = """
{
  content(path: "/blog") {
    ... on Section {
      entries { nodes { title path html author { name } } }
      children { nodes { path nonce updated } }
    }
  }
  about: content(path: "/about") { nonce ... on Page { text } }
}
"""
BUY = """
mutation ($cart: ID!, $account: ID!) {
  addItemToCart(input: { cartId: $cart, sku: "LP-0001", quantity: 2 }) { __typename }
  checkout(input: { cartId: $cart, payment: { accountId: $account }, idempotencyKey: "key" }) { __typename }
}
"""


async def shown(gateway: GatewayClient) -> Any:
    return await gateway.data(SHOP, token=gateway.token(demo_token.SUBJECT, [Role.ADMIN]))


async def test_the_demo_has_stock_and_its_members_can_pay(demo_gateway: GatewayClient, loaded_demo: Demo) -> None:
    found = await shown(demo_gateway)

    assert found["viewer"]["accounts"] == [
        {"name": "Everyday", "balance": {"amount": 50_000, "currency": "USD"}},
        {"name": "Savings", "balance": {"amount": 250_000, "currency": "USD"}},
    ]
    for member in demo_token.MEMBERS:
        own = await demo_gateway.data(
            "{ viewer { accounts { balance { amount } } } }", token=demo_gateway.token(member, [])
        )
        assert min(account["balance"]["amount"] for account in own["viewer"]["accounts"]) >= 40_000
    assert (found["stocked"]["totalCount"], found["sold"]["totalCount"]) == (138, 12)
    assert {"stock: 138 products", "accounts: 6 with money in them"} < set(loaded_demo.printed.splitlines())
    await assert_invariants(demo_gateway)


async def test_the_demo_says_how_to_pay_by_token_if_the_shop_accepts_none(
    settings: Settings, loaded_demo: Demo
) -> None:
    hint = "To pay by token, set PORTICO_PAYMENT_URL"
    chosen = with_settings(settings, ShopSettings, payment_url=HttpUrl("http://127.0.0.1:8090"))

    printed = await load_demo(replace(chosen, domains="accounts,catalog,shop"))

    assert hint in loaded_demo.printed
    assert "stock: 138 products" in printed
    assert hint not in printed


@pytest.mark.usefixtures("demo")
async def test_starting_the_demo_again_does_not_change_stock_carts_or_money(gateway: GatewayClient) -> None:
    token = gateway.token(demo_token.SUBJECT, [Role.ADMIN])
    text = "mutation { createCart(input: {}) { ... on CartPayload { cart { id } } } }"
    cart = (await gateway.data(text, token=token))["createCart"]["cart"]["id"]
    account = (await gateway.data("{ viewer { accounts { id } } }", token=token))["viewer"]["accounts"][0]["id"]
    bought = await gateway.data(BUY, {"cart": cart, "account": account}, token=token)
    before = await shown(gateway)

    await load_demo(gateway.settings if IS_SOAK else replace(gateway.settings, domains="accounts,catalog,shop"))

    assert [one["__typename"] for one in bought.values()] == ["CartPayload", "CheckoutPayload"]
    assert await shown(gateway) == before
    assert before["viewer"]["accounts"][0]["balance"]["amount"] == 50_000 - 2 * 1999
    await assert_invariants(gateway)


def test_the_databases_of_tests_are_ready_for_the_lists_in_the_demo(loaded_demo: Demo, mongodb_uri: str) -> None:
    assert lists_in_indexes(mongodb_uri, loaded_demo.database) <= LISTS


async def test_the_demo_has_a_blog_with_published_and_hidden_entries(
    demo_gateway: GatewayClient, loaded_demo: Demo
) -> None:
    shown = (await demo_gateway.data(BLOG, token=None))["content"]
    everything = (await demo_gateway.data(BLOG))["content"]
    feed = await demo_gateway.http.get("/feeds/blog.atom")

    assert "posts: 7 created" in loaded_demo.printed
    assert [len(found["children"]["nodes"]) for found in (shown, everything)] == [5, 7]
    assert len(shown["entries"]["nodes"]) == 5
    assert all("<" in entry["html"] and entry["author"]["name"] for entry in shown["entries"]["nodes"])
    assert feed.text.count("<entry>") == 5
    await assert_invariants(demo_gateway)


@pytest.mark.usefixtures("demo")
async def test_starting_the_demo_again_does_not_change_the_site(gateway: GatewayClient, settings: Settings) -> None:
    about = await at(gateway, "/about")
    await gateway.result("editText", {"id": about["id"], "nonce": about["nonce"], "text": "Closed."})
    before = await gateway.data(BLOG)

    again = await load_demo(replace(settings, domains="content"))

    assert "posts: 7 unchanged" in again
    assert await gateway.data(BLOG) == before
    assert before["about"]["text"] == "Closed."


@pytest.mark.usefixtures("demo")
async def test_starting_the_demo_again_keeps_a_page_of_your_own(gateway: GatewayClient, settings: Settings) -> None:
    about = await at(gateway, "/about")
    await gateway.result("deleteContent", {"id": about["id"], "nonce": about["nonce"]})
    await create_section(gateway, slug="about", title="Mine")

    await load_demo(replace(settings, domains="content"))

    assert (await at(gateway, "/about"))["title"] == "Mine"
