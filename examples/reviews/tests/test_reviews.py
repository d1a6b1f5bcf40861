"""Reviews: one for each buyer and product, an average that survives crashes, and moderation."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from portico import Role
from portico.testing import WAYS, Gateway, SettableClock, assert_budget, assert_invariants, try_mutation
from portico_reviews.kit import KIT, create_product

DELETE = "mutation ($id: ID!, $nonce: ID!) { deleteProduct(input: { id: $id, nonce: $nonce }) { __typename } }"
SHOWN = 'query { product(sku: "book") { rating { count average } reviews { nodes { stars buyer { name } } } } }'
NODE = "query ($id: ID!) { node(id: $id) { id } }"
POSTED = "subscription ($id: ID!) { reviewPosted(productId: $id) { stars } }"


@pytest.fixture
def editor(gateway: Gateway) -> Gateway:
    return gateway.as_caller("editor", Role.EDITOR, Role("MERCHANT"))


async def post(gateway: Gateway, buyer: str, product: Any, stars: int = 5) -> Any:
    given = {"productId": product["id"], "stars": stars, "text": "Read it."}
    return await KIT.call(gateway.as_caller(buyer), "reviewProduct", given)


async def rating(gateway: Gateway) -> tuple[int, float | None, int]:
    shown = (await gateway.data(SHOWN))["product"]
    return shown["rating"]["count"], shown["rating"]["average"], len(shown["reviews"]["nodes"])


async def test_each_buyer_reviews_a_product_once(gateway: Gateway, editor: Gateway) -> None:
    product = await create_product(editor)
    answers = await asyncio.gather(*(post(gateway, f"buyer {n % 10}", product, n % 5 + 1) for n in range(20)))

    assert [one["__typename"] for one in answers].count("AlreadyReviewed") == 10
    assert await rating(gateway) == (10, 3.0, 10)
    assert (await post(gateway, "another", product, 6))["__typename"] == "InvalidInput"
    await assert_invariants(gateway)


async def test_only_editors_see_a_hidden_review(gateway: Gateway, editor: Gateway) -> None:
    review = (await post(gateway, "buyer", await create_product(editor)))["review"]
    hiding = {"input": {**review, "hidden": True}}

    assert (await gateway.ask(KIT.text(gateway, "moderateReview"), hiding)).codes == ["FORBIDDEN"]
    await KIT.call(editor, "moderateReview", hiding["input"])
    assert (await gateway.data(NODE, review), await rating(gateway)) == ({"node": None}, (0, None, 0))
    counted = await gateway.data('{ product(sku: "book") { reviews { totalCount } } }')
    assert (counted["product"]["reviews"], await editor.data(NODE, review)) == ({"totalCount": 0}, {"node": review})
    await KIT.call(editor, "moderateReview", {**review, "hidden": False})
    assert await rating(gateway) == (1, 5.0, 1)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("mutation", KIT.inputs)
async def test_a_call_has_one_effect(editor: Gateway, gateway_clock: SettableClock, mutation: str, way: str) -> None:
    await try_mutation(editor, gateway_clock, KIT, mutation, way)


async def test_subscribers_get_each_review_as_it_is_posted(gateway: Gateway, editor: Gateway) -> None:
    product = await create_product(editor)
    async with gateway.subscription(POSTED, product) as events:
        await post(gateway, "buyer", product, 4)
        assert await anext(events) == {"reviewPosted": {"stars": 4}}


async def test_reviews_are_imported_once_and_deleted_with_their_product(
    gateway: Gateway, editor: Gateway, tmp_path: Path
) -> None:
    product, file = await create_product(editor), tmp_path / "reviews.jsonl"
    record = {"product": "book", "buyer": "buyer", "stars": 2, "text": "Long."}
    file.write_text("\n".join(json.dumps(record | more) for more in ({}, {"buyer": "another"}, {"stars": 0})))

    assert await gateway.import_records("reviews", file) == {"created": 2, "failed": 1}
    assert await gateway.import_records("reviews", file) == {"unchanged": 2, "failed": 1}
    await assert_budget(gateway, SHOWN, {}, ["find products", "find ratings", "find reviews"])
    await editor.data(DELETE, product)
    await create_product(editor)
    assert await rating(gateway) == (0, None, 0)
