"""The driver sends a write again if the connection is lost before the reply arrives."""

from __future__ import annotations

from portico.gateway.clock import SystemClock
from portico.resolvers.comments import edits, storages
from portico.resolvers.comments.comments import parse_comment_ref
from portico.resolvers.writes.marks import random_operation_id
from portico.schema.kinds import split_id
from portico.testing.repeated_writes import RepeatedWrites
from tests.comments.support.discussions import ON_EACH, everything, open_on_product, post
from tests.support.harness import GatewayClient


@ON_EACH
async def test_an_edit_that_the_driver_has_sent_again_returns_the_edited_comment(
    gateway: GatewayClient, storage: str
) -> None:
    discussion = await open_on_product(gateway, storage)
    posted = [await post(gateway, discussion, f"Comment {number}.") for number in range(3)]
    ref = parse_comment_ref(split_id(posted[1]["id"])[1])
    comment = (await storages.find_comments(gateway.db, [ref]))[ref]
    edited = await edits.edit_comment(
        RepeatedWrites.of(gateway.db),
        comment=comment,
        text="Edited.",
        now=SystemClock().now(),
        operation_id=random_operation_id(),
    )
    assert (edited["ref"], edited["text"]) == (ref, "Edited.")
    texts = [row["text"] for row in await everything(gateway, discussion)]
    assert texts == ["Comment 0.", "Edited.", "Comment 2."]
