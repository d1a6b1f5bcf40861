"""Batched reads of posts, of their comments and of their votes."""

from __future__ import annotations

from portico.loaders.batching import BatchRead
from portico.loaders.declaring import batched, by_key, each
from portico.resolvers.documents import Database, DocumentId, Projection
from portico.resolvers.social import comment_reads, hidden_comments, hidden_posts, post_lists, vote_reads
from portico.resolvers.social.posts import POSTS, PostDocument
from portico.resolvers.social.visibility import primary

comment_pages = batched(comment_reads.find_comment_pages)
# The comments that the author of posts does not see because of a block.
hidden_comment_pages = batched(hidden_comments.find_hidden)
latest_comments = batched(comment_reads.find_latest)
votes = batched(vote_reads.find_votes)
pages = batched(post_lists.find_pages)
# The posts on a wall that its owner does not see because of a block.
hidden_pages = each(hidden_posts.find_page)
_by_id = by_key(POSTS)


def by_id(db: Database, projection: Projection | None) -> BatchRead[DocumentId, PostDocument]:
    """Makes the read by id, from the primary: a deletion is seen as soon as it is acknowledged."""
    return _by_id(primary(db), projection)
