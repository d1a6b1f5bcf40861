"""The order of comments from any year."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from portico.resolvers.comments.discussions import find_by_ids
from portico.resolvers.comments.storage import Draft
from portico.resolvers.comments.storages import STORAGES
from portico.resolvers.writes.marks import random_operation_id
from tests.comments.support.discussions import ON_EACH, everything, post
from tests.support.harness import GatewayClient
from tests.support.ids import decode_id


def last_of(year: int) -> datetime:
    """Return the last millisecond of a year."""
    return datetime(year, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC).replace(tzinfo=None)


async def put_at(gateway: GatewayClient, discussion: str, posted: datetime) -> Any:
    """Post a comment with another time."""
    _, key = decode_id(discussion)
    found = (await find_by_ids(gateway.db, [key]))[key]
    draft = Draft(
        discussion=key,
        parent=None,
        author={"id": "poster", "name": "Poster"},
        text="From elsewhere.",
        now=posted,
        operation_id=random_operation_id(),
    )
    return await STORAGES[found["storage"]].post(gateway.db, draft)


@ON_EACH
async def test_comments_of_any_year_are_in_order(gateway: GatewayClient, discussion: str) -> None:
    years = (1, 99, 999, 1000, 2012, 9999)
    for year in (99, 9999, 1, 2012, 1000, 999):
        await put_at(gateway, discussion, last_of(year))

    rows = await everything(gateway, discussion)

    assert [row["posted"] for row in rows] == [f"{year:04}-12-31T23:59:59.999Z" for year in years]
    assert await everything(gateway, discussion, order="CHRONOLOGICAL") == rows


@ON_EACH
async def test_a_reply_to_a_comment_with_the_last_possible_time_follows_it(
    gateway: GatewayClient, discussion: str
) -> None:
    top = await put_at(gateway, discussion, last_of(9999))

    reply = await post(gateway, discussion, "A reply.", top["slug"])

    assert reply["posted"] == "9999-12-31T23:59:59.999Z"
    for order in ("THREADED", "CHRONOLOGICAL"):
        rows = await everything(gateway, discussion, size=1, order=order)
        assert [row["slug"] for row in rows] == [top["slug"], reply["slug"]]
