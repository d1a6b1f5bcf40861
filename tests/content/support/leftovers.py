"""What old crashes leave to the jobs of the site."""

from __future__ import annotations

from typing import Any

from bson import ObjectId

from tests.content.support.photos import PicturesHere, create_gallery, create_photo, use_pictures
from tests.content.support.site import create_page, create_section
from tests.support.harness import GatewayClient
from tests.support.ids import key_in
from tests.support.leftovers import LONG_AGO, OP, Left, set_values


async def pending_content(gateway: GatewayClient) -> Left:
    folder = await create_section(gateway)
    made = await create_page(gateway, parentId=folder["id"])
    await set_values(gateway, "cms.nodes", key_in("ContentNode", made["id"]), pending={"op": OP, "at": LONG_AGO})
    return "cms.nodes", {"pending.op": OP}


async def deleting_content(gateway: GatewayClient) -> Left:
    made = await create_section(gateway)
    await set_values(gateway, "cms.nodes", key_in("ContentNode", made["id"]), deleting={"op": OP, "at": LONG_AGO})
    return "cms.nodes", {"deleting.op": OP}


async def unrevised_content(gateway: GatewayClient) -> Left:
    made = await create_page(gateway)
    mark = {"at": LONG_AGO, "author": {"id": "tester", "name": "Tester"}}
    await set_values(gateway, "cms.nodes", key_in("ContentNode", made["id"]), unrevised=mark)
    return "cms.nodes", {"unrevised.at": LONG_AGO}


async def content_intent(gateway: GatewayClient) -> Left:
    intent = {"_id": OP, "kind": "content-deletion", "keys": [str(ObjectId())], "at": LONG_AGO}
    await gateway.db["intents"].insert_one(intent)
    return "intents", {"kind": "content-deletion"}


async def _photo(gateway: GatewayClient, **detail: Any) -> None:
    use_pictures(gateway, PicturesHere())
    photo = await create_photo(gateway, await create_gallery(gateway))
    values = {f"detail.{name}": value for name, value in detail.items()}
    await set_values(gateway, "cms.nodes", key_in("ContentNode", photo["id"]), **values)


async def stalled_upload(gateway: GatewayClient) -> Left:
    await _photo(gateway, upload={"op": OP, "file": ObjectId(), "until": LONG_AGO}, locked=LONG_AGO)
    return "cms.nodes", {"detail.upload.op": OP}


async def replaced_photo(gateway: GatewayClient) -> Left:
    await _photo(gateway, replaced=[{"file": ObjectId(), "at": LONG_AGO}])
    return "cms.nodes", {"detail.replaced.at": LONG_AGO}


async def _file(gateway: GatewayClient, **metadata: Any) -> Left:
    file = {"_id": ObjectId(), "length": 0, "chunkSize": 10, "uploadDate": LONG_AGO, "metadata": metadata}
    await gateway.db["cms.assets.files"].insert_one(file)
    return "cms.assets.files", {name: value for name, value in (("metadata", metadata),) if value}


async def unsettled_file(gateway: GatewayClient) -> Left:
    return await _file(gateway, node=ObjectId(), unsettled=LONG_AGO)


async def unfinished_thumbnail(gateway: GatewayClient) -> Left:
    return await _file(gateway, node=ObjectId(), unsettled=LONG_AGO, of=ObjectId(), maker=OP, width=80)


async def removed_file(gateway: GatewayClient) -> Left:
    return await _file(gateway, node=ObjectId(), removed=LONG_AGO)
