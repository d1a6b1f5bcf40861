"""Batched reads of comments by reference and by slug, and of pages of comments for many parents."""

from __future__ import annotations

from portico.loaders.declaring import PageLoader, batched, in_order
from portico.resolvers.comments import storages

by_ref = batched(storages.find_comments)
by_link = batched(storages.find_by_links)
pages: PageLoader = in_order(storages.find_comment_pages)
