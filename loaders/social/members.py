"""Batched reads of members by subject, and of pages of members."""

from __future__ import annotations

from portico.loaders.declaring import PageLoader, by_key, in_order
from portico.resolvers.social import member_lists
from portico.resolvers.social.members import MEMBERS

by_id = by_key(MEMBERS)
pages: PageLoader = in_order(member_lists.find_pages)
