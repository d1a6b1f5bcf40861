"""Batched reads of members by subject, of pages of members, and of what a viewer knows of them."""

from __future__ import annotations

from portico.loaders.declaring import PageLoader, batched, by_key, in_order
from portico.resolvers.social import follower_counts, member_lists, relations
from portico.resolvers.social.members import MEMBERS

by_id = by_key(MEMBERS)
pages: PageLoader = in_order(member_lists.find_pages)
# What the viewer has decided about members, and how many of their followers the viewer sees.
decided = batched(relations.find_decided)
counts_of_followers = batched(follower_counts.count_followers)
