"""What old crashes leave to the jobs of the social network."""

from __future__ import annotations

from typing import Any

from bson import ObjectId

from tests.social.support.posts import write_post
from tests.social.support.social import join
from tests.support.harness import GatewayClient
from tests.support.leftovers import LONG_AGO, OP, Left, set_values


async def uncopied_relation(gateway: GatewayClient) -> Left:
    await join(gateway.db, "ada", "bo", follows={"ada": ["bo"]})
    await set_values(
        gateway, "social.relations", {"of": "ada", "to": "bo"}, uncopied={"op": OP, "at": LONG_AGO}, version=2
    )
    return "social.relations", {"uncopied.op": OP}


async def _post(gateway: GatewayClient, **values: Any) -> None:
    await join(gateway.db, "ada", "bo")
    post = await write_post(gateway.db, "ada")
    await gateway.db["social.posts"].update_one({"_id": post["_id"]}, {"$unset": {"fan_out": ""}})
    await set_values(gateway, "social.posts", post["_id"], **values)


async def pending_post(gateway: GatewayClient) -> Left:
    await _post(gateway, fan_out={"after": None, "due": LONG_AGO})
    return "social.posts", {"fan_out.due": {"$exists": True}}


async def deleted_post(gateway: GatewayClient) -> Left:
    await _post(gateway, deleted=LONG_AGO, remove_at=LONG_AGO)
    return "social.posts", {"remove_at": {"$exists": True}}


async def removed_comment_of_a_post(gateway: GatewayClient) -> Left:
    await _post(gateway, removing=[ObjectId()])
    return "social.posts", {"removing": {"$exists": True}}


async def renamed_member(gateway: GatewayClient) -> Left:
    await _post(gateway)
    await set_values(gateway, "social.members", "ada", name="Ada L", renamed={"op": OP, "at": LONG_AGO})
    return "social.members", {"renamed.op": OP}
