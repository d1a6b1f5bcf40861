"""The kinds and keys in global ids, for tests that look at the database."""

from __future__ import annotations

from typing import Any

from portico.schema.kinds import Kind, split_id

from .domains import DOMAINS


def decode_id(global_id: str) -> tuple[Kind, Any]:
    """Returns the kind and key in an id of the built-in domains."""
    name, text = split_id(global_id)
    kind: Kind = DOMAINS.kinds[name]
    return kind, kind.parse(text)


def key_in(kind: str, global_id: str) -> Any:
    """Returns the key in an id of this kind. Fails for the id of another kind."""
    found, key = decode_id(global_id)
    assert found.name == kind
    return key
