"""Worst operations of `bench.worst` by the size of their arguments: each field converts what it is given."""

from __future__ import annotations

from bench.worst_operation import Operation
from portico.schema.kinds import Kind

_INPUT = "BAD_USER_INPUT"
_TEXT = "É" * 120_000
_ONE_USE = "x" * 700_000
_HIT, _PAIR = {"site": "", "page": ""}, {"name": "", "value": ""}


def of_arguments() -> dict[str, Operation]:
    filtered = "a%n: products(first: 1, filter: $filter) { nodes { id } }"
    return {
        "a long id": Operation("a%n: node(id: $id) { id }", {"id": Kind.encode_id("Product", _ONE_USE)}, "$id: ID!"),
        "long ids": Operation("a%n: node(id: $id) { id }", {"id": Kind.encode_id("Product", "x" * 3_000)}, "$id: ID!"),
        "long tags": Operation(
            "a%n: contentByTag(first: 1, tag: $tag) { nodes { id } }", {"tag": _TEXT}, "$tag: String!", refused=_INPUT
        ),
        "long cursors": Operation(
            "a%n: products(first: 1, after: $after) { nodes { id } }",
            {"after": "A" * 4_900},
            "$after: String",
            refused=_INPUT,
        ),
        "a filter with many conditions": Operation(
            filtered, {"filter": {"properties": [_PAIR] * 5_500}}, "$filter: ProductFilter", refused=_INPUT
        ),
        "filters with many conditions": Operation(
            filtered, {"filter": {"properties": [_PAIR] * 40}}, "$filter: ProductFilter"
        ),
        "hits of nobody": Operation(
            "a%n: recordHits(input: $hits) { __typename }",
            {"hits": [_HIT] * 1_000},
            "$hits: [HitInput!]!",
            kind="mutation",
            refused="UNAUTHENTICATED",
        ),
    }
