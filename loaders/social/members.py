"""Batched reads of members by subject, of pages of members, and of what a viewer knows of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from portico.loaders.declaring import PageLoader, batched, by_key, each, in_order
from portico.resolvers import keyed
from portico.resolvers.documents import Database
from portico.resolvers.paging import Listing, Page
from portico.resolvers.social import follower_counts, member_lists, member_search, relations
from portico.resolvers.social.member_lists import MemberListing
from portico.resolvers.social.members import MEMBERS

by_id = by_key(MEMBERS)


async def _find_pages(db: Database, listings: Sequence[Listing], **given: Any) -> Sequence[Page]:
    """Returns pages of lists of the social graph, and of all members."""
    related = [listing for listing in listings if isinstance(listing, MemberListing)]
    others = [listing for listing in listings if not isinstance(listing, MemberListing)]
    found: dict[Listing, Page] = {}
    if related:
        found |= zip(related, await member_lists.find_pages(db, related, **given), strict=True)
    if others:
        found |= zip(others, await keyed.find_pages(db, MEMBERS, others, **given), strict=True)
    return [found[listing] for listing in listings]


pages: PageLoader = in_order(_find_pages)
# What the viewer has decided about members, and how many of their followers the viewer sees.
decided = batched(relations.find_decided)
counts_of_followers = batched(follower_counts.count_followers)
# The subjects of the members with a text in their names.
keys_by_name = each(member_search.find_by_name)
