"""Titles, names and tags are visible, and do not change the text around them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from portico.resolvers.errors import InvalidInput
from portico.resolvers.texts import require_text
from portico.schema.kinds import Kind
from tests.content.support.photos import create_gallery, photo_input, picture, result
from tests.content.support.site import create_page, page_input, section_input
from tests.social.support.social import join
from tests.support.domains import IMPORTERS
from tests.support.harness import GatewayClient, category_input, new_key, product_input
from tests.support.importing import put

GOOD = {
    "emoji with joiners": "\U0001f469\u200d\U0001f469\u200d\U0001f467 \U0001f3f3\ufe0f\u200d\U0001f308",
    "a flag with tag characters": "\U0001f3f4\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f",
    "Persian": "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
    "Hebrew with points and a mark": "\u05e9\u05c1\u05b8\u05dc\u05d5\u05b9\u05dd\u200f!",
    "Vietnamese": "Ti\u1ebfng Vi\u1ec7t",
    "Hindi": "\u0915\u094d\u200d\u0937",
    "Korean": "\ud55c\uad6d\uc5b4",
    "a single emoji": "\u2764\ufe0f",
    "Thai with a zero-width space": "\u0e20\u0e32\u0e29\u0e32\u200b\u0e44\u0e17\u0e22",
}
BAD = {
    "a zero-width space": "\u200b",
    "joiners and spaces": "\u200d \u2060\ufeff\u00a0",
    "a variation selector": "\ufe0f",
    "a Hangul filler": "\u3164",
    "a blank Braille pattern": "\u2800",
    "a direction override": "a\u202egnp.exe",
    "a direction isolate": "a\u2066b",
    "a deprecated format character": "a\u206ab",
    "a noncharacter": "a\uffff",
    "a stack of combining marks": "Z" + "\u0301" * 20,
}


@pytest.mark.parametrize("name", GOOD)
def test_text_in_any_script_is_accepted_unchanged(name: str) -> None:
    assert require_text(GOOD[name], "name", longest=100) == GOOD[name]


@pytest.mark.parametrize("name", BAD)
def test_invisible_text_and_direction_overrides_are_refused(name: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        require_text(BAD[name], "name", longest=100)

    assert refused.value.path == ["name"]


async def test_every_mutation_with_a_name_applies_the_rule(gateway: GatewayClient) -> None:
    gallery = await create_gallery(gateway)
    page = await create_page(gateway)
    stack = {"to": {"owner": "mara"}, "category": "thing", "itemId": "one", "quantity": 1}
    for bad in ("\u200b", "a\u202eb"):
        given: dict[str, tuple[dict[str, Any], list[str]]] = {
            "createSection": (section_input(title=bad), ["title"]),
            "createPage": (page_input(tags=["good", bad]), ["tags", "1"]),
            "addTags": ({"id": page["id"], "tags": [bad]}, ["tags", "0"]),
            "editMetadata": ({"id": page["id"], "nonce": page["nonce"], "title": bad}, ["title"]),
            "createCategory": (category_input(name=bad), ["name"]),
            "createProduct": (product_input(title=bad), ["title"]),
            "openAccount": ({"name": bad}, ["name"]),
            "join": ({"name": bad}, ["name"]),
            "grant": ({**stack, "name": bad, "idempotencyKey": bad}, ["name"]),
        }
        for mutation, (fields, path) in given.items():
            refused = await gateway.result(mutation, fields)
            assert (refused["__typename"], refused["path"]) == ("InvalidInput", path), mutation
        photo = await result(gateway, "uploadPhoto", photo_input(gallery, title=bad), picture())
        assert (photo["__typename"], photo["path"]) == ("InvalidInput", ["title"])


@pytest.mark.parametrize("bad", ["a\tb", "a\nb", "a\u000bb", "a\fb", "a\rb", "a\u2028b"], ids=ascii)
async def test_a_name_has_one_line(gateway: GatewayClient, bad: str) -> None:
    await join(gateway.db, "tester")
    other = (await join(gateway.db, "other"))[0]
    stack = {"to": {"owner": "mara"}, "category": "thing", "itemId": "one", "quantity": 1}
    given: dict[str, tuple[dict[str, Any], list[str]]] = {
        "createCategory": (category_input(name=bad), ["name"]),
        "createProduct": (product_input(title=bad, sku=bad, type=bad), ["sku"]),
        "openAccount": ({"name": bad}, ["name"]),
        "updateProfile": ({"name": bad}, ["name"]),
        "addToCircle": ({"userId": Kind.encode_id("User", other["_id"]), "circle": bad}, ["circle"]),
        "grant": ({**stack, "name": bad, "idempotencyKey": new_key()}, ["name"]),
    }

    for mutation, (fields, path) in given.items():
        refused = await gateway.result(mutation, fields)
        assert (refused["__typename"], refused["path"]) == ("InvalidInput", path), mutation
        assert refused["message"].endswith("holds a tab or a line break.")


async def test_a_longer_text_may_have_lines(gateway: GatewayClient) -> None:
    text = "One.\n\n\tTwo."

    created = await gateway.result("createCategory", category_input(description=text))

    assert created["category"]["id"]
    assert (await gateway.stored("categories"))["description"] == text


async def test_imports_apply_the_rule(gateway: GatewayClient, tmp_path: Path) -> None:
    page = await create_page(gateway)
    comment = {"content": f"/{page['slug']}", "id": "1", "posted": "2020-01-01T00:00:00Z", "text": "Hello."}
    post = {"slug": "post", "title": "Post", "text": "Hello."}
    shop = {"id": 1, "keeper": "Ann", "room": 1, "items": [], "asks": 1, "pays": 1}
    place = {"siteId": "shop.example", "zoneId": "front", "adUnitId": "banner"}
    ad = {**place, "campaignId": "acme:x", "ecpm": 1}
    click = {**place, "campaignId": "acme:x", "userId": "ada", "kind": "CLICK", "at": "2020-01-01"}
    given: dict[str, list[dict[str, Any]]] = {
        "categories": [{"slug": "one", "name": "\u200b"}],
        "products": [product_input(title="\u202ex")],
        "posts": [{**post, "title": "\u200b"}, {**post, "authors": ["\u202ex"]}, {**post, "tags": ["\u200b"]}],
        "comments": [{**comment, "author": "\u200b"}],
        "people": [{"subject": "ada", "name": "\u200b"}, {"of": "ada", "circle": "\u202ex", "members": []}],
        "world": [
            {"id": 1, "name": "\u200b", "description": "A room.", "exits": {}},
            {"id": 1, "name": "Room", "description": "\u202ex", "exits": {}},
            {"id": 1, "name": "\u200b", "type": "WEAPON"},
            {**shop, "keeper": "\u202ex"},
            {**shop, "class": "\u200b"},
        ],
        "equipment": [{"category": "thing", "itemId": "one", "name": "\u200b", "quantity": 1}],
        "wall-posts": [
            {"id": "1", "author": "\u200b", "text": "Hello."},
            {"id": "2", "author": "ada", "text": "\u200b"},
        ],
        "campaigns": [{"campaignId": "acme:\u202ex"}, {"campaignId": "acme:x", "ads": [{**ad, "zoneId": "\u200b"}]}],
        "ads": [{**ad, "adUnitId": "\u202ex"}, {**ad, "siteId": "\u200b"}, {**ad, "keywords": ["\u200b"]}],
        "ad-events": [{**click, "adUnitId": "\u202ex"}, {**click, "zoneId": "\u200b"}],
        # A log says what a client has sent, and keeps all other characters.
        "logs": [{"host": "x", "time": "2026-03-09T12:00:00Z", "path": "/\0"}],
    }
    for subject, rows in given.items():
        done = await put(gateway.db, subject, tmp_path / f"{subject}.jsonl", rows, gateway.state.resources)
        assert done.counts == {"failed": len(rows)}, subject
    assert set(given) | {"photos", "images"} == set(IMPORTERS)
