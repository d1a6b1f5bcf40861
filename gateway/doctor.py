"""Checks what must hold on a live database, and mends what can be mended safely."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from functools import partial

from resolvers import (
    category_jobs,
    comment_checks,
    content_checks,
    photo_checks,
    product_jobs,
    revisions,
    stock_checks,
    transfer_jobs,
    transfers,
)
from resolvers.category_lineage import refresh_subtree
from resolvers.documents import Database

from .clock import SystemClock

Repair = Callable[[], Awaitable[None]]


@dataclass(frozen=True)
class Problem:
    """Something that does not hold. `repair` mends it; None where nobody can know what is right.

    One that `is_open` may hold: it could not be told while others changed it.
    """

    subject: str
    text: str
    repair: Repair | None = None
    is_open: bool = False


@dataclass(frozen=True)
class Invariant:
    """What must hold, and how to find where it does not."""

    name: str
    check: Callable[[Database], AsyncIterator[Problem]]


async def _categories(db: Database) -> AsyncIterator[Problem]:
    async for wrong in category_jobs.find_wrong_lineages(db):
        mendable = wrong["problem"] == category_jobs.OUT_OF_DATE
        repair = partial(refresh_subtree, db, wrong["_id"]) if mendable else None
        yield Problem(f"category {wrong['slug']}", wrong["problem"], repair)


async def _products(db: Database) -> AsyncIterator[Problem]:
    async for wrong in product_jobs.find_wrong_products(db):
        yield Problem(f"product {wrong['sku']}", wrong["problem"], partial(product_jobs.mend_product, db, wrong))


async def _stock(db: Database) -> AsyncIterator[Problem]:
    async for wrong in stock_checks.find_wrong_stocks(db):
        mend = partial(stock_checks.mend_stock, db, wrong, now=SystemClock().now())
        repair = None if wrong["repair"] is None else mend
        is_open = wrong["problem"] == stock_checks.RESTLESS
        yield Problem(f"stock of {wrong['_id']}", wrong["problem"], repair, is_open)


async def _carts(db: Database) -> AsyncIterator[Problem]:
    async for wrong in stock_checks.find_lines_without_stock(db):
        yield Problem(f"cart {wrong['_id']}", f"it holds units of {wrong['sku']}, which has no stock")


async def _accounts(db: Database) -> AsyncIterator[Problem]:
    async for wrong in transfer_jobs.find_wrong_accounts(db):
        called_off = wrong.get("transfer")
        repair = None if called_off is None else partial(transfers.let_go, db, called_off, wrong["_id"])
        yield Problem(f"account {wrong['_id']} ({wrong['name']})", wrong["problem"], repair)


async def _photos(db: Database) -> AsyncIterator[Problem]:
    async for wrong in photo_checks.find_broken_photos(db):
        yield Problem(f"photo {wrong['_id']} ({wrong['slug']})", wrong["problem"])


async def _assets(db: Database) -> AsyncIterator[Problem]:
    async for stray in photo_checks.find_stray_files(db):
        yield Problem(f"file {stray['_id']}", stray["problem"], partial(photo_checks.mend_stray_file, db, stray))


async def _content(db: Database) -> AsyncIterator[Problem]:
    async for wrong in content_checks.find_wrong_nodes(db):
        mend = partial(content_checks.mend_node, db, wrong)
        yield Problem(f"content {wrong['slug']}", wrong["problem"], None if wrong["repair"] is None else mend)


async def _revisions(db: Database) -> AsyncIterator[Problem]:
    async for wrong in content_checks.find_missing_revisions(db):
        mend = partial(content_checks.mend_revision, db, wrong["node"])
        text = "its text is not in its revisions"
        yield Problem(f"content {wrong['node']['slug']}", text, mend if wrong["is_missing"] else None)
    async for node_id in content_checks.find_stray_revisions(db):
        yield Problem(f"revisions of {node_id}", "there is no such node", partial(revisions.forget, db, node_id))


async def _discussions(db: Database) -> AsyncIterator[Problem]:
    async for wrong in comment_checks.find_wrong_discussions(db):
        mend = partial(comment_checks.mend_discussion, db, wrong, now=SystemClock().now())
        yield Problem(f"discussion {wrong['_id']}", wrong["problem"], None if wrong["repair"] is None else mend)


INVARIANTS: tuple[Invariant, ...] = (
    Invariant(
        "Every stored ancestor list equals the chain of parents, with their present names and slugs.", _categories
    ),
    Invariant("Every product's terms and savings follow from its fields, and its categories exist.", _products),
    Invariant(
        "Every SKU's available, reserved and sold units are what was restocked; reserved is what live carts hold, and "
        "sold what orders say.",
        _stock,
    ),
    Invariant("Every unit in a live cart is one of a stock.", _carts),
    Invariant("Every photo has all its bytes, and they are those of its checksum.", _photos),
    Invariant("Every file, and every chunk of one, is a photo's.", _assets),
    Invariant("Every balance is what was deposited and what came and went, and none is negative.", _accounts),
    Invariant("Every content node stands by itself at a path, in a section that holds its type.", _content),
    Invariant("Every page's and entry's text is in its revisions, and no revision is without its node.", _revisions),
    Invariant(
        "Every discussion counts the comments that it lists, every comment its replies; each reply has its parent.",
        _discussions,
    ),
)
