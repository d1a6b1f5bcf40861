"""The two queries for the page, for the Python peers. The Node.js peers have the same ones in shared.mjs."""

import base64
import os
from collections.abc import Mapping, Sequence
from typing import Any

from bson import ObjectId
from pymongo import DESCENDING, AsyncMongoClient
from pymongo.asynchronous.database import AsyncDatabase

Document = Mapping[str, Any]
Database = AsyncDatabase[Document]

NEWEST = [("issue_date", DESCENDING), ("_id", DESCENDING)]
PAGE_PROJECTION = {"_id": 0, "sku": 1, "type": 1, "title": 1, "pricing": 1, "category_ids": 1, "details": 1}
CATEGORY_PROJECTION = {"slug": 1, "name": 1, "ancestors.slug": 1, "ancestors.name": 1}


def open_database() -> Database:
    """Return the database that the environment names. The client connects with the first query."""
    client: AsyncMongoClient[Document] = AsyncMongoClient(os.environ["PORTICO_MONGODB_URI"])
    return client[os.environ["PORTICO_DATABASE"]]


def global_id(text: str) -> str:
    """Return the text in URL-safe base64, without padding."""
    return base64.urlsafe_b64encode(text.encode()).rstrip(b"=").decode()


async def fetch_page(db: Database, first: int) -> list[Document]:
    """Return the newest products, one more than `first`, so that hasNextPage costs no second query.

    The filter is the term that every product has. It is the first key of the index that sorts the products.
    """
    return await db["products"].find({"terms": "*"}, PAGE_PROJECTION, sort=NEWEST, limit=first + 1).to_list()


async def fetch_categories(db: Database, ids: Sequence[ObjectId]) -> dict[ObjectId, Document]:
    """Return the categories with these ids, by id."""
    found = await db["categories"].find({"_id": {"$in": list(ids)}}, CATEGORY_PROJECTION).to_list()
    return {category["_id"]: category for category in found}
