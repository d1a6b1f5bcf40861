"""Whether a viewer may edit and delete a comment."""

from __future__ import annotations

import pytest

from tests.comments.support.discussions import ON_EACH, delete, editor, post
from tests.support.harness import GatewayClient

pytestmark = pytest.mark.anyio
MAY = "query ($id: ID!) { node(id: $id) { ... on Comment { viewerCanEdit viewerCanDelete } } }"


@ON_EACH
async def test_the_author_and_an_editor_may_change_a_comment_that_is_not_deleted(
    gateway: GatewayClient, discussion: str
) -> None:
    comment = await post(gateway, discussion)
    await post(gateway, discussion, parent=comment["slug"])

    async def may(token: str | None) -> list[bool]:
        return list((await gateway.data(MAY, {"id": comment["id"]}, token=token))["node"].values())

    author, other = gateway.token("poster", []), gateway.token("another", [])
    assert [await may(one) for one in (author, editor(gateway))] == [[True, True]] * 2
    assert [await may(one) for one in (other, None)] == [[False, False]] * 2
    change = {"id": comment["id"], "text": "Changed"}
    assert (await gateway.result("editComment", change, token=author))["__typename"] == "CommentPayload"
    assert (await delete(gateway, comment))["__typename"] == "CommentPayload"
    # It stays because of its reply.
    assert [await may(one) for one in (author, editor(gateway))] == [[False, False]] * 2
    assert (await gateway.result("editComment", change, token=author))["__typename"] == "NotFound"
