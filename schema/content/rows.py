"""Written nodes as rows of the lists that show them, for payloads."""

from portico.resolvers.content import nodes as content
from portico.resolvers.content.nodes import ENTRY, NODES, SECTION
from portico.resolvers.content.rules import comparable_tag
from portico.resolvers.paging import Listing
from portico.schema.connections import Edge, edge_of
from portico.schema.context import Context
from portico.schema.fields import Source

from .drafts import sees_until
from .types import BlogEntry, ContentEdge

CONTENT_EDGE = (
    "The node as a row of `children` of its section; at the root, a section as a row of `rootSections`, and a page as "
    "one of `rootContent`."
)

TAGGED_EDGE = "The node as a row of `contentByTag` with this tag; null if it does not have the tag."


def content_edge_of(context: Context, node: Source) -> ContentEdge | None:
    """Returns the node as a row among the children of its section, or at the root among the sections or all nodes."""
    if node["parent"] is None and node["type"] == SECTION:
        return _edge(context, content.root_sections(sees_until(context)), node)
    return _edge(context, content.children_of(node["parent"], sees_until(context)), node)


def entry_edge_of(context: Context, node: Source) -> Edge[BlogEntry] | None:
    """Returns a published entry as a row among the entries of its blog."""
    published = node["detail"].get("publish_on") if node["type"] == ENTRY else None
    if published is None or published > context.compared_now:
        return None
    return edge_of(context, NODES.name, content.entries_of(node["parent"], context.compared_now), node)


def tagged_edge_of(context: Context, node: Source, tag: str) -> ContentEdge | None:
    """Returns the node as a row among those with this tag; None if it does not have it."""
    wanted = comparable_tag(tag)
    return _edge(context, content.tagged(wanted, sees_until(context)), node) if wanted in node["tags"] else None


def _edge(context: Context, listing: Listing, node: Source) -> ContentEdge:
    return ContentEdge(**vars(edge_of(context, NODES.name, listing, node)))
