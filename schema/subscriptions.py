"""Subscriptions: from what has happened to what each subscriber is shown of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable
from dataclasses import replace
from typing import Any

from portico.loaders.batching import Loaders
from portico.resolvers.changes import Event
from portico.resolvers.documents import Document

from .context import Context, Events
from .nodes import Kind, is_visible

# What the event is to the caller of this context: the object of the field, or None where there is nothing to show. An
# error of the domain, e.g. NotFound, ends the subscription.
Show = Callable[[Context, Event], Awaitable[Any]]


class Occurrence:
    """One event of a subscription. It is shown in a context of its own: at its own time, to whom the caller is then."""

    def __init__(self, event: Event, show: Show) -> None:
        self._event = event
        self._show = show

    async def root(self, context: Context) -> Any:
        """Returns the object of the subscription's field; None where there is nothing to show."""
        return await self._show(context, self._event)


class Occurrences:
    """What the resolver of a subscription's field returns, in place of the objects themselves."""

    def __init__(self, events: Events, show: Show) -> None:
        self._events = events
        self._show = show

    def __aiter__(self) -> Occurrences:
        return self

    async def __anext__(self) -> Occurrence:
        return Occurrence(await anext(self._events), self._show)

    async def aclose(self) -> None:
        await self._events.aclose()


async def occurrences(context: Context, topic: Hashable, show: Show) -> Any:
    """Returns the events of a topic from now on, as they are shown to each caller."""
    return Occurrences(await context.live.listen(topic), show)


async def read_shared(context: Context, event: Event, kind: Kind, key: Any) -> tuple[Document | None, bool]:
    """Returns the object that an event is about, whole, and whether the caller may see it.

    What this reads is read once for all who are told of the event.
    """
    loaders = Loaders() if event.shared is None else event.shared.setdefault("loaders", Loaders())
    try:
        found = await loaders.get(kind.name, lambda: kind.read(context.db, None)).load_all((key,))
        document = found.get(key)
        is_seen = document is not None and await is_visible(replace(context, loaders=loaders), kind, document)
    except Exception:
        # Loaders remember what has failed. The next one to ask asks anew.
        if event.shared is not None:
            event.shared.pop("loaders", None)
        raise
    return document, is_seen


def show_object(kind: Kind) -> Show:
    """Shows the object of this kind that has the event's key; nothing to a caller who may not see it."""

    async def show(context: Context, event: Event) -> Document | None:
        document, is_seen = await read_shared(context, event, kind, event.key)
        return document if is_seen else None

    return show
