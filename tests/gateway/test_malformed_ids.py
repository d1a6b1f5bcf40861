"""Ids: a mutation answers a malformed one like that of no object, and compiled functions make those of their kinds."""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode
from collections.abc import Iterator
from typing import Any

import pytest
from graphql import GraphQLInputObjectType, GraphQLList, get_named_type, get_nullable_type

from portico.gateway.operations.plans.flat_ids import id_expression
from portico.resolvers.documents import DocumentId
from portico.schema.kinds import Kind
from portico.testing.kits import merged, mutation_text
from tests.support.domains import SCHEMA
from tests.support.harness import GatewayClient, new_key
from tests.support.invalid_inputs import Place, changed
from tests.support.kits import kits

CORE = SCHEMA._schema
INPUTS = merged([kit.inputs for kit in kits().values()])
assert CORE.mutation_type is not None
TYPES = {name: field.args["input"].type for name, field in CORE.mutation_type.fields.items()}


def has_ids(entry: Any) -> bool:
    found = get_named_type(entry)
    if isinstance(found, GraphQLInputObjectType):
        return any(has_ids(field.type) for field in found.fields.values())
    return bool(found.name == "ID")


def ids_in(entry: Any, given: Any, place: Place = ()) -> Iterator[tuple[Place, str]]:
    """Yields the place of each id in an input, with its value."""
    kind = get_nullable_type(entry)
    if given is None:
        return
    if isinstance(kind, GraphQLList):
        for number, one in enumerate(given):
            yield from ids_in(kind.of_type, one, (*place, number))
    elif isinstance(kind, GraphQLInputObjectType):
        for name, value in given.items():
            yield from ids_in(kind.fields[name].type, value, (*place, name))
    elif kind.name == "ID" and place[-1] != "nonce":
        yield place, given


def missing(global_id: str) -> str:
    """Returns the id of an object of the same kind that does not exist."""
    kind, _, key = urlsafe_b64decode(global_id + "=" * (-len(global_id) % 4)).decode().partition(":")
    other = re.sub(r"[0-9a-f]{24}", "0" * 24, key)
    return Kind.encode_id(kind, other if other != key else f"{key}0")


@pytest.mark.sample(3)
@pytest.mark.parametrize("mutation", [name for name in INPUTS if has_ids(TYPES[name])])
async def test_a_malformed_id_is_like_that_of_no_object(gateway: GatewayClient, mutation: str) -> None:
    given = (await INPUTS[mutation](gateway))[0]
    takes_key = "idempotencyKey" in get_named_type(TYPES[mutation]).fields

    async def answer(place: Place, global_id: str) -> Any:
        values = changed(TYPES[mutation], given, {place: global_id})
        keyed = {**values, "idempotencyKey": new_key()} if takes_key else values
        shown = await gateway.ask(mutation_text(CORE, mutation, "... on NotFound { kind }"), {"input": keyed})
        found = (shown.body.get("data") or {}).get(mutation)
        return shown.codes, found and {name: found.get(name) for name in ("__typename", "kind")}

    for place, own in ids_in(TYPES[mutation], given):
        expected = await answer(place, missing(own))
        for bad in ("", "x", own[:-1], Kind.encode_id("Nothing", "1"), Kind.encode_id("Query", "1"), "🙂"):
            assert await answer(place, bad) == expected, (place, bad)


# Compiled

KEYS: dict[str, Any] = {
    "a document": DocumentId("64a1b2c3d4e5f60718293a4b"),
    "a text": "P-00001",
    "a text whose id has other characters than letters and digits": "??>~ü",
    "a number": 7,
}


@pytest.mark.parametrize("key", KEYS.values(), ids=KEYS.keys())
@pytest.mark.parametrize("kind", ["Category", "Product", "Article", "Game.Room", "Büro", "A>?"])
def test_a_compiled_id_is_that_of_its_kind_and_key(kind: str, key: Any) -> None:
    names: dict[str, Any] = {"document": {"_id": key}}
    expression = id_expression(names, kind, "_id", "document")
    assert eval(expression, names) == Kind.encode_id(kind, key)  # noqa: S307 - the text is our own
