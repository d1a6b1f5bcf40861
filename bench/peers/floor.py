"""The floor: the same data in hand-written code with the plain driver, without GraphQL."""

from typing import Any

import orjson
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from bench.peers.queries import Document, fetch_categories, fetch_page, global_id, open_database

FIRST = 20

db = open_database()


def money(amount: int, currency: str) -> Document:
    return {"amount": amount, "currency": currency}


def pricing_json(pricing: Document) -> Document:
    currency = pricing["currency"]
    return {
        "list": money(pricing["list"], currency),
        "retail": money(pricing["retail"], currency),
        "savings": money(pricing["savings"], currency),
        "pctSavings": pricing["pct_savings"],
    }


def category_json(category: Document) -> Document:
    return {
        "id": global_id(f"Category:{category['_id']}"),
        "slug": category["slug"],
        "name": category["name"],
        "breadcrumbs": [{"slug": ancestor["slug"], "name": ancestor["name"]} for ancestor in category["ancestors"]],
    }


def particulars(product: Document) -> tuple[str, Document]:
    """Return the GraphQL type of a product, and the fields that only this type has."""
    details = product.get("details", {})
    if product["type"] == "Audio Album":
        return "AudioAlbum", {
            "artist": details.get("artist"),
            "genres": details.get("genres", []),
            "tracks": details.get("tracks", []),
        }
    if product["type"] == "Film":
        return "Film", {
            "directors": details.get("directors", []),
            "writers": details.get("writers", []),
            "actors": details.get("actors", []),
            "genres": details.get("genres", []),
            "aspectRatio": details.get("aspect_ratio"),
        }
    return "GeneralProduct", {"type": product["type"], "details": details}


def product_json(product: Document, categories: dict[Any, Document]) -> Document:
    typename, own = particulars(product)
    return {
        "__typename": typename,
        "id": global_id(f"Product:{product['sku']}"),
        "sku": product["sku"],
        "title": product["title"],
        "pricing": pricing_json(product["pricing"]),
        **own,
        "categories": [categories[key] for key in product["category_ids"] if key in categories],
    }


async def page(_: Request) -> Response:
    """Return the page, whatever the request is."""
    found = await fetch_page(db, FIRST)
    nodes = found[:FIRST]
    ids = {key for product in nodes for key in product["category_ids"]}
    categories = {key: category_json(value) for key, value in (await fetch_categories(db, list(ids))).items()}
    connection = {
        "nodes": [product_json(product, categories) for product in nodes],
        "pageInfo": {"hasNextPage": len(found) > FIRST},
    }
    return Response(orjson.dumps({"data": {"products": connection}}), media_type="application/json")


app = Starlette(routes=[Route("/graphql", page, methods=["POST"])])
