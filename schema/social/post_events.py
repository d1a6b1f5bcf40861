"""The subscriptions to a post: its new comments, and the votes in a poll."""

from collections.abc import AsyncIterator
from typing import Annotated, Any

import strawberry

from portico.resolvers.changes import Event
from portico.resolvers.documents import Document
from portico.resolvers.errors import NotFound
from portico.resolvers.social import comment_reads, post_events
from portico.schema.context import Context, Info
from portico.schema.inputs import described
from portico.schema.reading import find_visible
from portico.schema.subscriptions import occurrences, read_shared, states

from .posts import POST, PollPost, PostComment, below


async def _show_comment(context: Context, event: Event) -> Document | None:
    """Returns the comment, or None if the caller does not see it. Raises NotFound if they no longer see the post."""
    post, is_seen = await read_shared(context, event, POST, event.key.post)
    if post is None or not is_seen:
        raise NotFound(POST.name, str(event.key.post))
    comment = await comment_reads.find_posted(context.db, post, event.key.at, viewer=context.subject)
    return None if comment is None else below(post, [comment])[0]


class _ShowComment:
    """Shows the comment of an event to one subscriber.

    Two subscriptions of members share no answers: a kept answer could be older than a block.
    """

    async def __call__(self, context: Context, event: Event) -> Document | None:
        return await _show_comment(context, event)


async def _show_poll(context: Context, event: Event) -> Any:
    """Returns the poll. Raises NotFound if the caller no longer sees it."""
    post, is_seen = await read_shared(context, event, POST, event.key)
    if post is None or not is_seen:
        raise NotFound(POST.name, str(event.key))
    return post


@strawberry.type
class PostSubscription:
    @strawberry.subscription(
        description="Delivers each new comment of the post that you see, from now on. It ends if you no longer see the "
        "post."
    )
    async def post_commented(
        self, info: Info, post_id: Annotated[strawberry.ID, described("The post.")]
    ) -> AsyncIterator[PostComment]:
        context = info.context
        post = await find_visible(context, POST.name, post_id)
        show = _show_comment if context.subject is None else _ShowComment()
        listened: AsyncIterator[PostComment] = await occurrences(context, post_events.comments_of(post["_id"]), show)
        return listened

    @strawberry.subscription(
        description="Delivers the poll whenever somebody has voted. The last state always arrives; a slow client can "
        "miss states in between. It ends if you no longer see the post."
    )
    async def poll_voted(
        self, info: Info, post_id: Annotated[strawberry.ID, described("The poll.")]
    ) -> AsyncIterator[PollPost]:
        post = await find_visible(info.context, POST.name, post_id)
        if post["type"] != "poll":
            raise NotFound(POST.name, str(post["_id"]), "The post is not a poll.")
        topic = post_events.votes_of(post["_id"])
        listened: AsyncIterator[PollPost] = await states(info.context, topic, _show_poll, order=_no_order)
        return listened


def _no_order(_poll: Any) -> None:
    """Votes have no version: each state is read after its event."""
