"""Batched reads of content nodes by id and by path, of their slugs, and of pages of nodes."""

from __future__ import annotations

from portico.loaders.declaring import batched, in_order
from portico.resolvers.content import nodes

by_id = batched(nodes.find_by_ids)
by_path = batched(nodes.find_by_paths)
slugs = batched(nodes.find_slugs)
with_children = batched(nodes.find_with_children)
pages = in_order(nodes.find_content_pages)
