"""Creates discussions."""

from __future__ import annotations

from portico.resolvers.comments.discussions import DOCUMENTS, PAGES
from portico.schema.kinds import Kind
from portico.testing.kits import Known
from tests.comments.support.discussions import post
from tests.support.harness import GatewayClient

_AT = "query ($path: String!) { content(path: $path) { id } }"


async def seed(gateway: GatewayClient, known: Known) -> Known:
    """Creates threads with a deleted comment, in two of the storages: on a product, and on a blog entry."""
    made: Known = {"id": [], "slug": []}
    entry = (await gateway.data(_AT, {"path": known["path"][-1]}))["content"]["id"]
    subjects = (Kind.encode_id("Product", known["sku"][-1]), entry)
    for subject, storage in zip(subjects, (DOCUMENTS, PAGES), strict=True):
        opened = await gateway.result("openDiscussion", {"subjectId": subject, "storage": storage})
        discussion = opened["discussion"]["id"]
        first = await post(gateway, discussion, "The *first*.")
        replies = [await post(gateway, discussion, "A reply.", first["slug"]) for _ in range(2)]
        last = await post(gateway, discussion, "Below.", replies[0]["slug"])
        await gateway.payload("deleteComment", {"id": replies[0]["id"]}, token=gateway.token("poster", []))
        made["id"] += [discussion, first["id"], replies[0]["id"], last["id"]]
        made["slug"] += [first["slug"], last["slug"]]
    return made
