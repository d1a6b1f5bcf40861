"""Batched reads of characters by key: those of players, and shopkeepers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from typing import Any

from portico.loaders.batching import BatchRead
from portico.loaders.declaring import each, in_order
from portico.resolvers.documents import Database, DocumentId, Projection
from portico.resolvers.game.world import character_reads, keepers
from portico.resolvers.game.world.characters import ShownCharacter

# A text is the key of a shopkeeper, as `locations.keeper_key` returns it.
CharacterKey = DocumentId | str

by_owner = each(character_reads.find_by_owner)
pages = in_order(character_reads.find_pages)


def by_key(db: Database, projection: Projection | None) -> BatchRead[CharacterKey, ShownCharacter]:
    """Makes the batched read: one command for all players' characters, and one for all shopkeepers."""

    async def read(keys: Sequence[CharacterKey]) -> Mapping[CharacterKey, ShownCharacter]:
        ids = [key for key in keys if isinstance(key, DocumentId)]
        texts = [key for key in keys if isinstance(key, str)]
        reads: list[Awaitable[Mapping[Any, Any]]] = []
        if ids:
            reads.append(character_reads.find_by_ids(db, ids, projection))
        if texts:
            reads.append(keepers.find_by_keys(db, texts, projection))
        return {key: document for found in await asyncio.gather(*reads) for key, document in found.items()}

    return read
