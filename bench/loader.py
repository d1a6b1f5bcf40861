"""A stand-in for `portico import`: the same JSON Lines, written as Portico's documents."""

import random
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
from bson import ObjectId
from pymongo import DESCENDING, MongoClient

from bench.dataset import Files

Document = dict[str, Any]


def lines(path: Path) -> Iterator[Document]:
    with path.open("rb") as file:
        yield from map(orjson.loads, file)


def category_documents(path: Path) -> Iterator[Document]:
    """Category documents, with their ancestors root first. A parent's line stands before its children's."""
    by_slug: dict[str, Document] = {}
    for line in lines(path):
        parent = by_slug.get(line.get("parent", ""))
        ancestors = [*parent["ancestors"], {key: parent[key] for key in ("_id", "slug", "name")}] if parent else []
        document = {
            "_id": ObjectId(),
            "slug": line["slug"],
            "name": line["name"],
            "parent": parent["_id"] if parent else None,
            "ancestors": ancestors,
        }
        by_slug[line["slug"]] = document
        yield document


def pricing(line: Document) -> Document:
    listed, retail = line["list"]["amount"], line["retail"]["amount"]
    savings = listed - retail
    return {
        "currency": line["list"]["currency"],
        "list": listed,
        "retail": retail,
        "savings": savings,
        "pct_savings": savings * 100 // listed,
    }


def details(line: Document) -> Document:
    renamed = {"aspectRatio": "aspect_ratio"} if line["type"] == "Film" else {}
    return {renamed.get(key, key): value for key, value in line["details"].items()}


def product_documents(path: Path, ids: Mapping[str, ObjectId]) -> Iterator[Document]:
    """Product documents; `ids` are those of the categories, by slug."""
    rng = random.Random(1)
    for line in lines(path):
        yield {
            "_id": ObjectId(),
            "schema_version": 2,
            "sku": line["sku"],
            "type": line["type"],
            "title": line["title"],
            "description": line.get("description"),
            "pricing": pricing(line["pricing"]),
            "shipping": None,
            "category_ids": [ids[slug] for slug in line["categories"]],
            "properties": line["properties"],
            "issue_date": datetime.fromisoformat(line["issueDate"]).astimezone(UTC),
            "details": details(line),
            "nonce": f"{rng.getrandbits(128):032x}",
            "terms": sorted(set(line["title"].lower().split())),
        }


def load(uri: str, database: str, files: Files) -> None:
    """Write both files into an empty database, with the index that the page's sort needs."""
    with MongoClient[Document](uri) as client:
        db = client[database]
        categories = list(category_documents(files.categories))
        db["categories"].insert_many(categories)
        ids = {category["slug"]: category["_id"] for category in categories}
        db["products"].insert_many(product_documents(files.products, ids))
        db["products"].create_index([("issue_date", DESCENDING), ("_id", DESCENDING)])
