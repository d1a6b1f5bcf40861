"""The changes of trades: offered, settled, cancelled."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from bson import ObjectId

from portico.resolvers.changes import ChangeSource, Event
from portico.resolvers.documents import Document

from .trade_records import CANCELLED, OFFERED, SETTLED, TRADE, TRADES

_STATE = "updateDescription.updatedFields.state"


class Changed(NamedTuple):
    """A trade that has this state now, or a later one."""

    trade: ObjectId
    state: str


def trades_of(owner: str) -> tuple[str, str]:
    """Returns the topic of the trades of an owner. The key of an event is a `Changed`."""
    return "trades", owner


def _changed(change: Document) -> Iterator[Event]:
    key, inserted = change["documentKey"]["_id"], change.get("fullDocument") or {}
    updated = (change.get("updateDescription") or {}).get("updatedFields") or {}
    if inserted.get("kind") == TRADE:
        yield from (Event(trades_of(owner), Changed(key, OFFERED)) for owner in inserted["owners"])
    elif updated.get("state") in {SETTLED, CANCELLED}:
        state, owners = updated["state"], updated.get("concluded_for", ())
        yield from (Event(trades_of(owner), Changed(key, state)) for owner in owners)


CHANGED = ChangeSource(
    frozenset({TRADES.name}),
    {
        "$or": [
            {"operationType": "insert", "fullDocument.kind": TRADE},
            {"operationType": "update", _STATE: {"$in": [SETTLED, CANCELLED]}},
        ]
    },
    (
        "documentKey",
        "fullDocument.kind",
        "fullDocument.owners",
        _STATE,
        "updateDescription.updatedFields.concluded_for",
    ),
    _changed,
)
