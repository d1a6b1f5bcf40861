"""The ids of objects that are parts of others. Client stores need them; no operation takes them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

from portico.schema.kinds import Kind

from .fields import computed


def part_id(name: str, key: Callable[[Any], object], *needs: str) -> Any:
    """Returns the `id` field of objects that belong to others and that no operation finds by their ids.

    Client stores keep objects by their ids. Without one, they would mix the fields of different items of a list.

    Args:     name: of the type.  key: returns what distinguishes the object from all others of the type.
              needs: the paths that `key` reads.
    """
    return computed(
        lambda source: Kind.encode_id(name, key(source)),
        *needs,
        description="Unique among all objects. The object is part of another one: `node` does not find it.",
    )


def digest_of(*parts: str) -> str:
    """Returns a short text that differs if one of the parts does, for `part_id`."""
    return hashlib.blake2b("\0".join(parts).encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()
