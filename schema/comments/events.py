"""The subscription to new comments."""

from collections.abc import AsyncIterator
from typing import Annotated

import strawberry

from portico.resolvers.changes import Event
from portico.resolvers.comments.comments import PublicComment
from portico.resolvers.comments.events import comments_of
from portico.resolvers.errors import NotFound
from portico.schema.context import Context, Info
from portico.schema.inputs import described
from portico.schema.kinds import Kind
from portico.schema.subscriptions import occurrences, read_shared

from .discussions import COMMENT, DISCUSSION, Comment, require_discussion


async def _show(context: Context, event: Event) -> PublicComment | None:
    """Returns the comment, or None if it is gone. Raises NotFound if the caller can no longer see the discussion."""
    comment, is_seen = await read_shared(context, event, COMMENT, event.key)
    if comment is not None and not is_seen:
        raise NotFound(DISCUSSION.name, str(event.key.discussion))
    return comment


@strawberry.type
class CommentSubscription:
    @strawberry.subscription(description="Delivers each new comment of the discussion, from now on.")
    async def comment_posted(
        self, info: Info, discussion_id: Annotated[strawberry.ID, described("The discussion.")]
    ) -> AsyncIterator[Comment]:
        discussion = await require_discussion(info.context, Kind.key_in(info.context, DISCUSSION.name, discussion_id))
        listened: AsyncIterator[Comment] = await occurrences(info.context, comments_of(discussion["_id"]), _show)
        return listened
