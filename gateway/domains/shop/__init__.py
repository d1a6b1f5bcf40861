"""The shop: stock, carts, checkout and orders."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

from portico.resolvers.attachments import Attachments
from portico.resolvers.declarations import Domain, Job, Resources, Service
from portico.resolvers.documents import Database
from portico.resolvers.problems import Invariant
from portico.resolvers.shop import (
    bought_together,
    cancelling,
    cart_checks,
    cart_jobs,
    notices,
    order_checks,
    payment_checks,
    stock_checks,
    stock_jobs,
)
from portico.resolvers.shop.carts import CARTS
from portico.resolvers.shop.events import SOURCES
from portico.resolvers.shop.orders import ORDERS
from portico.resolvers.shop.payments import PaymentMethods
from portico.resolvers.shop.settings import ShopSettings
from portico.resolvers.shop.stock import STOCK
from portico.resolvers.shop.stock_attachment import StockAttachment
from portico.resolvers.writes.settler import Answering, Settler
from portico.schema.shop import carts, orders, stock
from portico.schema.shop.events import ShopSubscription

from . import demo
from .payments import methods as payment_methods


@contextlib.asynccontextmanager
async def _payments_of(resources: Resources, _db: Database) -> AsyncIterator[PaymentMethods]:
    async with payment_methods.opened(resources.of(ShopSettings), Answering(resources.of(Settler))) as methods:
        yield methods


async def _finish_stock(run: Job.Run) -> int:
    return await Job.in_sequence(
        partial(cart_jobs.finish_moves, run.db, now=run.now),
        partial(stock_jobs.finish_changes, run.db, run.resources.of(Attachments), now=run.now),
    )


async def _expire_carts(run: Job.Run) -> int:
    return await Job.in_sequence(
        partial(cart_jobs.finish_expiries, run.db, now=run.now),
        partial(cart_jobs.expire_idle, run.db, now=run.now),
    )


async def _delete_carts(run: Job.Run) -> int:
    kept = run.resources.of(ShopSettings).cart_retention
    return await cart_jobs.delete_old(run.db, now=run.now, kept=kept)


async def _finish_checkouts(run: Job.Run) -> int:
    return await Job.in_sequence(
        partial(cart_jobs.finish_checkouts, run.db, run.resources.of(PaymentMethods), now=run.now),
        partial(cart_jobs.finish_orders, run.db, now=run.now),
    )


async def _finish_orders(run: Job.Run) -> int:
    return await cancelling.finish_cancellations(run.db, run.resources.of(PaymentMethods), now=run.now)


async def _relate_products(run: Job.Run) -> int:
    return await bought_together.relate_products(run.db)


DOMAIN = Domain(
    name="shop",
    about="Stock, carts, checkout and orders.",
    needs=("catalog", "accounts"),
    collections=(STOCK, CARTS, ORDERS),
    attachments=(StockAttachment(),),
    settings=ShopSettings,
    services=(Service(PaymentMethods, _payments_of),),
    jobs=(
        Job("finish-stock", _finish_stock),
        Job("expire-carts", _expire_carts),
        Job("delete-carts", _delete_carts),
        Job("finish-checkouts", _finish_checkouts),
        Job("finish-orders", _finish_orders),
        Job("relate-products", _relate_products),
    ),
    invariants=(
        Invariant(
            "Every SKU's available, reserved and sold units add up to what was restocked; reserved units are in live "
            "carts, and sold units in orders that are not cancelled.",
            stock_checks.find_wrong_stocks,
        ),
        Invariant("Every unit in a live cart belongs to a stock.", stock_checks.find_lines_without_stock),
        Invariant(
            "Every live cart holds its units, every cart is found by its job, and every paid cart has its order.",
            cart_checks.find_wrong_carts,
        ),
        Invariant(
            "Every order's total equals its lines and its payment by account, its lines belong to a stock, and a "
            "cancelled order gives back all units and the money, once.",
            order_checks.find_wrong_orders,
        ),
        Invariant(
            "Every transfer that has paid for a checkout has its order, and every refund its cancelled order.",
            payment_checks.find_payments_without_order,
        ),
    ),
    events=SOURCES,
    notifications=notices.SOURCES,
    kinds=(carts.CART, orders.ORDER),
    pages=(orders.PAGES,),
    queries=(carts.CartQuery, orders.OrderQuery),
    mutations=(stock.StockMutation, carts.CartMutation, orders.OrderMutation),
    subscriptions=(ShopSubscription,),
    extensions={
        "Conflict": (carts.CartOfConflict,),
        "Product": (stock.ProductStock,),
        "Viewer": (carts.CartViewer, orders.OrderViewer),
    },
    demo=demo.load,
    examples=(
        ("Shop", Path(__file__).parent / "examples.graphql"),
        ("Shop, live", Path(__file__).parent / "live.graphql"),
    ),
)
