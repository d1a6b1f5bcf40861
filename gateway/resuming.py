"""Continues subscriptions where their clients were cut off.

The missed events are read again from the oplog, and shown with the permissions of now:

1. The subscription listens to the change stream. Then a page of missed events is read.
2. If there are more, or if more events have come meanwhile than half of those that may wait, it stops listening. It
   reads the other pages, and then repeats step 1.
3. Otherwise, events of the stream that the page has are dropped: those up to the time until which it was read.

So almost all clients need one page, for which they share a change stream with those who come back with them.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Hashable, Iterable, Sequence
from contextlib import aclosing

from portico.gateway.operations.encoding import EncodedResponse
from portico.gateway.outages import EVENTS, fault_code
from portico.resolvers.changes import ChangesLost, Event, Position
from portico.resolvers.missed_changes import Page
from portico.schema.context import Events

from .ended import Ended, EventsLost
from .event_ids import EventIds
from .live import Hub, Listener


class InvalidEventId(Ended):
    """The id is not one of the subscription."""

    def __init__(self) -> None:
        super().__init__(
            "BAD_USER_INPUT",
            "The id of the last event is not one of this subscription. Subscribe without it, then read what is new.",
        )


class Unreadable(Ended):
    """The missed events cannot be read at the moment."""

    def __init__(self) -> None:
        super().__init__(
            "UNAVAILABLE", "The missed events cannot be read. Subscribe again later, with the id of the last event."
        )


class Resumable:
    """The live events for one subscription whose events have ids. `last_id` is that of the last event it has got."""

    def __init__(self, hub: Hub, ids: EventIds, last_id: str | None) -> None:
        self.ids = ids
        # Where a subscription without a last event begins, as soon as it listens.
        self.start: Position | None = None
        self._hub = hub
        self._last_id = last_id
        # All events up to here have been read.
        self._after: Position

    def id_of(self, response: EncodedResponse) -> str | None:
        """Returns the id of a response; None if it has none. The id of a live query's answer is its digest."""
        if response.is_state:
            return response.digest
        return None if response.at is None else self.ids.id_of(response.at)

    @property
    def continues(self) -> bool:
        """Whether the subscription was cut off: its last event has one of its ids."""
        return self._last_id is not None and self.ids.are_of(self._last_id)

    async def listen(self, *topics: Hashable, is_state: bool = False) -> Events:
        """Returns the events of these topics since the last event, or from now on.

        Raises:   InvalidEventId; Stopping; a driver's error.
        """
        if not self._last_id:
            # What happens between the two is missed by nobody: the subscription delivers it, or will read it again.
            self.start = await self._hub.replays.now()
            return await self._hub.listen(*topics, is_state=is_state)
        after = self.ids.position_of(self._last_id)
        if after is None:
            raise InvalidEventId
        self._after = after
        self._hub.counts.resumed += 1
        return self._since(topics, is_state=is_state)

    async def _since(self, topics: Sequence[Hashable], *, is_state: bool) -> AsyncGenerator[Event, None]:
        while True:
            async with aclosing(await self._catching_up(topics, is_state=is_state)) as listener:
                page = await self._page(topics)
                for event in self._taken(page, is_state=is_state):
                    yield event
                if page.until is not None and listener.has_caught_up():
                    async for event in listener:
                        if event.at is None or event.at.time > self._after.time:
                            yield event
                    return
            # More is missed than a page has. Nobody listens meanwhile: too many events would wait.
            while page.until is None:
                page = await self._page(topics)
                for event in self._taken(page, is_state=is_state):
                    yield event

    def _taken(self, page: Page, *, is_state: bool) -> Iterable[Event]:
        """Returns the events of a page, which are read then."""
        self._after = page.end(self._after)
        # The latest state of each topic replaces the others.
        return {one.topic: one for one in page.events}.values() if is_state else page.events

    async def _catching_up(self, topics: Sequence[Hashable], *, is_state: bool) -> Listener:
        try:
            return await self._hub.listen(*topics, is_state=is_state, catches_up=True)
        except Exception as error:
            if fault_code(error) in EVENTS:
                raise Unreadable from error
            raise

    async def _page(self, topics: Sequence[Hashable]) -> Page:
        try:
            return await self._hub.replays.read(frozenset(topics), self._after, self._hub.max_waiting)
        except ChangesLost:
            raise EventsLost from None
        except Exception as error:
            if fault_code(error) in EVENTS:
                raise Unreadable from error
            raise
