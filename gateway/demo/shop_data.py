"""The demo's own data: a small record and film shop, which can be multiplied for load, its stock, and two accounts."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import orjson

from portico.resolvers.accounts import accounts, transfers
from portico.resolvers.documents import Database
from portico.resolvers.shop import stock

from . import demo_token

FOLDER = Path(__file__).parent / "shop"
CATEGORIES = FOLDER / "categories.jsonl"
PRODUCTS = FOLDER / "products.jsonl"
# The demo's viewer pays from these; minor units of US dollars.
ACCOUNTS = {"Everyday": 50_000, "Savings": 250_000}
_AT_ONCE = 25
# Whatever begins so is done once, however often the demo is started.
_OPERATION = "k-demo."


def multiplied(times: int, folder: Path) -> list[Path]:
    """The product files of a demo so many times as large. Copies have SKUs, titles and prices of their own."""
    if times == 1:
        return [PRODUCTS]
    path = folder / "demo-products.jsonl.gz"
    with gzip.open(path, "wb", compresslevel=1) as out:
        for copy in range(1, times):
            for product in _products():
                out.write(orjson.dumps(_copy(product, copy)) + b"\n")
    return [PRODUCTS, path]


def _products() -> Iterator[dict[str, Any]]:
    with PRODUCTS.open("rb") as lines:
        yield from (orjson.loads(line) for line in lines)


def _copy(product: dict[str, Any], number: int) -> dict[str, Any]:
    pricing = {
        name: {**price, "amount": price["amount"] + number % 7 * 100} for name, price in product["pricing"].items()
    }
    return {
        **product,
        "sku": f"{product['sku']}-{number}",
        "title": f"{product['title']} ({number})",
        "pricing": pricing,
    }


async def stock_up(db: Database, *, now: datetime) -> int:
    """Restocks the shop's own products, of which a few are sold out. Returns how many have units. May be repeated."""
    units = [(product["sku"], _units(number)) for number, product in enumerate(_products())]
    stocked = [(sku, count) for sku, count in units if count]
    for start in range(0, len(stocked), _AT_ONCE):
        some = stocked[start : start + _AT_ONCE]
        await asyncio.gather(
            *(
                stock.restock(db, sku=sku, quantity=count, now=now, operation_id=f"{_OPERATION}{sku}")
                for sku, count in some
            )
        )
    return len(stocked)


def _units(number: int) -> int:
    """Every twelfth product is sold out."""
    return 0 if (number + 1) % 12 == 0 else 10 + number * 7 % 20


async def open_accounts(db: Database, *, now: datetime) -> int:
    """Opens accounts with money in them for the demo's viewer. Returns how many. May be repeated."""
    for name, amount in ACCOUNTS.items():
        operation_id = f"{_OPERATION}{name}"
        opened = await accounts.open_account(
            db, owner=demo_token.SUBJECT, name=name, currency="USD", now=now, operation_id=operation_id
        )
        await transfers.deposit(
            db, account_id=opened["_id"], amount=amount, currency="USD", now=now, operation_id=operation_id
        )
    return len(ACCOUNTS)
