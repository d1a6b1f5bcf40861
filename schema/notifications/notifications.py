"""Notifications: the type, the list of the viewer, and what marks them as read."""

from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime
from enum import Enum
from typing import Annotated, Any

import strawberry

from portico.loaders.notifications import notifications as loaders
from portico.resolvers import errors
from portico.resolvers.notifications import marking
from portico.resolvers.notifications.notifications import (
    MAX_EXAMINED,
    NOTIFICATIONS,
    NotificationDocument,
    listing,
    member_of,
    received_by,
)
from portico.resolvers.notifying import OTHER
from portico.schema.authors import Author
from portico.schema.connections import Connection, Paged
from portico.schema.context import Caller, Context, Info, core
from portico.schema.errors import InvalidInput, NotFound
from portico.schema.fields import Source, as_type, computed, costs, reads, stored
from portico.schema.inputs import After, Before, First, Last, Span, described, idempotency_key
from portico.schema.kinds import Kind, KindDocument, Node, node_id
from portico.schema.mutations import mutation
from portico.schema.nodes import load, loader_of
from portico.schema.subscriptions import occurrences
from portico.schema.viewer import ShowsViewer

DEFAULT_NOTIFICATIONS = 20
# `unreadNotificationCount` counts up to this number.
MOST_UNREAD = 100
# The ids of one call.
MAX_IDS = 100
# What the count costs in addition: MongoDB reads up to 200 rows, and who of their authors the viewer does not see.
_COUNT = 50
# What a page costs besides its rows: it reads on after those that a block hides, up to 700 of them.
_ROUNDS = 1_000


def _parsed(text: str) -> str:
    member_of(text)
    return text


async def _unless_hidden(
    context: Context, found: Sequence[NotificationDocument]
) -> Sequence[NotificationDocument | None]:
    """Leaves out notifications of members whom the viewer does not see. It reads after the notifications."""
    viewer = context.subject
    if viewer is None:
        return [None for _ in found]
    authors = [one["by"]["id"] if "by" in one else None for one in found]
    others = [author for author in authors if author is not None]
    hidden = await context.served.domains.notifications.hidden(context.db, viewer, others)
    return [None if author in hidden else one for author, one in zip(authors, found, strict=True)]


NOTIFICATION: Kind[NotificationDocument] = Kind.of(
    "Notification",
    NOTIFICATIONS,
    parse=_parsed,
    read=loaders.by_key,
    reads=("of", "by.id"),
    visible_to=lambda one, context: one["of"] == context.subject,
    shown_to=_unless_hidden,
)
PAGES: Paged = Paged.of(NOTIFICATION, NOTIFICATIONS)


@strawberry.enum(description="Why there is a notification.")
class NotificationReason(Enum):
    """Why there is a notification. The served domains add their reasons: see `notification_reasons`."""

    OTHER = strawberry.enum_value(OTHER, description="Something of a domain that this gateway does not serve.")


@strawberry.type(description="Something that the viewer is notified of. Only the viewer sees it.")
class Notification(Node):
    id: strawberry.ID = node_id("Notification", "_id")
    actor: Author | None = stored(
        "by", description="Who did it; null if nobody did, or if the viewer may not know, as with gifts of characters."
    )
    created_at: datetime = stored(description="When it happened.")
    read_at: datetime | None = stored(description="When it was marked as read; null before.")
    node_id: strawberry.ID = computed(
        lambda one: Kind.encode_id(one["about"]["kind"], one["about"]["key"]),
        "about",
        description="The id of the object that it is about.",
    )

    @reads("reason", description="Why there is a notification: what has happened.")
    @staticmethod
    def reason(root: strawberry.Parent[Source], info: Info) -> NotificationReason:
        reason: Any = root["reason"]
        known = info.context.served.domains.notifications.reasons
        return reason if reason in known else NotificationReason(OTHER)

    @reads("about", description="The object that it is about; null if it is gone, or if you may not see it.")
    @staticmethod
    async def node(root: strawberry.Parent[Source], info: Info) -> Node | None:
        kinds: Mapping[str, Kind] = info.context.served.kinds
        kind = kinds.get(root["about"]["kind"])
        if kind is None:
            return None
        try:
            key = kind.parse(root["about"]["key"])
        except ValueError:
            return None
        found = await load(core(info), kind, key)
        return None if found is None else as_type(Node, KindDocument(kind, found))


@strawberry.type
class NotificationViewer:
    caller: strawberry.Private[Caller]

    @strawberry.field(
        metadata=costs(extra=_ROUNDS),
        description="What the viewer is notified of, latest first. Notifications of a member with whom the viewer has "
        "a block in either direction are left out.",
    )
    async def notifications(
        self,
        info: Info,
        first: First = DEFAULT_NOTIFICATIONS,
        after: After = None,
        last: Last = None,
        before: Before = None,
        unread_only: Annotated[bool, described("Only those that are not marked as read.")] = False,
    ) -> Connection[Notification] | None:
        found, span = listing(self.caller.subject, unread_only=unread_only), Span(first, after, last, before)
        return Connection(page=await PAGES.spanned(info, found, span, default=DEFAULT_NOTIFICATIONS))

    @strawberry.field(
        metadata=costs(extra=_COUNT),
        description=f"How many `notifications` are not marked as read, up to {MOST_UNREAD}, which stands for as many "
        f"or more. It examines the latest {MAX_EXAMINED}.",
    )
    async def unread_notification_count(self, info: Info) -> int | None:
        context = info.context
        loader = context.loader(
            "unread notifications",
            lambda: loaders.unread_counts(context.db, declared=context.served.domains.notifications),
        )
        count = await loader.load(self.caller.subject)
        return None if count is None else min(MOST_UNREAD, count)


@strawberry.input(one_of=True, description="Which notifications are read.")
class ReadNotificationsInput:
    ids: list[strawberry.ID] | None = strawberry.field(
        default=strawberry.UNSET, description=f"These notifications: 1 to {MAX_IDS}."
    )
    through: strawberry.ID | None = strawberry.field(
        default=strawberry.UNSET,
        description=f"This notification and all older ones, {marking.MAX_MARKED:,} at most. Use the first of the list "
        "to mark all.",
    )


@strawberry.input(description="Marks notifications as read.")
class MarkNotificationsReadInput:
    which: ReadNotificationsInput = strawberry.field(description="Which notifications.")
    idempotency_key: str | None = idempotency_key()


@strawberry.type(description="The marked notifications.")
class MarkNotificationsReadPayload(ShowsViewer):
    notifications: list[Notification] = strawberry.field(
        metadata=costs(length=MAX_IDS),
        description="The notifications that the input names. With `through`, it is the one, and older ones are marked, "
        "too.",
    )


MarkNotificationsReadResult = Annotated[
    MarkNotificationsReadPayload | NotFound | InvalidInput,
    strawberry.union("MarkNotificationsReadResult", description="The result of marking notifications as read."),
]


@strawberry.type
class NotificationMutation:
    @mutation(
        description="Marks notifications of the viewer as read. One that is marked already keeps its time. Requires a "
        "token."
    )
    async def mark_notifications_read(
        self, info: Info, input: MarkNotificationsReadInput
    ) -> MarkNotificationsReadResult | None:
        context, member = info.context, info.context.require_caller().subject
        now, which = context.operation["now"], input.which
        if isinstance(which.through, str):
            (last,) = await _required(context, [which.through])
            await marking.mark_read_through(context.db, member, last, now=now)
            named = [last]
        else:
            named = await _required(context, which.ids or ())
            await marking.mark_read(context.db, member, [one["_id"] for one in named], now=now)
        read = [{**one, "read_at": one.get("read_at") or now} for one in named]
        return MarkNotificationsReadPayload(notifications=as_type(list[Notification], read))


async def _required(context: Context, ids: Sequence[str]) -> list[NotificationDocument]:
    """Returns the viewer's notifications with these ids. Raises NotFound, InvalidInput."""
    if not 1 <= len(ids) <= MAX_IDS:
        code = errors.InvalidInput.TOO_MANY if ids else errors.InvalidInput.TOO_FEW
        text = f"There must be 1 to {MAX_IDS} ids; there are {len(ids)}."
        raise errors.InvalidInput(text, "which", "ids", code=code, least=1, most=MAX_IDS)
    keys = list(dict.fromkeys(Kind.key_in(context, NOTIFICATION.name, one) for one in ids))
    found = await loader_of(NOTIFICATION, None)(context).load_all(keys)
    missing = next((key for key in keys if found.get(key) is None), None)
    if missing is not None:
        raise errors.NotFound(NOTIFICATION.name, missing)
    return [one for key in keys if (one := found[key]) is not None]


@strawberry.type
class NotificationSubscription:
    @strawberry.subscription(description="Delivers each new notification of the viewer, from now on.")
    async def notification_received(self, info: Info) -> AsyncIterator[Notification]:
        topic = received_by(info.context.require_caller().subject)
        listened: AsyncIterator[Notification] = await occurrences(info.context, topic, NOTIFICATION)
        return listened
