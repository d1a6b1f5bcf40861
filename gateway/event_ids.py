"""The ids of events, with which a client continues a subscription where it was cut off.

An id has the place of the event, which is the same at every gateway, and a tag. The tag binds it to a subscription of a
caller: to the subject, the document, the operation and the variables. It is computed once a subscription, so an id
costs next to nothing. What a caller may see is decided when it is shown, and does not depend on ids.
"""

from __future__ import annotations

import orjson

from portico.gateway.given_json import sorted_json
from portico.resolvers.changes import Position
from portico.resolvers.cursors import Cursors
from portico.resolvers.missed_changes import position_of, text_of


class EventIds:
    """The ids of the events of one subscription, or of all subscriptions of a caller."""

    def __init__(self, cursors: Cursors, *bound: object) -> None:
        """`bound` are JSON values, the caller's subject first. With the subject alone, an id fits all subscriptions."""
        self._tag = cursors.tag(sorted_json(bound))
        self._tag_of_all = cursors.tag(orjson.dumps(bound[:1]))

    def id_of(self, position: Position) -> str:
        return f"{text_of(position)}.{self._tag}"

    def are_of(self, event_id: str) -> bool:
        """Returns whether the id is that of an event of this very subscription."""
        return event_id.rpartition(".")[2] == self._tag and self.position_of(event_id) is not None

    def position_of(self, event_id: str) -> Position | None:
        """Returns the place in an id; None if it is no id of this subscription."""
        text, _, tag = event_id.partition(".")
        return position_of(text) if tag in {self._tag, self._tag_of_all} else None
