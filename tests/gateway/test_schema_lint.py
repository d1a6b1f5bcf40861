"""The schema is clean by the rules of graphql-eslint for schemas and for Relay, except for what is listed here."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

import pytest
from graphql import GraphQLInterfaceType, is_object_type

from tests.support.domains import SCHEMA
from tests.support.processes import node_modules, run_node
from tests.support.rooms import ROOT

_SCHEMA = SCHEMA._schema


def _each(names: Iterable[str], reason: str) -> dict[str, str]:
    return dict.fromkeys(names, reason)


def _errors() -> Iterable[str]:
    shared = _SCHEMA.type_map["UserError"]
    assert isinstance(shared, GraphQLInterfaceType)
    return (one.name for one in _SCHEMA.get_possible_types(shared))


_STATISTICS = "A statistic for the arguments of its query, without an object that lasts."
_EMBEDDED = "A value of the object that shows it. It changes only with that object."
# By the rule, and by the type or field: why.
EXCEPTIONS: Mapping[str, Mapping[str, str]] = {
    "no-typename-prefix": {
        "Ad.adUnitId": "An ad unit is something else than an ad.",
        "Character.characterClass": "`class` is a keyword in many languages.",
        "Post.posted": "The time at which it was posted, and not a prefix.",
    },
    "strict-id-in-types": {
        **_each((*_errors(), "InvalidField"), "The answer to one call."),
        **_each(["AdChoice", "FacetCount", "HitPoint", "HitSeries", "PageCount", "PriceBand"], _STATISTICS),
        **_each(["ProductFacets", "RejectedAd", "TextPart", "SessionReport", "SessionStats"], _STATISTICS),
        **_each(["AdSize", "Address", "Armor", "Cover", "Dimensions", "Intrinsics"], _EMBEDDED),
        **_each(["Money", "Pricing", "Profile", "Shipping", "Weapons"], _EMBEDDED),
        **_each(("Author", "OrderItem", "TradeLine"), "A copy that never changes. It names what it shows."),
        "AdEvent": "An event never changes.",
        "PageInfo": "The rule of Relay for pages.",
        "Stock": "The stock of the product that shows it.",
        "Viewer": "There is one in an operation, because the token says who it is.",
    },
    "relay-edge-types": _each(
        ("HiddenCommentEdge", "HiddenPostEdge", "PostCommentEdge"), "`node` does not find what belongs to a post."
    ),
}


@pytest.mark.timeout(180)
def test_the_schema_is_clean_except_for_a_list() -> None:
    done = run_node(node_modules("interop/eslint"), "lint.mjs", str(ROOT / "schema.graphql"))

    assert done.returncode == 0, done.stderr[:1_500]
    complaints = json.loads(done.stdout)
    assert [one for one in complaints if one[1] not in EXCEPTIONS.get(one[0], ())] == []
    assert {rule: set(names) for rule, names in EXCEPTIONS.items()} == {
        rule: {place for found, place, _ in complaints if found == rule} for rule in EXCEPTIONS
    }


def test_every_exception_is_part_of_the_schema() -> None:
    types = {name for name, found in _SCHEMA.type_map.items() if is_object_type(found)} | {"Post"}
    assert {place.split(".")[0] for names in EXCEPTIONS.values() for place in names} <= types
