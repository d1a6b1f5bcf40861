"""What the server is asked to send of all that changes."""

from __future__ import annotations

from portico.resolvers import changes
from portico.resolvers.changes import Source


def test_the_server_sends_what_the_sources_need_and_no_more() -> None:
    sources = (
        Source(frozenset({"b", "a"}), {"operationType": "insert"}, ("fullDocument._id",), lambda _: ()),
        Source(frozenset({"c"}), {}, ("documentKey",), lambda _: ()),
    )

    assert changes.pipeline(sources) == [
        {"$match": {"$or": [{"ns.coll": {"$in": ["a", "b"]}, "operationType": "insert"}, {"ns.coll": {"$in": ["c"]}}]}},
        {"$project": {"documentKey": 1, "fullDocument._id": 1, "ns": 1, "operationType": 1}},
    ]
