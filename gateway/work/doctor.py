"""Checks what must hold on a live database, and mends what can be mended safely."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from functools import partial

from portico.resolvers.accounts import transfer_checks, transfer_jobs, transfers
from portico.resolvers.catalog import category_jobs, product_jobs
from portico.resolvers.catalog.category_lineage import LineageUnsettled, refresh_subtree
from portico.resolvers.comments import checks as comment_checks
from portico.resolvers.comments import discussion_checks
from portico.resolvers.content import checks as content_checks
from portico.resolvers.content import photo_checks, revisions
from portico.resolvers.documents import Database, Document
from portico.resolvers.errors import DomainError
from portico.resolvers.server_time import server_time
from portico.resolvers.shop import cart_checks, order_checks, stock_checks
from portico.resolvers.writes.sweeps import DAMAGED, SweepFailed, told

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

    async def mend(self) -> bool:
        """Whether it could be mended. Raises nothing that damaged documents are the cause of."""
        if self.repair is None:
            return False
        try:
            await self.repair()
        except (*DAMAGED, DomainError, LineageUnsettled, SweepFailed):
            return False
        return True


@dataclass(frozen=True)
class Invariant:
    """What must hold, and how to find where it does not."""

    name: str
    check: Callable[[Database], AsyncIterator[Problem]]

    async def problems(self, db: Database) -> AsyncIterator[Problem]:
        """Where it does not hold. A check that comes to its end by a document that nobody foresaw is a problem, too."""
        try:
            async for problem in self.check(db):
                yield problem
        except DAMAGED as error:
            yield Problem("the check", f"it could not go on: {told(error)}")


async def _mend_now(mend: Callable[..., Awaitable[None]], db: Database, wrong: Document) -> None:
    await mend(db, wrong, now=await server_time(db))


def _named(kind: str, wrong: Document, name: str) -> str:
    """What people know it by, where it is not so damaged that it has no name."""
    return f"{kind} {wrong.get(name, wrong['_id'])}"


async def _categories(db: Database) -> AsyncIterator[Problem]:
    async for wrong in category_jobs.find_wrong_lineages(db):
        mendable = wrong["problem"] == category_jobs.OUT_OF_DATE
        repair = partial(refresh_subtree, db, wrong["_id"]) if mendable else None
        yield Problem(_named("category", wrong, "slug"), wrong["problem"], repair)


async def _products(db: Database) -> AsyncIterator[Problem]:
    async for wrong in product_jobs.find_wrong_products(db):
        mend = partial(product_jobs.mend_product, db, wrong)
        yield Problem(_named("product", wrong, "sku"), wrong["problem"], mend if wrong.get("repair") else None)


async def _stock(db: Database) -> AsyncIterator[Problem]:
    async for wrong in stock_checks.find_wrong_stocks(db):
        mend = partial(_mend_now, stock_checks.mend_stock, db, wrong)
        is_open = wrong["problem"] == stock_checks.RESTLESS
        yield Problem(f"stock of {wrong['_id']}", wrong["problem"], mend if wrong.get("repair") else None, is_open)


async def _lines(db: Database) -> AsyncIterator[Problem]:
    async for wrong in stock_checks.find_lines_without_stock(db):
        yield Problem(f"cart {wrong['_id']}", wrong["problem"])


async def _carts(db: Database) -> AsyncIterator[Problem]:
    async for wrong in cart_checks.find_wrong_carts(db):
        mend = partial(_mend_now, cart_checks.mend_cart, db, wrong)
        yield Problem(f"cart {wrong['_id']}", wrong["problem"], None if wrong.get("repair") is None else mend)


async def _orders(db: Database) -> AsyncIterator[Problem]:
    async for wrong in order_checks.find_wrong_orders(db):
        yield Problem(f"order {wrong['_id']}", wrong["problem"])


async def _transfers(db: Database) -> AsyncIterator[Problem]:
    async for wrong in transfer_checks.find_wrong_transfers(db):
        yield Problem(f"transfer {wrong['_id']}", wrong["problem"])


async def _accounts(db: Database) -> AsyncIterator[Problem]:
    async for wrong in transfer_jobs.find_wrong_accounts(db):
        called_off = wrong.get("transfer")
        repair = None if called_off is None else partial(transfers.let_go, db, called_off, wrong["_id"])
        yield Problem(f"account {wrong['_id']} ({wrong['name']})", wrong["problem"], repair)


async def _photos(db: Database) -> AsyncIterator[Problem]:
    async for wrong in photo_checks.find_broken_photos(db):
        yield Problem(f"photo {wrong['_id']} ({wrong.get('slug')})", wrong["problem"])


async def _assets(db: Database) -> AsyncIterator[Problem]:
    async for stray in photo_checks.find_stray_files(db):
        mend = partial(photo_checks.mend_stray_file, db, stray)
        is_known = stray["problem"] in {photo_checks.NO_PHOTO, photo_checks.NO_FILE}
        yield Problem(f"file {stray['_id']}", stray["problem"], mend if is_known else None)


async def _content(db: Database) -> AsyncIterator[Problem]:
    async for wrong in content_checks.find_wrong_nodes(db):
        mend = partial(content_checks.mend_node, db, wrong)
        yield Problem(_named("content", wrong, "slug"), wrong["problem"], mend if wrong.get("repair") else None)


async def _revisions(db: Database) -> AsyncIterator[Problem]:
    async for wrong in content_checks.find_missing_revisions(db):
        node = wrong.get("node", {"_id": wrong["_id"]})
        mend = partial(content_checks.mend_revision, db, node)
        yield Problem(_named("content", node, "slug"), wrong["problem"], mend if wrong.get("is_missing") else None)
    async for node_id in content_checks.find_stray_revisions(db):
        yield Problem(f"revisions of {node_id}", "there is no such node", partial(revisions.forget, db, node_id))


async def _discussions(db: Database) -> AsyncIterator[Problem]:
    async for wrong in comment_checks.find_wrong_discussions(db):
        mend = partial(_mend_now, comment_checks.mend_discussion, db, wrong)
        yield Problem(f"discussion {wrong['_id']}", wrong["problem"], mend if wrong.get("repair") else None)


async def _subjects(db: Database) -> AsyncIterator[Problem]:
    async for stray in discussion_checks.find_stray_discussions(db):
        remove = partial(discussion_checks.remove_stray, db, stray)
        yield Problem(f"discussion {stray['_id']}", stray["problem"], remove if "is_stray" in stray else None)


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
    Invariant("Every unit in a live cart is one of a stock.", _lines),
    Invariant("Every cart holds its units while it is live, is found by its job, and has its order once paid.", _carts),
    Invariant(
        "Every order's total is that of its lines, which are of a stock, and what its account has paid.", _orders
    ),
    Invariant("Every photo has all its bytes, and they are those of its checksum.", _photos),
    Invariant("Every file, and every chunk of one, is a photo's.", _assets),
    Invariant("Every balance is what was deposited and what came and went, and none is negative.", _accounts),
    Invariant("Every transfer is between accounts that exist, and what it has paid for has its order.", _transfers),
    Invariant("Every content node stands by itself at a path, in a section that holds its type.", _content),
    Invariant("Every page's and entry's text is in its revisions, and no revision is without its node.", _revisions),
    Invariant(
        "Every discussion counts the comments that it lists, every comment its replies; each reply has its parent.",
        _discussions,
    ),
    Invariant("Every discussion has its subject, and every comment its discussion.", _subjects),
)
