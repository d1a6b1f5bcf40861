"""Payloads of moves and deletions lead to the objects that have listed the object before, whatever crashes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest
from bson import ObjectId

from portico.gateway.clock import SystemClock
from portico.resolvers.catalog import category_edits
from portico.resolvers.content import deletion
from portico.resolvers.writes.operation_records import record_id_of
from portico.schema.kinds import Kind
from portico.testing import crash_matrix
from portico.testing.kits import mutation_text
from tests.ads.support.ads import ad
from tests.ads.support.ads import place as place_ads
from tests.content.support.site import create_page, create_section
from tests.social.support.social import join
from tests.support.domains import SCHEMA
from tests.support.harness import GatewayClient, SettableClock, create_category, create_product

_PARENTS = "... on DeletedPayload { parents { id __typename } }"
_FROM = "... on CategoryPayload { from { id children { nodes { id } } } category { parent { id } } }"
Prepared = tuple[dict[str, Any], list[dict[str, str]]]


async def _category(gateway: GatewayClient) -> Prepared:
    parent = await create_category(gateway)
    child = await create_category(gateway, parentId=parent["id"])
    return {"id": child["id"]}, [{"id": parent["id"], "__typename": "Category"}]


async def _product(gateway: GatewayClient) -> Prepared:
    categories = [(await create_category(gateway))["id"] for _ in range(2)]
    product = await create_product(gateway, categoryIds=categories)
    given = {"id": product["id"], "nonce": product["nonce"]}
    return given, [{"id": one, "__typename": "Category"} for one in categories]


async def _page(gateway: GatewayClient) -> Prepared:
    section = await create_section(gateway)
    page = await create_page(gateway, parentId=section["id"])
    return {"id": page["id"], "nonce": page["nonce"]}, [{"id": section["id"], "__typename": "Section"}]


async def _post(gateway: GatewayClient) -> Prepared:
    await join(gateway.db, "tester", "bo")
    me, bo = Kind.encode_id("User", "tester"), Kind.encode_id("User", "bo")
    made = await gateway.result("createPost", {"toId": bo, "detail": {"status": {"text": "Hello"}}})
    return {"postId": made["post"]["id"]}, [{"id": one, "__typename": "User"} for one in (me, bo)]


CASES: Mapping[str, Callable[[GatewayClient], Awaitable[Prepared]]] = {
    "deleteCategory": _category,
    "deleteProduct": _product,
    "deleteContent": _page,
}


@pytest.mark.parametrize(("mutation", "prepared"), [*CASES.items(), ("deletePost", _post)])
async def test_a_deletion_shows_what_has_listed_the_object(
    gateway: GatewayClient, mutation: str, prepared: Callable[[GatewayClient], Awaitable[Prepared]]
) -> None:
    given, parents = await prepared(gateway)

    deleted = (await gateway.data(mutation_text(SCHEMA._schema, mutation, _PARENTS), {"input": given}))[mutation]

    assert deleted == {"__typename": "DeletedPayload", "parents": parents}


@pytest.mark.sample(3)
@pytest.mark.parametrize("mutation", CASES)
async def test_a_deletion_that_crashes_shows_the_parents_when_it_is_repeated(
    gateway: GatewayClient, clock: SettableClock, mutation: str
) -> None:
    text = mutation_text(SCHEMA._schema, mutation, _PARENTS)
    expected: list[dict[str, str]] = []

    async def prepare(key: str) -> Mapping[str, Any]:
        given, expected[:] = await CASES[mutation](gateway)
        return {"input": {**given, "idempotencyKey": key}}

    async def check(variables: Mapping[str, Any]) -> None:
        assert (await gateway.data(text, variables))[mutation]["parents"] == expected

    assert await crash_matrix(gateway, clock, text, prepare, check=check) > 1


async def test_a_move_shows_the_former_parent_also_after_a_crash(gateway: GatewayClient, clock: SettableClock) -> None:
    text = mutation_text(SCHEMA._schema, "moveCategory", _FROM)
    former = await create_category(gateway)
    place = await create_category(gateway)

    async def prepare(key: str) -> Mapping[str, Any]:
        child = await create_category(gateway, parentId=former["id"])
        return {"input": {"id": child["id"], "newParentId": place["id"], "idempotencyKey": key}}

    async def check(variables: Mapping[str, Any]) -> None:
        assert (await gateway.data(text, variables))["moveCategory"] == {
            "__typename": "CategoryPayload",
            "from": {"id": former["id"], "children": {"nodes": []}},
            "category": {"parent": {"id": place["id"]}},
        }

    assert await crash_matrix(gateway, clock, text, prepare, check=check) > 1


async def test_an_edit_shows_the_former_categories_also_after_a_crash(
    gateway: GatewayClient, clock: SettableClock
) -> None:
    text = mutation_text(SCHEMA._schema, "updateProduct", "... on ProductPayload { from { id } }")
    former, place = [(await create_category(gateway))["id"] for _ in range(2)]

    async def prepare(key: str) -> Mapping[str, Any]:
        product = await create_product(gateway, categoryIds=[former])
        given = {"id": product["id"], "nonce": product["nonce"], "categoryIds": [place]}
        return {"input": {**given, "idempotencyKey": key}}

    async def check(variables: Mapping[str, Any]) -> None:
        edited = {"__typename": "ProductPayload", "from": [{"id": former}]}
        assert (await gateway.data(text, variables))["updateProduct"] == edited

    assert await crash_matrix(gateway, clock, text, prepare, check=check) > 1


async def test_a_deactivation_shows_the_former_zones_also_after_a_crash(
    gateway: GatewayClient, clock: SettableClock
) -> None:
    text = mutation_text(SCHEMA._schema, "deactivateCampaign", "... on CampaignPayload { zones changedZones { id } }")

    async def prepare(key: str) -> Mapping[str, Any]:
        campaign = f"acme:{key}"
        await place_ads(gateway, ad(campaign), zone=key)
        return {"input": {"campaignId": campaign, "idempotencyKey": key}}

    async def check(variables: Mapping[str, Any]) -> None:
        shown = (await gateway.data(text, variables))["deactivateCampaign"]
        assert (shown["zones"], len(shown["changedZones"])) == (1, 1)

    assert await crash_matrix(gateway, clock, text, prepare, check=check) > 1


async def test_only_a_move_from_a_parent_shows_a_former_parent(gateway: GatewayClient) -> None:
    root, place = await create_category(gateway), await create_category(gateway)
    moved = {"id": root["id"], "newParentId": place["id"]}
    shown = "... on CategoryPayload { from { id } }"
    for mutation, given in (
        ("moveCategory", moved),
        ("moveCategory", moved),
        ("renameCategory", {"id": root["id"], "name": "New"}),
    ):
        found = await gateway.data(mutation_text(SCHEMA._schema, mutation, shown), {"input": given})
        assert found[mutation] == {"__typename": "CategoryPayload", "from": None}


async def test_a_deletion_that_an_earlier_version_has_begun_shows_no_parents(gateway: GatewayClient) -> None:
    operation_id = f"{record_id_of('tester', 'a key')}.1"
    record = {"_id": operation_id.partition(".")[0], "operation": operation_id, "notes": {"deleting": True}}
    await gateway.db["operations"].insert_one(record)
    repeated: Any = {"now": SystemClock().now(), "operation_id": operation_id}

    assert await category_edits.delete_category(gateway.db, category_id=ObjectId(), **repeated) is None
    attachments = gateway.state.served.attachments
    deleting = deletion.delete_content(gateway.db, attachments, node_id=ObjectId(), nonce="any", **repeated)
    assert await deleting is None
