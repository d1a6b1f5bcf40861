"""Search as people type: beginnings of words, in any case, without accents, with typos."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from bench.worst import examine
from bench.worst_operation import Operation
from portico.resolvers.catalog import suggestions, vocabulary
from portico.resolvers.catalog.categories import CATEGORIES
from portico.resolvers.catalog.products import PRODUCTS
from portico.resolvers.catalog.vocabulary import MAX_FOUND, WORDS, store_words
from portico.resolvers.documents import upgrade_batch
from portico.resolvers.typed_text import is_typo, parts_of, shortened, typed_words
from tests.catalog.support.cases import id_and_nonce
from tests.catalog.support.catalog import add_categories, add_products, album, film, product, skus
from tests.support.harness import GatewayClient, assert_invariants, create_category, create_product
from tests.support.sockets import SECONDS

SUGGEST = """
query ($text: String!, $first: Int = 5) {
  suggest(text: $text, first: $first) {
    id kind title match { text isMatch } node { __typename id ... on Product { sku } ... on Category { slug } }
  }
}
"""


async def typed(gateway: GatewayClient, text: str, **conditions: Any) -> set[str]:
    return set(await skus(gateway, typed=text, **conditions))


async def suggest(gateway: GatewayClient, text: str, **variables: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await gateway.data(SUGGEST, {"text": text, **variables}))["suggest"]
    return found


def marked(suggestion: dict[str, Any]) -> str:
    return "".join(f"[{part['text']}]" if part["isMatch"] else part["text"] for part in suggestion["match"])


async def add_shop(gateway: GatewayClient) -> None:
    await add_categories(
        gateway.db, [{"slug": "jazz", "name": "Jazz"}, {"slug": "cool", "name": "Cool Jazz & Milonga"}]
    )
    await add_products(
        gateway.db,
        [
            album(sku="kind", title="Kind of Blue", artist="Miles Davis"),
            album(sku="miles", title="Milestones", artist="Miles Davis"),
            album(sku="amelie", title="Amélie", artist="Yann Tiersen"),
            album(sku="sigur", title="Ágætis byrjun", artist="Sigur Rós"),
            film(sku="heat", title="Heat", actors=["Al Pacino"], directors=["Michael Mann"]),
            film(sku="eleven", title="Ocean's Eleven", actors=["George Clooney"]),
            product(sku="lamp", title="(Lamp) .* $^"),
        ],
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("mil", {"kind", "miles"}),
        ("MILES dav", {"kind", "miles"}),
        ("davis miles", {"kind", "miles"}),
        ("miles blu", {"kind"}),
        ("amelie", {"amelie"}),
        ("AMÉL", {"amelie"}),
        ("ros sig", {"sigur"}),
        ("mann", {"heat"}),
        ("oceans el", {"eleven"}),
        ("ocean's", {"eleven"}),
        # One typo: a letter too much, missing, another one, two swapped.
        ("daviss", {"kind", "miles"}),
        ("davs", {"kind", "miles"}),
        ("dabis", {"kind", "miles"}),
        ("dvais blue", {"kind"}),
        # Two typos, a short word, nothing that is typed.
        ("dvaiz", set()),
        ("haet", {"heat"}),
        ("hea", {"heat"}),
        ("hae", set()),
        ("miles nowhere", set()),
        # Nothing is an expression.
        (".*", {"kind", "miles", "amelie", "sigur", "heat", "eleven", "lamp"}),
        ("$^lam", {"lamp"}),
        ("m.*", {"kind", "miles", "heat"}),
    ],
)
async def test_typed_text_finds_products(gateway: GatewayClient, text: str, expected: set[str]) -> None:
    await add_shop(gateway)

    assert await typed(gateway, text) == expected


async def test_typed_text_goes_with_other_conditions_sorts_counts_and_pages(gateway: GatewayClient) -> None:
    await add_shop(gateway)
    text = """
    query ($after: String) {
      products(filter: { typed: "mil", type: AUDIO_ALBUM }, sort: TITLE_ASC, first: 1, after: $after) {
        totalCount nodes { sku } pageInfo { hasNextPage endCursor } facets { types { value count } }
      }
    }
    """
    one = (await gateway.data(text))["products"]
    # The vocabulary grows between two pages.
    await create_product(gateway, sku="new", title="Milk", type="Audio Album")
    other = (await gateway.data(text, {"after": one["pageInfo"]["endCursor"]}))["products"]

    assert one["totalCount"] == 2
    assert one["facets"]["types"] == [{"value": "Audio Album", "count": 2}]
    assert [page["nodes"] for page in (one, other)] == [[{"sku": "kind"}], [{"sku": "miles"}]]
    assert await typed(gateway, "mil", typeNames=["Film"]) == set()
    assert await typed(gateway, "") == await typed(gateway, " ?! ")


async def test_typed_text_is_bounded(gateway: GatewayClient) -> None:
    await add_shop(gateway)

    answer = await gateway.ask(
        "query ($t: String) { products(filter: { typed: $t }) { nodes { sku } } }", {"t": "x" * 201}
    )

    assert answer.codes == ["BAD_USER_INPUT"]
    assert len(typed_words("a b c d e f g h i j k")) == 8


async def test_all_words_of_all_aliases_are_looked_up_by_one_command(gateway: GatewayClient) -> None:
    await add_shop(gateway)
    await store_words(gateway.db, [f"zz{number}" for number in range(5 * MAX_FOUND)])
    gateway.commands.clear()

    await gateway.data(
        '{ a: products(filter: { typed: "mil dav" }) { nodes { sku } } b: products(filter: { typed: "zz" }) '
        "{ nodes { sku } } }"
    )

    names = gateway.commands.names()
    assert names.count("aggregate catalog_words") == 1
    wanted = [one for one in gateway.commands.sent if "zz" in str(one) and "keywords" in str(one)]
    assert 0 < str(wanted[0]).count("zz") <= 4 * MAX_FOUND


async def test_an_edit_and_a_rename_teach_new_words(gateway: GatewayClient) -> None:
    made = await create_product(gateway, sku="A", title="First")
    category = await create_category(gateway, name="Opera", slug="opera")

    await gateway.result("updateProduct", {**id_and_nonce(made), "title": "Second"})
    await gateway.result("renameCategory", {"id": category["id"], "name": "Operetta"})

    assert await typed(gateway, "secnd") == {"A"}
    assert await typed(gateway, "first") == set()
    assert [one["title"] for one in await suggest(gateway, "operet")] == ["Operetta"]
    await assert_invariants(gateway)


async def test_concurrent_writers_of_the_same_words_do_not_fail(gateway: GatewayClient) -> None:
    await asyncio.gather(*(create_product(gateway, sku=f"s{n}", title="Same new words") for n in range(8)))

    assert len(await typed(gateway, "same words")) == 8
    await assert_invariants(gateway)


@pytest.mark.parametrize("text", ["davi", "dvais"])
async def test_a_live_search_shows_a_product_whose_words_are_stored_late(gateway: GatewayClient, text: str) -> None:
    query = "query ($text: String!) @live { products(filter: { typed: $text }) { nodes { sku } } }"
    await add_shop(gateway)
    await WORDS.of(gateway.db).delete_many({})
    async with gateway.subscription(query, {"text": text}) as answers:
        # Sees the products, and not yet their words.
        assert (await anext(answers))["products"]["nodes"] == []

        await store_words(gateway.db, ["davis"])

        async with asyncio.timeout(SECONDS):
            found = (await anext(answers))["products"]["nodes"]
        assert {one["sku"] for one in found} == {"kind", "miles"}


async def test_a_job_collects_the_words_of_older_products_and_categories(gateway: GatewayClient) -> None:
    await add_shop(gateway)
    await WORDS.of(gateway.db).delete_many({})
    await gateway.db["products"].update_many({}, {"$set": {"schema_version": 2}, "$unset": {"keywords": ""}})
    await gateway.db["categories"].update_many({}, {"$unset": {"schema_version": "", "words": ""}})
    assert await typed(gateway, "mil") == set()

    assert await gateway.run_jobs("collect-words") == 0
    for spec in (PRODUCTS, CATEGORIES):
        await upgrade_batch(gateway.db, spec)
    assert await gateway.run_jobs("collect-words") > 0
    assert await gateway.run_jobs("collect-words") == 0

    assert await typed(gateway, "mil") == {"kind", "miles"}
    assert [one["title"] for one in await suggest(gateway, "milonga")] == ["Cool Jazz & Milonga"]
    await assert_invariants(gateway)


async def test_suggestions_show_what_matches(gateway: GatewayClient) -> None:
    await add_shop(gateway)

    found = await suggest(gateway, "mil")

    assert [(one["kind"], one["title"], marked(one)) for one in found] == [
        ("Product", "Milestones", "[Mil]estones"),
        ("Product", "Kind of Blue", "[Mil]es Davis"),
        ("Category", "Cool Jazz & Milonga", "Cool Jazz & [Mil]onga"),
    ]
    assert [one["node"].get("sku") or one["node"]["slug"] for one in found] == ["miles", "kind", "cool"]
    assert len({one["id"] for one in found}) == 3
    assert [marked(one) for one in await suggest(gateway, "amelei")] == ["[Amélie]"]
    assert [one["title"] for one in await suggest(gateway, "jazz", first=1)] == ["Jazz"]
    assert await suggest(gateway, " - ") == []


async def test_suggestions_read_a_bounded_number_of_products_for_several_words(
    gateway: GatewayClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rare word finds its products behind many newer ones with the common word. Two common words may find none."""
    monkeypatch.setattr(suggestions, "_READ", 10)
    common = [album(sku=f"c{n}", title="Blue Moon", artist="Band", issueDate="2020-01-01T00:00:00Z") for n in range(20)]
    waltz = [album(sku=f"w{n}", title="Waltz", artist="Band", issueDate="2020-01-01T00:00:00Z") for n in range(20)]
    old = "1950-01-01T00:00:00Z"
    both = album(sku="both", title="Blue Waltz", artist="Band", issueDate=old)
    rare = album(sku="rare", title="Blue Zydeco", artist="Band", issueDate=old)
    await add_products(gateway.db, [*common, *waltz, both, rare])

    assert [one["title"] for one in await suggest(gateway, "zydeco blue")] == ["Blue Zydeco"]
    assert [one["title"] for one in await suggest(gateway, "blue zyd")] == ["Blue Zydeco"]
    assert await suggest(gateway, "blue waltz") == []
    assert len(await suggest(gateway, "blue moon", first=20)) == 5
    assert await typed(gateway, "blue waltz") == {"both"}


async def test_many_typed_texts_share_what_they_read(gateway: GatewayClient, monkeypatch: pytest.MonkeyPatch) -> None:
    await add_shop(gateway)
    monkeypatch.setattr(vocabulary, "_LOOKUPS_A_COMMAND", 4)
    texts = [f'a{n}: products(filter: {{ typed: "amelie nothing{n} mil" }}) {{ totalCount }}' for n in range(2)]
    texts.append('found: products(filter: { typed: "dvais mil" }) { nodes { sku } }')
    gateway.commands.clear()

    found = await gateway.data(f"{{ {' '.join(texts)} }}")

    assert {one["sku"] for one in found["found"]["nodes"]} == {"kind", "miles"}
    assert gateway.commands.names().count("aggregate catalog_words") == 3


async def test_suggestions_take_few_commands(gateway: GatewayClient) -> None:
    await add_shop(gateway)
    gateway.commands.clear()

    await suggest(gateway, "mil")

    # The words, products, categories, members and nodes of the site; then the objects of each kind that has some.
    assert sorted(gateway.commands.names()) == [
        "aggregate catalog_words",
        "aggregate categories",
        "aggregate cms.nodes",
        "aggregate products",
        "aggregate social.members",
        "find categories",
        "find products",
    ]


@pytest.mark.parametrize("first", [0, 21])
async def test_the_number_of_suggestions_is_bounded(gateway: GatewayClient, first: int) -> None:
    assert (await gateway.ask(SUGGEST, {"text": "mil", "first": first})).codes == ["BAD_USER_INPUT"]


def test_words_with_one_typo_share_a_shortened_form() -> None:
    letters = "abc"
    some = [a + b + c + d for a in letters for b in letters for c in letters for d in letters]
    for one in some[:40]:
        for other in (*some, "abca" + "b", "abc" + "aa"):
            shares = bool({one, *shortened(one)} & {other, *shortened(other)})
            assert shares or not is_typo(one, other)


def test_parts_put_together_are_the_text() -> None:
    for text in ("", "Kind of Blue", "  Amélie  & Co", "Ocean\u2019s Eleven"):
        for wanted in (["blue"], ["ameli"], ["oceans"], ["o", "of"]):
            assert "".join(part.text for part in parts_of(text, wanted)) == text


async def test_suggestions_for_common_words_that_no_product_has_together_read_a_bounded_number(
    gateway: GatewayClient,
) -> None:
    words = ("alpine", "boreal")
    await add_products(
        gateway.db, [product(sku=f"{word} {n}", title=f"{word} {n}") for n in range(2_000) for word in words]
    )
    operation = Operation('a%n: suggest(text: "alpine boreal") { title }')

    cost = await examine(gateway, operation, 1)

    assert cost.codes == []
    assert cost.examined <= 3_000


async def test_suggestions_find_the_products_that_a_rare_word_has_in_common_with_a_common_one(
    gateway: GatewayClient,
) -> None:
    await add_products(
        gateway.db,
        [
            product(sku="old", title="boreal rarity", issueDate="1950-01-01T00:00:00Z"),
            *(product(sku=f"{n}", title=f"boreal {n}", issueDate="1999-01-01T00:00:00Z") for n in range(1_100)),
        ],
    )

    for text in ("boreal rar", "rarity boreal", "rarety boreal"):
        assert [one["title"] for one in await suggest(gateway, text)] == ["boreal rarity"]
