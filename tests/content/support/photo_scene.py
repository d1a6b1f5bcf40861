"""A gallery whose photos are uploaded, replaced and deleted."""

from __future__ import annotations

from typing import Any

from tests.content.support.photos import (
    answer,
    bytes_of,
    create_gallery,
    create_photo,
    noise_of,
    photo_input,
    picture,
    sha256,
)
from tests.support.harness import GatewayClient, SettableClock, assert_invariants, run_jobs

Given = dict[str, Any]
OLD, NEW = picture(color="red"), noise_of(28, 28)
DELETE = "mutation ($input: DeleteContentInput!) { deleteContent(input: $input) { __typename } }"
SEEN = '{ content(path: "/gallery/a-photo") { id nonce ... on Photo { url locked } } }'
PHOTO_JOBS = ("finish-content", "finish-uploads")


class Scene:
    """A gallery. For operations on an existing photo, it contains one."""

    def __init__(self, gateway: GatewayClient, clock: SettableClock) -> None:
        self.gateway = gateway
        self.clock = clock

    async def set(self, mutation: str) -> Given:
        """Restore the site, and return the input of the mutation."""
        for collection in ("cms.nodes", "cms.assets.files", "cms.assets.chunks", "operations", "intents"):
            await self.gateway.db[collection].delete_many({})
        gallery = await create_gallery(self.gateway, slug="gallery")
        if mutation == "uploadPhoto":
            return photo_input(gallery, idempotencyKey="the key")
        photo = await create_photo(self.gateway, gallery, OLD)
        return {"id": photo["id"], "nonce": photo["nonce"], "idempotencyKey": "the key"}

    async def ask(self, mutation: str, given: Given) -> str:
        """Return the type of the result, or the code of the error."""
        if mutation == "deleteContent":
            outcome = await self.gateway.ask(DELETE, {"input": given})
        else:
            outcome = await answer(self.gateway, mutation, given, NEW)
        return outcome.codes[0] if outcome.codes else str(outcome.data[mutation]["__typename"])

    async def later(self, seconds: int) -> None:
        self.clock.advance(seconds=seconds)
        await run_jobs(self.gateway, self.clock, *PHOTO_JOBS)

    async def seen(self) -> str | None:
        """Return the checksum of the bytes that a reader gets."""
        found = (await self.gateway.data(SEEN, token=None))["content"]
        return None if found is None else sha256(await bytes_of(self.gateway, found))

    async def assert_settled(self) -> None:
        """Assert that nothing is locked, and that all bytes belong to a photo."""
        db = self.gateway.db
        assert await db["cms.nodes"].find_one({"detail.upload": {"$ne": None}}) is None
        assert await db["cms.nodes"].find_one({"detail.locked": {"$ne": None}}) is None
        assert await db["cms.assets.files"].find_one({"metadata.unsettled": {"$ne": None}}) is None
        in_use = [node["detail"]["file"] async for node in db["cms.nodes"].find({"type": "photo"})]
        assert {chunk["files_id"] async for chunk in db["cms.assets.chunks"].find({})} == set(in_use)
        await assert_invariants(self.gateway)
