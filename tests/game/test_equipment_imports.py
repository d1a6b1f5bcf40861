"""The wares of a shop, imported from lists of equipment."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from tests.game.support.stacks import assert_items, give, held
from tests.support import real_data
from tests.support.domains import IMPORTERS
from tests.support.harness import GatewayClient
from tests.support.record_imports import import_records

Line = dict[str, Any]
SHELF = """query ($owner: String!, $category: String, $prefix: String) {
  inventory(owner: $owner, name: "shop") { stacks(category: $category, namePrefix: $prefix, first: 100) {
    nodes { category itemId name description image quantity } } } }"""
LISTED: Line = {
    "index": "rope-of-hemp",
    "name": "Rope of Hemp",
    "equipment_category": {"index": "gear", "name": "Gear", "url": "/gear"},
    "cost": {"quantity": 1, "unit": "gp"},
    "desc": ["Holds two.", "", "Burns."],
    "image": "/images/rope.png",
    "url": "/rope",
}
OWN: Line = {"category": "gear", "itemId": "lamp", "name": "Lamp", "quantity": 7, "image": "https://example.com/l.png"}


async def imported(gateway: GatewayClient, tmp_path: Path, *lines: Line, **options: Any) -> tuple[dict[str, int], Any]:
    """The counts, and the reasons of bad records by line."""
    return await import_records(gateway.db, IMPORTERS["equipment"].configured(options), tmp_path, lines)


async def shelf(gateway: GatewayClient, owner: str = "npc:outfitter", **given: Any) -> list[Line]:
    data = await gateway.data(SHELF, {"owner": owner, **given}, token=None)
    return list(data["inventory"]["stacks"]["nodes"])


async def test_wares_of_both_formats_are_on_the_shelf_of_a_shop(gateway: GatewayClient, tmp_path: Path) -> None:
    assert await imported(gateway, tmp_path, LISTED, OWN) == ({"created": 2}, {})

    assert await shelf(gateway) == [
        {
            "category": "gear",
            "itemId": "lamp",
            "name": "Lamp",
            "description": None,
            "image": "https://example.com/l.png",
            "quantity": 7,
        },
        {
            "category": "gear",
            "itemId": "rope-of-hemp",
            "name": "Rope of Hemp",
            "description": "Holds two.\n\nBurns.",
            "image": None,
            "quantity": 100,
        },
    ]
    await assert_items(gateway)


async def test_options_name_the_owner_and_the_site_of_the_images(gateway: GatewayClient, tmp_path: Path) -> None:
    await imported(gateway, tmp_path, LISTED, owner="smithy", images="https://example.com/")

    assert [ware["image"] for ware in await shelf(gateway, "smithy")] == ["https://example.com/images/rope.png"]


async def test_a_second_import_changes_what_is_shown_and_creates_no_items(
    gateway: GatewayClient, tmp_path: Path
) -> None:
    await imported(gateway, tmp_path, LISTED, OWN)

    again = await imported(gateway, tmp_path, LISTED, {**OWN, "name": "Lantern", "quantity": 50})

    assert again == ({"unchanged": 1, "changed": 1}, {})
    assert [(ware["name"], ware["quantity"]) for ware in await shelf(gateway)] == [
        ("Lantern", 7),
        ("Rope of Hemp", 100),
    ]
    await assert_items(gateway)


async def test_an_import_adds_once_to_a_stack_that_exists(gateway: GatewayClient, tmp_path: Path) -> None:
    await give(gateway.db, "npc:outfitter", "lamp", 3, name="shop", category="gear")

    counts = [(await imported(gateway, tmp_path, OWN))[0] for _ in range(2)]

    assert counts == [{"changed": 1}, {"unchanged": 1}]
    assert await held(gateway.db, "npc:outfitter", "shop") == {"lamp": 10}
    await assert_items(gateway)


async def test_bad_wares_are_named_by_line_and_the_others_are_stored(gateway: GatewayClient, tmp_path: Path) -> None:
    bad: list[Line] = [
        {**OWN, "quantity": 0},
        {**OWN, "quantity": 1.5},
        {**OWN, "quantity": "many"},
        {**OWN, "image": "javascript:alert(1)"},
        {**OWN, "price": 3},
        {**LISTED, "equipment_category": "gear"},
        {**LISTED, "equipment_category": {}},
        {"name": "Nothing"},
    ]
    counts, reasons = await imported(gateway, tmp_path, *bad, OWN)

    assert counts == {"created": 1, "failed": 8}
    assert sorted(reasons) == list(range(1, 9))
    assert reasons[5] == "price: unknown field"
    assert reasons[7] == "equipment_category.index: is missing"


async def test_real_lists_of_equipment_are_imported_completely(gateway: GatewayClient, tmp_path: Path) -> None:
    lines = [*real_data.rows("rpg_equipment"), *real_data.rows("rpg_magic_items")]

    assert await imported(gateway, tmp_path, *lines) == ({"created": 599}, {})
    assert await imported(gateway, tmp_path, *lines) == ({"unchanged": 599}, {})

    kinds = Counter(line["equipment_category"]["index"] for line in lines)
    assert len(await shelf(gateway, category="potion")) == kinds["potion"]
    longswords = sorted(line["name"] for line in lines if line["name"].casefold().startswith("longs"))
    assert [ware["name"] for ware in await shelf(gateway, prefix="LongS")] == longswords
    await assert_items(gateway)
