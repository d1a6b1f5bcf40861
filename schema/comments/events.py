"""Comments as they are posted."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated, cast

import strawberry

from portico.resolvers.changes import Event
from portico.resolvers.comments.events import comments_of
from portico.resolvers.documents import Document
from portico.resolvers.errors import NotFound
from portico.schema.context import Context, Info
from portico.schema.inputs import described
from portico.schema.nodes import key_in
from portico.schema.subscriptions import occurrences, read_shared

from .discussions import COMMENT, DISCUSSION, Comment, require_discussion


async def _show(context: Context, event: Event) -> Document | None:
    """The comment; None where it is gone. Raises NotFound where the caller may see the discussion no more."""
    comment, is_seen = await read_shared(context, event, COMMENT, event.key)
    if comment is not None and not is_seen:
        raise NotFound(DISCUSSION.name, str(event.key.discussion))
    return comment


@strawberry.type
class CommentSubscription:
    @strawberry.subscription(description="Each comment as it is posted, from now on.")
    async def comment_posted(
        self, info: Info, discussion_id: Annotated[strawberry.ID, described("The discussion.")]
    ) -> AsyncIterator[Comment]:
        discussion = await require_discussion(info.context, key_in(DISCUSSION.name, discussion_id))
        listened = await occurrences(info.context, comments_of(discussion["_id"]), _show)
        return cast("AsyncIterator[Comment]", listened)
