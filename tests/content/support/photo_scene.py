"""A gallery whose photos are uploaded, replaced and deleted."""

from __future__ import annotations

from typing import Any, ClassVar

from portico.resolvers.content import assets
from portico.testing import Answer
from portico.testing.stages import Case, Stage
from tests.content.support.photos import (
    PicturesHere,
    answer,
    bytes_of,
    create_gallery,
    create_photo,
    noise_of,
    photo_input,
    picture,
    sha256,
    use_pictures,
)
from tests.content.support.site import own
from tests.support.harness import SettableClock

Given = dict[str, Any]
OLD, NEW = picture(color="red"), noise_of(28, 28)
SEEN = '{ content(path: "/gallery/a-photo") { id nonce ... on Photo { url locked } } }'
PHOTO_JOBS = ("finish-content", "finish-uploads")
# What the jobs make of a call that pauses for too long. A repeated call succeeds.
_GIVEN_UP = ("Conflict", "CONFLICT")


class Photos(Stage):
    """A gallery with a photo. A file has several chunks, each of which is written by a command of its own."""

    constants: ClassVar[Any] = {(assets, "CHUNK_BYTES"): 1_000, (assets, "CHUNKS_AT_ONCE"): 1}
    collections = ("cms.nodes", "cms.assets.files", "cms.assets.chunks", "operations", "intents")
    job_names = PHOTO_JOBS
    # The lock of an upload ends after 30 seconds, and what it has left is removed a minute later.
    job_seconds = 101
    next_run = 101
    least = (2, 3)
    # The checksum of the bytes that a reader gets.
    before: ClassVar[Any] = sha256(OLD)
    cases: ClassVar[Any] = {
        "replacePhoto": Case(
            "replacePhoto", lambda stage: own(stage.photo), "PhotoPayload", sha256(NEW), overtaken=_GIVEN_UP
        ),
        "deleteContent": Case(
            "deleteContent", lambda stage: own(stage.photo), "DeletedPayload", None, overtaken=_GIVEN_UP
        ),
    }
    photo: Given

    def __init__(self, gateway: Any, clock: SettableClock) -> None:
        super().__init__(gateway, clock)
        use_pictures(gateway, PicturesHere())

    def trying(self, mutation: str) -> Photos:
        """Returns a stage that has a case of this mutation."""
        return Uploads(self.gateway, self.clock) if mutation in Uploads.cases else self

    async def build(self) -> None:
        self.photo = await create_photo(self.gateway, await create_gallery(self.gateway, slug="gallery"), OLD)

    async def ask(self, mutation: str, given: Given) -> Answer:
        if mutation == "deleteContent":
            return await super().ask(mutation, given)
        return await answer(self.gateway, mutation, given, NEW)

    async def outcome(self, mutation: str, given: Given) -> str:
        """Returns the type of the result, or the code of the error."""
        found = await self.ask(mutation, given)
        return found.codes[0] if found.codes else str(found.data[mutation]["__typename"])

    async def shown(self, token: str | None = "") -> Any:
        return (await self.gateway.data(SEEN, token=token))["content"]

    async def delete(self, photo: Given) -> str:
        return await self.outcome("deleteContent", own(photo))

    async def state(self) -> str | None:
        found = await self.shown(token=None)
        return None if found is None else sha256(await bytes_of(self.gateway, found))

    async def assert_sound(self) -> None:
        """Asserts that readers get whole pictures. The bytes of a photo that is being deleted wait for the jobs."""
        assert await self.state() in {None, sha256(OLD), sha256(NEW)}

    async def assert_settled(self) -> None:
        """Assert that nothing is locked, and that all bytes belong to a photo."""
        db = self.gateway.db
        assert await db["cms.nodes"].find_one({"detail.upload": {"$ne": None}}) is None
        assert await db["cms.nodes"].find_one({"detail.locked": {"$ne": None}}) is None
        assert await db["cms.assets.files"].find_one({"metadata.unsettled": {"$ne": None}}) is None
        in_use = [node["detail"]["file"] async for node in db["cms.nodes"].find({"type": "photo"})]
        assert {chunk["files_id"] async for chunk in db["cms.assets.chunks"].find({})} == set(in_use)
        await super().assert_settled()

    async def assert_over(self) -> None:
        await self.run_jobs(seconds=2 * 24 * 3600)
        has_photo = await self.state() is not None
        assert await self.gateway.db["cms.assets.files"].count_documents({}) == has_photo


class Uploads(Photos):
    """An empty gallery."""

    before = None
    cases: ClassVar[Any] = {
        "uploadPhoto": Case(
            "uploadPhoto", lambda stage: photo_input(stage.gallery), "PhotoPayload", sha256(NEW), overtaken=_GIVEN_UP
        )
    }
    gallery: Given

    async def build(self) -> None:
        self.gallery = await create_gallery(self.gateway, slug="gallery")
