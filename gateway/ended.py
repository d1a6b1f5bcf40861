"""Why the gateway ends a subscription."""

from __future__ import annotations

from graphql import GraphQLError


class Ended(GraphQLError):
    """A subscription has ended. The code says what its client can do."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message, extensions={"code": code})


class TooSlow(Ended):
    """The client reads its events more slowly than they arrive."""

    def __init__(self) -> None:
        super().__init__(
            "TOO_SLOW",
            "The client did not keep up with the events, so some are lost. Subscribe again, then read what is new.",
        )


class EventsLost(Ended):
    """The change stream cannot resume, because the database no longer has the changes since the interruption."""

    def __init__(self) -> None:
        super().__init__("EVENTS_LOST", "Some events are lost. Subscribe again, then read what is new.")


class Stopping(Ended):
    """The gateway is stopping. The client can subscribe again at another gateway, or after the restart."""

    def __init__(self) -> None:
        super().__init__("UNAVAILABLE", "The gateway is stopping. Subscribe again.")


class TooManyLive(Ended):
    """The process has as many different live queries as it may have."""

    def __init__(self, most: int) -> None:
        text = f"The gateway has {most} different live queries, the most allowed. Read without @live, or try later."
        super().__init__("TOO_MANY_LIVE_QUERIES", text)
