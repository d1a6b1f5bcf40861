"""Batched reads of members by subject, and of pages of members."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from portico.loaders import declaring
from portico.loaders.batching import BatchRead
from portico.resolvers.documents import Database, Projection
from portico.resolvers.paging import Key, Listing, Page
from portico.resolvers.social import member_lists
from portico.resolvers.social.member_lists import MemberListing
from portico.resolvers.social.members import MEMBERS

by_id = declaring.by_key(MEMBERS)


def pages(db: Database, *, first: int, after: Key | None, projection: Projection | None) -> BatchRead[Listing, Page]:
    """Makes the batched read of pages of members."""

    async def read(listings: Sequence[Listing]) -> Mapping[Listing, Page]:
        wanted = cast("Sequence[MemberListing]", listings)
        found = await member_lists.find_pages(db, wanted, first=first, after=after, projection=projection)
        return dict(zip(listings, found, strict=True))

    return read
