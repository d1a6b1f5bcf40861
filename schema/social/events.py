"""The subscription to the viewer's news feed."""

from collections.abc import AsyncIterator

import strawberry

from portico.resolvers.changes import Event
from portico.resolvers.documents import Document
from portico.resolvers.social import deliveries
from portico.resolvers.social.deliveries import DeliveryReads
from portico.schema.context import Context, Info
from portico.schema.subscriptions import occurrences

from .posts import Post


class _ShowPost:
    """Shows the post of an event to one subscriber, by a read that begins after the event.

    Two subscriptions share no answers: a kept answer could be older than a block.
    """

    def __init__(self) -> None:
        self._delivered = deliveries.Delivered()

    async def __call__(self, context: Context, event: Event) -> Document | None:
        member = context.require_caller().subject
        if self._delivered.is_repeated(event):
            return None
        return await context.resources.of(DeliveryReads).read(context.db, member, event.key)


@strawberry.type
class NewsFeedSubscription:
    @strawberry.subscription(
        description="Delivers each post by others that reaches the viewer's news feed, from now on, if the viewer sees "
        "it then."
    )
    async def news_feed_posted(self, info: Info) -> AsyncIterator[Post]:
        topic = deliveries.news_of(info.context.require_caller().subject)
        listened: AsyncIterator[Post] = await occurrences(
            info.context, topic, _ShowPost(), also=(deliveries.MERGED_POSTS,)
        )
        return listened
