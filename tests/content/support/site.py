"""Content for tests: valid inputs, and nodes that mutations create."""

from __future__ import annotations

import itertools
from typing import Any

from tests.support.harness import GatewayClient

Given = dict[str, Any]
PAST, FUTURE = "2020-01-01T00:00:00.000Z", "2999-01-01T00:00:00.000Z"
_numbers = itertools.count(1)

AT = """
query ($path: String!) {
  content(path: $path) {
    __typename id slug path title tags nonce created updated author { userId name } parent { path }
    ... on Page { text html } ... on BlogEntry { text html publishOn } ... on Section { kind }
  }
}
"""
REVISIONS = """
query ($id: ID!, $after: String) {
  node(id: $id) { ... on Page { ...Kept } ... on BlogEntry { ...Kept } }
}
fragment Kept on ContentNode {
  nonce
  ... on Page { revisions(first: 100, after: $after) { ...All } }
  ... on BlogEntry { revisions(first: 100, after: $after) { ...All } }
}
fragment All on RevisionConnection { nodes { id nonce text created author { userId name } } }
"""


def section_input(kind: str = "FOLDER", **fields: Any) -> Given:
    """A valid `CreateSectionInput`."""
    number = next(_numbers)
    return {"kind": kind, "slug": f"section-{number}", "title": f"Section {number}", **fields}


def own(node: Given, **fields: Any) -> Given:
    """The input of an edit or a deletion of this node."""
    return {"id": node["id"], "nonce": node["nonce"], **fields}


def page_input(**fields: Any) -> Given:
    """A valid `CreatePageInput`."""
    number = next(_numbers)
    return {"slug": f"page-{number}", "title": f"Page {number}", "text": "One.\n\nTwo.\n", **fields}


def entry_input(blog: Given, **fields: Any) -> Given:
    """A valid `CreateBlogEntryInput` for a published entry of this blog."""
    return {**page_input(), "blogId": blog["id"], "publishOn": PAST, **fields}


async def _create(gateway: GatewayClient, mutation: str, given: Given, **options: Any) -> Given:
    found: Given = (await gateway.payload(mutation, given, **options))["content"]
    return found


async def create_section(gateway: GatewayClient, kind: str = "FOLDER", **fields: Any) -> Given:
    return await _create(gateway, "createSection", section_input(kind, **fields))


async def create_page(gateway: GatewayClient, **fields: Any) -> Given:
    return await _create(gateway, "createPage", page_input(**fields))


async def create_entry(gateway: GatewayClient, blog: Given, **fields: Any) -> Given:
    return await _create(gateway, "createBlogEntry", entry_input(blog, **fields))


async def at(gateway: GatewayClient, path: str, **options: Any) -> Any:
    """Returns the node at a path, as the caller sees it."""
    return (await gateway.data(AT, {"path": path}, **options))["content"]
