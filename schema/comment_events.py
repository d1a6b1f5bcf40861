"""Comments as they are posted."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated, cast

import strawberry

from resolvers.changes import Event
from resolvers.documents import Document
from resolvers.errors import NotFound
from resolvers.events import comments_of

from .context import Context, Info
from .discussions import COMMENT, DISCUSSION, Comment, require_discussion
from .inputs import described
from .nodes import key_in
from .subscriptions import occurrences, read_shared


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
