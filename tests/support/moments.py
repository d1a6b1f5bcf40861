"""Lets others act in the middle of a call: before one of its commands, or once before each of them."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Any, TypeVar

from portico.resolvers.documents import Database
from portico.testing import Gateway
from portico.testing.interruptions import Action, interrupted
from tests.support.harness import GatewayClient
from tests.support.interruptions import database_of

T = TypeVar("T")


@contextlib.contextmanager
def meanwhile(
    gateway: Gateway,
    action: Callable[[], Awaitable[T]],
    collection: str | None = None,
    method: str | None = None,
    *,
    skip: int = 0,
) -> Iterator[list[T]]:
    """Lets others act during a call in the block, before its command on the collection by the method.

    The first `skip` such commands pass. The gateway sends the commands of the action without interruption. Yields a
    list that gets what the action returns. It stays empty if the block sends no such command.
    """
    own = gateway.state.database
    outcome: list[T] = []

    async def act() -> None:
        with database_of(gateway, own):
            outcome.append(await action())

    with database_of(gateway, interrupted(own, collection, method, act, skip=skip)):
        yield outcome


class Moment:
    """A place in a call, before one of its commands, and what an action of others returns there."""

    def __init__(self, place: int) -> None:
        self.place = place
        self.results: list[Any] = []

    @property
    def was_reached(self) -> bool:
        return bool(self.results)

    def before(self, db: Database, action: Action) -> Database:
        """Returns the database, on which others act at this moment."""
        return interrupted(db, None, None, self._noting(action), skip=self.place)

    def during(self, gateway: GatewayClient, action: Action) -> contextlib.AbstractContextManager[list[object]]:
        """Lets others act at this moment of a call in the block."""
        return meanwhile(gateway, self._noting(action), skip=self.place)

    def _noting(self, action: Action) -> Action:
        async def act() -> None:
            self.results.append(await action())

        return act


def moments(places: Iterable[int]) -> Iterator[Moment]:
    """Yields a moment for each place, to use once. Ends after the first one that the call does not reach."""
    for place in places:
        moment = Moment(place)
        yield moment
        if not moment.was_reached:
            return
