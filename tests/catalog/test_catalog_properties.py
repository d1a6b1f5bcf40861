"""The catalog's filters and orders compared with a plain filter over all products."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from portico.gateway.domains.catalog.records import product_record
from portico.resolvers.catalog.product_edits import new_document
from portico.resolvers.documents import Document
from portico.resolvers.texts import fold, words
from tests.catalog.support.catalog import skus
from tests.catalog.support.orders import SORTS, order
from tests.support.harness import GatewayClient

Condition = Callable[[Document], bool]

# Few values, so that they collide: letters that fold, blanks, and the special characters of regular expressions and
# paths.
NAMES = st.sampled_from(
    ["Jazz", "JAZZ", "Straße", "STRASSE", "a.b", "$x", ".*", "ΐ", "I", "é", "E\N{COMBINING ACUTE ACCENT}"]
)
TITLES = st.lists(
    st.sampled_from(["A", "a", "The", "Blue", "blue", "(x", "[", "*", "\U0010ffff", "\ud7ff"]), min_size=1, max_size=3
)
PAIRS = st.fixed_dictionaries({"name": NAMES, "value": NAMES})
DATES = st.sampled_from([None, "1999-12-31T23:59:59.999Z", "2000-01-01T00:00:00Z", "2000-01-01T00:00:00.001Z"])


@st.composite
def products(draw: st.DrawFn) -> Document:
    product_type = draw(st.sampled_from(["Audio Album", "Film", "Book"]))
    people = {"Audio Album": ("artist", NAMES), "Film": ("actors", st.lists(NAMES, max_size=2))}
    details: dict[str, Any] = {}
    if product_type in people:
        name, strategy = people[product_type]
        details = {"genres": draw(st.lists(NAMES, max_size=2)), name: draw(strategy)}
    list_price = draw(st.integers(0, 12))
    return {
        "type": product_type,
        "title": "".join(draw(TITLES)),
        "pricing": {"list": {"amount": list_price}, "retail": {"amount": draw(st.integers(0, list_price))}},
        "properties": draw(st.lists(PAIRS, max_size=2)),
        "issueDate": draw(DATES),
        "details": details,
    }


FILTERS = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(["AUDIO_ALBUM", "FILM", "GENERAL"]),
        "genres": st.lists(NAMES, min_size=1, max_size=3),
        "actor": NAMES,
        "artist": NAMES,
        "titlePrefix": TITLES.map("".join),
        "titleWord": st.sampled_from(["a", "THE", "blue", "x"]),
        "minPctSavings": st.integers(-1, 100),
        "minPrice": st.integers(0, 12),
        "maxPrice": st.integers(0, 12),
        "properties": st.lists(PAIRS, min_size=1, max_size=2),
        "inStock": st.booleans(),
    },
)


def _folded(values: Any) -> set[str]:
    return {fold(value) for value in values}


def _pairs(values: Any) -> set[tuple[str, str]]:
    return {(fold(pair["name"]), fold(pair["value"])) for pair in values}


def condition(name: str, wanted: Any) -> Condition:
    """Return the plain predicate for this condition of the filter."""
    types = {"Audio Album": "AUDIO_ALBUM", "Film": "FILM"}
    conditions: dict[str, Condition] = {
        "type": lambda found: types.get(found["type"], "GENERAL") == wanted,
        "genres": lambda found: bool(_folded(wanted) & _folded(found["details"].get("genres", ()))),
        "actor": lambda found: fold(wanted) in _folded(found["details"].get("actors", ())),
        "artist": lambda found: fold(wanted) == fold(found["details"].get("artist") or ""),
        "titlePrefix": lambda found: found["title"].startswith(wanted),
        "titleWord": lambda found: set(words(wanted)) <= set(words(found["title"])),
        "minPctSavings": lambda found: found["pricing"]["pct_savings"] > wanted,
        "minPrice": lambda found: found["pricing"]["retail"] >= wanted,
        "maxPrice": lambda found: found["pricing"]["retail"] <= wanted,
        "properties": lambda found: _pairs(wanted) <= _pairs(found["properties"]),
        "inStock": lambda found: found.get("in_stock", False) == wanted,
    }
    return conditions[name]


def test_folding_matches_each_letter_with_its_capital() -> None:
    """The exception is the Turkish dotless i: its capital is that of another letter."""
    letters = [chr(number) for number in range(0x20000) if chr(number).isalpha()]

    assert [letter for letter in letters if fold(letter.upper()) != fold(letter)] == [
        "\N{LATIN SMALL LETTER DOTLESS I}"
    ]
    assert [letter for letter in letters if fold(fold(letter)) != fold(letter)] == []


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(catalog=st.lists(products(), max_size=25), searches=st.lists(st.tuples(FILTERS, SORTS), min_size=1, max_size=8))
async def test_any_filter_and_order_match_a_plain_filter(
    gateway: GatewayClient, catalog: list[Document], searches: list[tuple[dict[str, Any], str]]
) -> None:
    documents = [
        dict(new_document(product_record({"sku": f"p{number}", **one}).fields, f"test-{number}"))
        for number, one in enumerate(catalog)
    ]
    await gateway.db["products"].delete_many({})
    if documents:
        await gateway.db["products"].insert_many(documents)

    for wanted, sort in searches:
        found = await skus(gateway, sort, **wanted)

        matching = [one for one in documents if all(condition(*item)(one) for item in wanted.items())]
        in_order = sorted(matching, key=lambda one: order(sort, one), reverse=sort not in {"PRICE_ASC", "TITLE_ASC"})
        assert found == [one["sku"] for one in in_order], (wanted, sort)
