"""The product hierarchy for merchants: create, rename, move and delete categories."""

from __future__ import annotations

from typing import Any

import pytest
from bson import ObjectId

from portico.schema.kinds import Kind
from portico.schema.roles import Role
from tests.support.harness import GatewayClient, assert_invariants, category_input, create_category, create_product
from tests.support.roles import assert_only_for

CATEGORY = """query ($slug: String!) {
  category(slug: $slug) { id slug name parent { slug } breadcrumbs { categoryId slug name } }
}"""


async def way_to(gateway: GatewayClient, slug: str) -> list[str]:
    """Return the slugs from the root down to the category, read from its breadcrumbs."""
    category = (await gateway.data(CATEGORY, {"slug": slug}))["category"]
    return [*(crumb["slug"] for crumb in category["breadcrumbs"]), category["slug"]]


async def create_line(gateway: GatewayClient, *slugs: str, parent_id: str | None = None) -> list[dict[str, Any]]:
    """Create categories, each below the one before."""
    line: list[dict[str, Any]] = []
    for slug in slugs:
        given = {"name": slug.title(), "slug": slug, "parentId": line[-1]["id"] if line else parent_id}
        line.append(await create_category(gateway, **given))
    return line


async def test_a_new_category_has_breadcrumbs_from_the_root(gateway: GatewayClient) -> None:
    music, jazz = await create_line(gateway, "music", "jazz")

    result = await gateway.result("createCategory", {"name": "Be-Bop", "slug": "be-bop", "parentId": jazz["id"]})

    assert result == {
        "__typename": "CategoryPayload",
        "category": {
            "id": result["category"]["id"],
            "slug": "be-bop",
            "name": "Be-Bop",
            "breadcrumbs": [
                {"categoryId": music["id"], "slug": "music", "name": "Music"},
                {"categoryId": jazz["id"], "slug": "jazz", "name": "Jazz"},
            ],
            "parent": {"id": jazz["id"]},
        },
    }


@pytest.mark.parametrize("parent", [{}, {"parentId": None}], ids=["left out", "null"])
async def test_a_category_without_a_parent_is_a_root(gateway: GatewayClient, parent: dict[str, None]) -> None:
    created = await create_category(gateway, name="Music", slug="music", **parent)

    assert (created["parent"], created["breadcrumbs"]) == (None, [])
    roots = await gateway.data("{ categories { nodes { slug } } }")
    assert roots == {"categories": {"nodes": [{"slug": "music"}]}}


async def test_a_new_category_is_inserted_with_its_ancestors(gateway: GatewayClient) -> None:
    _, jazz = await create_line(gateway, "music", "jazz")
    gateway.commands.clear()

    await create_category(gateway, slug="bop", parentId=jazz["id"])

    (inserted,) = [
        command["documents"][0] for command in gateway.commands.sent if command.get("insert") == "categories"
    ]
    assert [ancestor["slug"] for ancestor in inserted["ancestors"]] == ["music", "jazz"]


@pytest.mark.both_drivers
async def test_a_slug_is_unique_in_the_whole_hierarchy(gateway: GatewayClient) -> None:
    _, jazz = await create_line(gateway, "music", "jazz")

    as_root = await gateway.result("createCategory", {"name": "Other", "slug": "jazz"})
    below = await gateway.result("createCategory", {"name": "Other", "slug": "music", "parentId": jazz["id"]})

    assert as_root == {"__typename": "SlugTaken", "message": "The slug 'jazz' is taken.", "slug": "jazz"}
    assert below == {"__typename": "SlugTaken", "message": "The slug 'music' is taken.", "slug": "music"}
    assert (await gateway.data("{ categories { nodes { slug } } }"))["categories"]["nodes"] == [{"slug": "music"}]


BAD_NAMES = {
    "": "Name must not be empty.",
    "  \t": "Name must not be empty.",
    "n" * 201: "Name has 201 characters; 200 are allowed.",
    "a\0b": "Name holds a NUL character.",
}
BAD_SLUGS = {
    "": "Slug must not be empty.",
    "s" * 201: "Slug has 201 characters; 200 are allowed.",
    **dict.fromkeys(
        ("Jazz", "be bop", "-jazz", "jazz-", "be--bop", "be/bop", "$where", "jàzz", "jazz\n.", "a._b"),
        "Slug may hold lower-case letters a to z, digits, and single '-', '_' or '.' between them.",
    ),
}


@pytest.mark.parametrize(("field", "texts"), [("name", BAD_NAMES), ("slug", BAD_SLUGS)])
async def test_invalid_names_and_slugs_are_refused(gateway: GatewayClient, field: str, texts: dict[str, str]) -> None:
    music = await create_category(gateway, name="Music", slug="music")

    for text, message in texts.items():
        created = await gateway.result("createCategory", category_input(**{field: text}))
        renamed = await gateway.result("renameCategory", {"id": music["id"], field: text})
        assert created == renamed == {"__typename": "InvalidInput", "message": message, "path": [field]}, text

    assert (await gateway.data("{ categories { nodes { slug name } } }"))["categories"]["nodes"] == [
        {"slug": "music", "name": "Music"}
    ]


async def test_names_may_contain_any_text_and_are_trimmed(gateway: GatewayClient) -> None:
    created = await create_category(gateway, name="  $set.name  Ёлка 🎄 ", slug=f"a.b_c-{'1' * 194}")

    assert created["name"] == "$set.name  Ёлка 🎄"
    assert len(created["slug"]) == 200


async def test_a_rename_changes_the_breadcrumbs_of_all_descendants(gateway: GatewayClient) -> None:
    music, jazz, _, _ = await create_line(gateway, "music", "jazz", "bop", "hard-bop")
    await create_line(gateway, "swing", parent_id=jazz["id"])
    await create_line(gateway, "rock", parent_id=music["id"])

    result = await gateway.result("renameCategory", {"id": jazz["id"], "name": "Jazz & Blues", "slug": "jazz-blues"})

    assert result["category"] == {**jazz, "name": "Jazz & Blues", "slug": "jazz-blues"}
    new = {"categoryId": jazz["id"], "slug": "jazz-blues", "name": "Jazz & Blues"}
    top = {"categoryId": music["id"], "slug": "music", "name": "Music"}
    for slug, above in {"bop": [top, new], "swing": [top, new], "rock": [top]}.items():
        assert (await gateway.data(CATEGORY, {"slug": slug}))["category"]["breadcrumbs"] == above
    assert await way_to(gateway, "hard-bop") == ["music", "jazz-blues", "bop", "hard-bop"]
    assert await gateway.data(CATEGORY, {"slug": "jazz"}) == {"category": None}
    await assert_invariants(gateway)


@pytest.mark.parametrize(
    "changed", [{}, {"name": "Jazz"}, {"slug": "jazz"}, {"name": "All That Jazz"}, {"slug": "all"}]
)
@pytest.mark.parametrize("is_null", [False, True], ids=["left out", "null"])
async def test_a_rename_keeps_what_is_not_given(
    gateway: GatewayClient, changed: dict[str, str], *, is_null: bool
) -> None:
    jazz = await create_category(gateway, name="Jazz", slug="jazz")
    others = dict.fromkeys({"name", "slug"} - changed.keys()) if is_null else {}

    result = await gateway.result("renameCategory", {"id": jazz["id"], **changed, **others})

    assert result == {"__typename": "CategoryPayload", "category": {**jazz, **changed}}


async def test_a_rename_to_a_taken_slug_changes_nothing(gateway: GatewayClient) -> None:
    music, jazz = await create_line(gateway, "music", "jazz")

    result = await gateway.result("renameCategory", {"id": music["id"], "name": "Sound", "slug": "jazz"})

    assert result == {"__typename": "SlugTaken", "message": "The slug 'jazz' is taken.", "slug": "jazz"}
    unchanged = (await gateway.data(CATEGORY, {"slug": "jazz"}))["category"]
    assert unchanged["breadcrumbs"] == jazz["breadcrumbs"]


async def test_a_rename_reaches_a_thousand_children_and_sixty_levels(gateway: GatewayClient) -> None:
    root = await create_category(gateway, name="Old", slug="root")
    document = await gateway.stored("categories", {"slug": "root"})
    parent, ancestors = document["_id"], [{"_id": document["_id"], "slug": "root", "name": "Old"}]
    wide = [{"_id": ObjectId(), "slug": f"wide-{n}", "name": "W", "parent": parent} for n in range(1_100)]
    deep: list[dict[str, Any]] = []
    for number in range(60):
        deep.append({"_id": ObjectId(), "slug": f"deep-{number}", "name": "D", "parent": parent})
        deep[-1]["ancestors"] = list(ancestors)
        ancestors.append({"_id": deep[-1]["_id"], "slug": f"deep-{number}", "name": "D"})
        parent = deep[-1]["_id"]
    await gateway.db["categories"].insert_many([{**one, "ancestors": ancestors[:1]} for one in wide] + deep)

    await gateway.result("renameCategory", {"id": root["id"], "name": "New"})

    assert await gateway.db["categories"].count_documents({"ancestors.0.name": "New"}) == 1_160
    await assert_invariants(gateway)


async def test_a_move_takes_all_descendants_along(gateway: GatewayClient) -> None:
    _, jazz, _, _ = await create_line(gateway, "music", "jazz", "bop", "hard-bop")
    _, arts = await create_line(gateway, "culture", "arts")
    await create_line(gateway, "swing", parent_id=jazz["id"])

    result = await gateway.result("moveCategory", {"id": jazz["id"], "newParentId": arts["id"]})

    assert result["category"]["parent"] == {"id": arts["id"]}
    assert [crumb["slug"] for crumb in result["category"]["breadcrumbs"]] == ["culture", "arts"]
    assert await way_to(gateway, "hard-bop") == ["culture", "arts", "jazz", "bop", "hard-bop"]
    assert await way_to(gateway, "swing") == ["culture", "arts", "jazz", "swing"]
    children = "query ($slug: String!) { category(slug: $slug) { children { nodes { slug } } } }"
    assert (await gateway.data(children, {"slug": "music"}))["category"]["children"]["nodes"] == []
    assert (await gateway.data(children, {"slug": "arts"}))["category"]["children"]["nodes"] == [{"slug": "jazz"}]
    await assert_invariants(gateway)


@pytest.mark.parametrize("parent", [{}, {"newParentId": None}], ids=["left out", "null"])
async def test_a_move_to_no_parent_makes_a_root(gateway: GatewayClient, parent: dict[str, None]) -> None:
    _, jazz, _ = await create_line(gateway, "music", "jazz", "bop")

    result = await gateway.result("moveCategory", {"id": jazz["id"], **parent})

    assert result == {"__typename": "CategoryPayload", "category": {**jazz, "parent": None, "breadcrumbs": []}}
    assert await way_to(gateway, "bop") == ["jazz", "bop"]
    await assert_invariants(gateway)


async def test_a_root_can_be_moved_below_another(gateway: GatewayClient) -> None:
    jazz, _ = await create_line(gateway, "jazz", "bop")
    music = await create_category(gateway, slug="music")

    await gateway.result("moveCategory", {"id": jazz["id"], "newParentId": music["id"]})

    assert await way_to(gateway, "bop") == ["music", "jazz", "bop"]
    assert (await gateway.data("{ categories { nodes { slug } } }"))["categories"]["nodes"] == [{"slug": "music"}]


async def test_a_move_to_the_current_parent_changes_nothing(gateway: GatewayClient) -> None:
    music, jazz = await create_line(gateway, "music", "jazz")

    stays = await gateway.result("moveCategory", {"id": jazz["id"], "newParentId": music["id"]})
    stays_root = await gateway.result("moveCategory", {"id": music["id"], "newParentId": None})

    assert stays == {"__typename": "CategoryPayload", "category": jazz}
    assert stays_root == {"__typename": "CategoryPayload", "category": music}


async def test_a_category_cannot_be_moved_below_itself(gateway: GatewayClient) -> None:
    line = await create_line(gateway, "music", "jazz", "bop", "hard-bop")

    for below in line:
        result = await gateway.result("moveCategory", {"id": line[0]["id"], "newParentId": below["id"]})
        assert result == {"__typename": "CategoryCycle", "message": "A category cannot be moved below itself."}

    assert await way_to(gateway, "hard-bop") == ["music", "jazz", "bop", "hard-bop"]
    # A refused move must not block later operations.
    assert (await gateway.result("deleteCategory", {"id": line[3]["id"]}))["__typename"] == "DeletedPayload"
    assert (await gateway.result("moveCategory", {"id": line[2]["id"]}))["__typename"] == "CategoryPayload"


async def test_a_deleted_category_is_not_found_and_its_slug_is_free(gateway: GatewayClient) -> None:
    music, jazz = await create_line(gateway, "music", "jazz")

    deleted = await gateway.result("deleteCategory", {"id": jazz["id"]})
    again = await gateway.result("deleteCategory", {"id": jazz["id"]})

    assert deleted == {"__typename": "DeletedPayload", "deletedId": jazz["id"]}
    assert again == {"__typename": "NotFound", "message": "There is no such category.", "missingId": jazz["id"]}
    assert await gateway.data(CATEGORY, {"slug": "jazz"}) == {"category": None}
    assert await gateway.data("query ($id: ID!) { node(id: $id) { id } }", {"id": jazz["id"]}) == {"node": None}
    successor = await create_category(gateway, slug="jazz", parentId=music["id"])
    assert successor["id"] != jazz["id"]


@pytest.mark.both_drivers
async def test_a_category_with_children_or_products_is_not_deleted(gateway: GatewayClient) -> None:
    parent, child = await create_line(gateway, "music", "jazz")
    await create_product(gateway, categoryIds=[child["id"]])

    for category in (parent, child):
        result = await gateway.result("deleteCategory", {"id": category["id"]})
        assert result == {"__typename": "CategoryNotEmpty", "message": "The category still has children or products."}

    assert await way_to(gateway, "jazz") == ["music", "jazz"]
    # The refused deletion does not block other operations.
    await create_category(gateway, parentId=child["id"])


async def test_a_category_is_deleted_once_it_is_empty_again(gateway: GatewayClient) -> None:
    parent, child = await create_line(gateway, "music", "jazz")
    product = await create_product(gateway, categoryIds=[child["id"]])

    given = {"id": product["id"], "nonce": product["nonce"], "categoryIds": []}
    assert (await gateway.result("updateProduct", given))["__typename"] == "ProductPayload"

    for category in (child, parent):
        result = await gateway.result("deleteCategory", {"id": category["id"]})
        assert result == {"__typename": "DeletedPayload", "deletedId": category["id"]}


IDS_IN = [
    ("createCategory", "parentId"),
    ("renameCategory", "id"),
    ("moveCategory", "id"),
    ("moveCategory", "newParentId"),
    ("deleteCategory", "id"),
]
OTHERS = {
    "createCategory": {"name": "New", "slug": "new"},
    "renameCategory": {"name": "New"},
    "moveCategory": {},
    "deleteCategory": {},
}


@pytest.mark.both_drivers
@pytest.mark.parametrize(("mutation", "field"), IDS_IN)
async def test_an_id_of_no_category_is_not_found(gateway: GatewayClient, mutation: str, field: str) -> None:
    known, product = (await create_category(gateway))["id"], await create_product(gateway)
    own = {} if mutation == "createCategory" else {"id": known}
    hexadecimal, unknown = str(ObjectId()), Kind.encode_id("Category", ObjectId())
    malformed = ["", "jazz", hexadecimal, f"{known}=", known[:-1], Kind.encode_id("Category", "x"), "Ж", "$ne"]
    malformed += [Kind.encode_id("Nothing", hexadecimal), Kind.encode_id("Category", hexadecimal.upper())]
    messages = {
        unknown: ("There is no such category.", unknown),
        product["id"]: ("The id is that of a product, not of a category.", None),
        **dict.fromkeys(malformed, ("The id is not that of a category.", None)),
    }

    for wrong, (message, shown) in messages.items():
        result = await gateway.result(mutation, {**OTHERS[mutation], **own, field: wrong})
        assert result == {"__typename": "NotFound", "message": message, "missingId": shown}, wrong


@pytest.mark.parametrize("mutation", OTHERS)
async def test_only_merchants_and_admins_change_the_hierarchy(gateway: GatewayClient, mutation: str) -> None:
    known = await create_category(gateway, name="Known", slug="known")
    given = OTHERS[mutation] | ({} if mutation == "createCategory" else {"id": known["id"]})

    await assert_only_for(gateway, "MERCHANT", mutation, given)
    assert (await gateway.data("{ categories { nodes { slug name } } }"))["categories"]["nodes"] == [
        {"slug": "known", "name": "Known"}
    ]
    await gateway.payload(mutation, given, token=gateway.token("chief", [Role.ADMIN]))
