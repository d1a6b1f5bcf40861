"""Cursors of comments that no list has made."""

from __future__ import annotations

from typing import Any

import pytest
from bson import ObjectId

from portico.resolvers.social import comment_reads
from tests.social.support.post_reads import comments_of
from tests.social.support.posts import NOW, write_comment, write_post
from tests.social.support.social import join
from tests.support.harness import GatewayClient


@pytest.mark.parametrize("key", [(0, "soon", ObjectId()), (0, 1, ObjectId()), (0, NOW, "last"), (0, NOW, None)])
async def test_a_forged_cursor_of_comments_starts_from_the_beginning(gateway: GatewayClient, key: tuple[Any]) -> None:
    await join(gateway.db, "max")
    post = await write_post(gateway.db, "max")
    # The comment has the time of the cursor, so their ids are compared.
    await write_comment(gateway.db, post, "max", "Hi")
    after = gateway.cursor(comment_reads.comments_of(post["_id"]), key)

    page = await comments_of(gateway, "max", post, after=after)

    assert [comment["text"] for comment in page["comments"]["nodes"]] == ["Hi"]
