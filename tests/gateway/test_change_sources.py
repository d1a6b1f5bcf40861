"""Which changes the gateway requests from the server."""

from __future__ import annotations

from portico.resolvers import changes
from portico.resolvers.changes import Source


def test_the_change_stream_requests_only_what_the_sources_need() -> None:
    sources = (
        Source(frozenset({"b", "a"}), {"operationType": "insert"}, ("fullDocument._id",), lambda _: ()),
        Source(frozenset({"c"}), {}, ("documentKey",), lambda _: ()),
    )

    assert changes.pipeline(sources) == [
        {"$match": {"$or": [{"ns.coll": {"$in": ["a", "b"]}, "operationType": "insert"}, {"ns.coll": {"$in": ["c"]}}]}},
        {"$project": {"documentKey": 1, "fullDocument._id": 1, "ns": 1, "operationType": 1}},
    ]
