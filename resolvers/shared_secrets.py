"""Secrets that all gateways of a deployment share, because they share the database."""

from __future__ import annotations

import secrets
from typing import TypedDict

from pymongo import ReturnDocument
from pymongo.errors import DuplicateKeyError

from .documents import CollectionSpec, Database


class SharedSecret(TypedDict):
    """A secret. Its `_id` is its name; `secret` is random."""

    _id: str
    secret: bytes


SECRETS = CollectionSpec("secrets", document=SharedSecret)
_BYTES = 32


async def stored_secret(db: Database, name: str) -> bytes | None:
    """Returns the secret of this name; None if no process has created it."""
    found = await SECRETS.of(db).find_one({"_id": name})
    return None if found is None else found["secret"]


async def shared_secret(db: Database, name: str) -> bytes:
    """Returns the secret of this name. The first process that asks for it creates it.

    Processes can call this concurrently: all of them get the secret that was stored first.

    Writes:   secrets; one upsert, if the secret is missing.
    """
    key = {"_id": name}
    stored = await stored_secret(db, name)
    if stored is not None:
        return stored
    found: SharedSecret | None = None
    while found is None:
        made = {"$setOnInsert": {"secret": secrets.token_bytes(_BYTES)}}
        try:
            found = await SECRETS.of(db).find_one_and_update(
                key, made, upsert=True, return_document=ReturnDocument.AFTER
            )
        except DuplicateKeyError:
            # Another process has stored it at the same moment.
            found = await SECRETS.of(db).find_one(key)
    return found["secret"]
