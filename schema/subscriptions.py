"""Subscriptions: turns each event into the object that a subscriber sees."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic

from portico.loaders.batching import Loaders
from portico.resolvers.changes import Event
from portico.resolvers.documents import D
from portico.schema.kinds import Kind

from .context import Context, Events
from .nodes import shown

# Returns the object of the field that an event shows to the caller of this context, or None if there is nothing to
# show. A domain error, for example NotFound, ends the subscription. Subscribers share a result only if their functions
# are equal. Therefore, use a function of a module, or an object that compares by its values.
Show = Callable[[Context, Event], Awaitable[Any]]
# Returns the place of a state among the states of its object, e.g. its version; None if it has none.
Order = Callable[[Any], int | None]


@dataclass(frozen=True)
class Occurrences:
    """The events of a subscription, which the resolver of its field returns instead of the objects.

    Each event is shown in its own context, with the time at that moment. With `order`, the objects are states, and a
    subscriber never gets a state that is not newer than the last one it got.
    """

    events: Events
    show: Show
    order: Order | None = None

    def __aiter__(self) -> AsyncIterator[Event]:
        return aiter(self.events)


async def occurrences(
    context: Context, topic: Hashable, show: Show | Kind[Any], *, also: Sequence[Hashable] = ()
) -> Any:
    """Returns the events of a topic, and of other topics, from now on. `show` makes the object that a caller sees.

    With a kind in its place, a caller sees the object with the event's key, or nothing if the kind's rule hides it.
    """
    return Occurrences(await context.live.listen(topic, *also), _show_of(show))


async def read_shared(context: Context, event: Event, kind: Kind[D], key: Any) -> tuple[D | None, bool]:
    """Returns the whole object of an event as the caller sees it, and whether the caller may see it.

    All subscribers of the event share these reads.
    """
    loaders = Loaders() if event.shared is None else event.shared.setdefault("loaders", Loaders())
    try:
        found = await loaders.get(kind.name, lambda: kind.read(context.db, None)).load_all((key,))
        document = found.get(key)
        view = None if document is None else await shown(replace(context, loaders=loaders), kind, document)
    except BaseException:
        # Loaders cache failures, and a read that is cancelled may still hang. New loaders read again.
        if event.shared is not None:
            event.shared.pop("loaders", None)
        raise
    return document if view is None else view, view is not None


async def states(
    context: Context, topic: Hashable, show: Show | Kind[Any], *, order: Order, also: Sequence[Hashable] = ()
) -> Any:
    """Returns the states of one object from now on, for a subscriber to whom only the newest one matters.

    With `also`, of several objects, each with a topic of its own; then their states have no `order`. While a subscriber
    is busy, newer states of an object replace the one that waits. The last state always arrives. Two runs for an
    event can read different states, and so can the runs for two events in the other order; `order` tells which is
    newer.

    Args:     topic: its events say that there is a new state.  show: reads a state not older than the event, or the
              kind of the object with the event's key.
    """
    return Occurrences(await context.live.listen(topic, *also, is_state=True), _show_of(show), order)


@dataclass(frozen=True)
class show_object(Generic[D]):  # noqa: N801 - reads as a function, and compares by its kind
    """Shows the object of this kind with the event's key, or nothing if the caller may not see it."""

    kind: Kind[D]

    async def __call__(self, context: Context, event: Event) -> D | None:
        document, is_seen = await read_shared(context, event, self.kind, event.key)
        return document if is_seen else None


def _show_of(show: Show | Kind[Any]) -> Show:
    return show_object(show) if isinstance(show, Kind) else show
