"""The ids that compiled functions make."""

from typing import Any

import pytest

from portico.gateway.operations.plans.flat_ids import id_expression
from portico.resolvers.documents import DocumentId
from portico.schema.kinds import Kind

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
