"""The stock as a part of its product, and how the product's deletion closes it."""

from __future__ import annotations

from datetime import datetime

from bson import ObjectId

from portico.resolvers.attachments import Attachments, Hosts
from portico.resolvers.catalog.products import KIND as PRODUCT
from portico.resolvers.catalog.refusals import ProductInUse
from portico.resolvers.documents import Database

from . import moves
from .stock import close, reopen, settle_closed, write_off


class StockAttachment:
    """The stock of a product. It refuses a deletion while carts hold units."""

    def belongs_to(self, kind: str) -> bool:
        return kind == PRODUCT

    async def close(self, db: Database, target: Attachments.Target, *, by: str, now: datetime) -> bool:
        """Closes the stock. Raises ProductInUse."""
        assert target.of is not None
        try:
            return await close(db, sku=target.key, product_id=target.of, deletion=by, now=now)
        except ProductInUse:
            # Its last units may be sold or given back already, see `moves`, and be concluded by now.
            if not await moves.conclude_decided(db, target.key, now=now):
                raise
        return await close(db, sku=target.key, product_id=target.of, deletion=by, now=now)

    async def settle(
        self,
        db: Database,
        hosts: Hosts,  # noqa: ARG002
        target: Attachments.Target,
        *,
        by: str,
        present: ObjectId | None,
        now: datetime,
    ) -> None:
        if target.of is None:
            await settle_closed(db, target.key, by, product_id=present, now=now)
        elif target.of == present:
            await reopen(db, target.key, by)
        else:
            await write_off(db, target.key, by, now=now)

    async def drop(self, db: Database, hosts: Hosts, target: Attachments.Target, *, by: str, now: datetime) -> None:  # noqa: ARG002
        await write_off(db, target.key, by, now=now)
