"""Thumbnails: they are made once, kept, and contain only pixels."""

from __future__ import annotations

import asyncio
import io
from typing import Any

import pytest
from bson import ObjectId
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from portico.gateway.clock import SystemClock
from portico.gateway.mongo.faults import Crash
from portico.resolvers import pictures
from portico.resolvers.content import photo_jobs, thumbnails
from portico.resolvers.documents import Database, Document
from tests.content.support.photos import PicturesHere, create_gallery, create_photo, picture, result, use_pictures
from tests.content.support.site import own
from tests.support.harness import GatewayClient, assert_invariants, stops
from tests.support.ids import key_in
from tests.support.interruptions import crashing, database_of, stopping
from tests.support.moments import meanwhile

FILES, CHUNKS = "cms.assets.files", "cms.assets.chunks"


async def small(gateway: GatewayClient, photo: dict[str, Any], width: int) -> Image.Image:
    response = await gateway.http.get(photo["url"], params={"width": str(width)})
    assert response.status_code == 200, response.text
    assert response.headers["content-type"] == "image/webp"
    image = Image.open(io.BytesIO(response.content))
    image.load()
    return image


def is_near(image: Image.Image, place: tuple[int, int], color: tuple[int, ...]) -> bool:
    """Return whether the pixel has about this color."""
    pixel = image.getpixel(place)
    assert isinstance(pixel, tuple)
    return all(abs(have - wanted) < 60 for have, wanted in zip(pixel, color, strict=True))


async def kept(gateway: GatewayClient) -> list[int]:
    """Return the widths of the stored thumbnails."""
    found = gateway.db[FILES].find({"metadata.of": {"$ne": None}, "metadata.unsettled": None})
    return sorted([file["metadata"]["width"] async for file in found])


@given(st.integers(16, 100_000), st.integers(1, 30_000))
def test_a_thumbnail_has_one_of_a_few_widths(asked: int, own: int) -> None:
    width = pictures.width_for(asked, own)

    assert width in pictures.WIDTHS
    assert width <= asked
    # Any larger width would exceed the requested one, or add no detail.
    assert all(other > asked or width >= max(own, 80) for other in pictures.WIDTHS if other > width)


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("size", "asked", "expected"),
    [
        ((1_000, 500), 320, (320, 160)),
        ((1_000, 500), 200, (160, 80)),
        ((1_000, 500), 16, (16, 8)),
        ((1_000, 500), 90_000, (1_000, 500)),
        # A thumbnail is never larger than the photo.
        ((100, 50), 320, (100, 50)),
        # A thumbnail is never much higher than wide.
        ((10, 2_000), 80, (2, 320)),
        ((2_000, 1), 80, (80, 1)),
    ],
)
async def test_a_thumbnail_is_at_most_as_wide_as_requested(
    gateway: GatewayClient, size: tuple[int, int], asked: int, expected: tuple[int, int]
) -> None:
    photo = await create_photo(gateway, await create_gallery(gateway), picture(*size))

    assert (await small(gateway, photo, asked)).size == expected


async def test_the_url_of_a_thumbnail_returns_it(gateway: GatewayClient) -> None:
    photo = await create_photo(gateway, await create_gallery(gateway), picture(1_000, 500))
    text = "query ($id: ID!) { node(id: $id) { ... on Photo { a: thumbnailUrl b: thumbnailUrl(width: 5000) } } }"
    refused = await gateway.ask(text.replace("5000", "0"), {"id": photo["id"]})

    found = (await gateway.data(text, {"id": photo["id"]}))["node"]

    assert found == {"a": f"{photo['url']}?width=320", "b": f"{photo['url']}?width=1280"}
    assert Image.open(io.BytesIO((await gateway.http.get(found["a"])).content)).size == (320, 160)
    assert refused.body["errors"][0]["extensions"] == {"code": "BAD_USER_INPUT", "argument": ["width"]}


async def test_a_thumbnail_is_made_once_and_kept(gateway: GatewayClient) -> None:
    photo = await create_photo(gateway, await create_gallery(gateway), picture(1_000, 500))

    first = await gateway.http.get(photo["url"], params={"width": "320"})
    gateway.commands.clear()
    again = await gateway.http.get(photo["url"], params={"width": "400"})
    commands = gateway.commands.names()
    part = await gateway.http.get(photo["url"], params={"width": "400"}, headers={"range": "bytes=4-11"})
    known = await gateway.http.get(
        photo["url"], params={"width": "400"}, headers={"if-none-match": first.headers["etag"]}
    )

    assert first.content == again.content
    assert commands == ["find cms.nodes", *["find cms.assets.files"] * 2, "find cms.assets.chunks"]
    assert first.headers["etag"] == f'"{photo["checksum"]}-320"'
    assert first.headers["content-disposition"] == 'inline; filename="a-photo-320.webp"'
    assert (part.status_code, part.content) == (206, first.content[4:12])
    assert known.status_code == 304
    assert await kept(gateway) == [320]
    await assert_invariants(gateway)


async def test_a_thumbnail_shows_the_picture_upright_and_contains_no_metadata(gateway: GatewayClient) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    exif[0x010F] = "A camera with a name"
    image = Image.new("RGB", (400, 200), "red")
    image.paste("blue", (0, 0, 200, 200))
    out = io.BytesIO()
    image.save(out, "JPEG", exif=exif, comment=b"where I live", quality=95)
    photo = await create_photo(gateway, await create_gallery(gateway), out.getvalue())

    found = await small(gateway, photo, 160)
    raw = (await gateway.http.get(photo["url"], params={"width": "160"})).content

    assert found.size == (160, 320)
    # The picture is rotated to the right, so its left side is at the top.
    assert is_near(found, (80, 40), (0, 0, 255))
    assert is_near(found, (80, 280), (255, 0, 0))
    assert found.getexif() == {}
    assert not {"exif", "icc_profile", "xmp", "comment"} & set(found.info)
    assert b"camera" not in raw
    assert b"where I live" not in raw


@pytest.mark.sample(3)
@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGBA", "I;16", "CMYK"])
async def test_pictures_of_every_mode_have_thumbnails(gateway: GatewayClient, mode: str) -> None:
    out = io.BytesIO()
    Image.new(mode, (200, 100)).save(out, "JPEG" if mode == "CMYK" else "PNG")
    photo = await create_photo(gateway, await create_gallery(gateway), out.getvalue())

    found = await small(gateway, photo, 80)

    assert found.size == (80, 40)
    assert found.mode == ("RGBA" if mode in {"LA", "RGBA"} else "RGB")


async def test_transparency_is_kept(gateway: GatewayClient) -> None:
    image = Image.new("RGBA", (100, 100), (255, 0, 0, 0))
    image.paste((0, 255, 0, 255), (0, 0, 50, 100))
    out = io.BytesIO()
    image.save(out, "PNG")
    photo = await create_photo(gateway, await create_gallery(gateway), out.getvalue())

    found = await small(gateway, photo, 80)

    pixels = [found.getpixel(place) for place in ((70, 40), (10, 40))]
    assert [pixel[3] // 64 for pixel in pixels if isinstance(pixel, tuple)] == [0, 3]


async def test_a_thumbnail_is_made_once_for_concurrent_requests(gateway: GatewayClient) -> None:
    photo = await create_photo(gateway, await create_gallery(gateway), picture(1_000, 500))
    counting = Counting()
    use_pictures(gateway, counting)

    answers = await asyncio.gather(
        *(gateway.http.get(photo["url"], params={"width": str(width)}) for width in (80, 320) * 10)
    )

    assert [response.status_code for response in answers] == [200] * 20
    assert len({response.content for response in answers}) == 2
    assert sorted(counting.made) == [80, 320]
    assert await kept(gateway) == [80, 320]
    await assert_invariants(gateway)


class Counting(PicturesHere):
    """Pictures that record the widths of the thumbnails that they make."""

    def __init__(self) -> None:
        self.made: list[int] = []

    async def thumbnail(self, data: Any, width: int) -> bytes:
        self.made.append(width)
        await asyncio.sleep(0.05)
        return await super().thumbnail(data, width)


async def crash(gateway: GatewayClient, photo: dict[str, Any], stop: int) -> bool:
    """Stops the creation of a thumbnail after this many changes. Returns False if it ends before."""
    with crashing(gateway, stop) as faulty:
        try:
            await gateway.http.get(photo["url"], params={"width": "80"})
        except Exception:  # noqa: BLE001 - the server has crashed
            assert faulty.has_crashed
    return faulty.has_crashed


async def test_a_thumbnail_whose_creation_crashes_anywhere_is_made_again(gateway: GatewayClient) -> None:
    use_pictures(gateway, PicturesHere())
    photo = await create_photo(gateway, await create_gallery(gateway), picture(1_000, 500))
    for stop in stops():
        has_crashed = await crash(gateway, photo, stop)
        await gateway.run_jobs(minutes=4)
        assert (await gateway.db[FILES].count_documents({"metadata.unsettled": {"$ne": None}})) == 0

        assert (await small(gateway, photo, 80)).size == (80, 40)

        assert await kept(gateway) == [80]
        await assert_invariants(gateway)
        await gateway.db[CHUNKS].delete_many({"files_id": thumbnails.thumbnail_id(await file_of(gateway, photo), 80)})
        await gateway.db[FILES].delete_many({"metadata.width": 80})
        if not has_crashed:
            break
    assert stop > 3


async def node_of(gateway: GatewayClient, photo: dict[str, Any]) -> Document:
    return await gateway.stored("cms.nodes", {"_id": key_in("ContentNode", photo["id"])})


async def file_of(gateway: GatewayClient, photo: dict[str, Any]) -> ObjectId:
    found: ObjectId = (await node_of(gateway, photo))["detail"]["file"]
    return found


@pytest.mark.sample(3)
@pytest.mark.parametrize("skip", range(10))
async def test_a_thumbnail_of_a_photo_that_is_replaced_meanwhile_is_not_kept(gateway: GatewayClient, skip: int) -> None:
    use_pictures(gateway, PicturesHere())
    photo = await create_photo(gateway, await create_gallery(gateway), picture(1_000, 500))

    async def others() -> None:
        replaced = await result(gateway, "replacePhoto", own(photo), picture(90, 90))
        assert replaced["__typename"] == "PhotoPayload"
        await gateway.run_jobs(seconds=90)

    with meanwhile(gateway, others, skip=skip):
        response = await gateway.http.get(photo["url"], params={"width": "80"})
    await gateway.run_jobs(minutes=5)

    assert response.status_code in {200, 404}
    assert await gateway.db[FILES].count_documents({"metadata.removed": None}) == 1
    assert await gateway.db[CHUNKS].count_documents({}) == 1
    await assert_invariants(gateway)


async def bytes_left(gateway: GatewayClient) -> tuple[int, int]:
    return await gateway.db[FILES].count_documents({}), await gateway.db[CHUNKS].count_documents({})


async def test_a_thumbnail_that_crashes_anywhere_while_its_photo_is_deleted_leaves_nothing(
    gateway: GatewayClient,
) -> None:
    gallery = await create_gallery(gateway)
    for stop in stops():
        use_pictures(gateway, PicturesHere())
        photo = await create_photo(gateway, gallery, picture(1_000, 500))
        deleting = Deleting(gateway, gateway.db, own(photo))
        use_pictures(gateway, deleting)
        has_crashed = await crash(gateway, photo, stop)
        if not deleting.is_done:
            assert (await gateway.result("deleteContent", deleting.given))["__typename"] == "DeletedPayload"
        for _ in range(2):
            await gateway.run_jobs(days=1, minutes=4)

        assert await bytes_left(gateway) == (0, 0), stop
        if not has_crashed:
            break
    assert stop > 4


class Deleting(PicturesHere):
    """Pictures that delete the photo after the thumbnail is drawn."""

    def __init__(self, gateway: GatewayClient, db: Database, given: dict[str, Any]) -> None:
        self.gateway = gateway
        self.db = db
        self.given = given
        self.is_done = False

    async def thumbnail(self, data: Any, width: int) -> bytes:
        drawn = await super().thumbnail(data, width)
        with database_of(self.gateway, self.db):
            deleted = await self.gateway.result("deleteContent", self.given)
        self.is_done = deleted["__typename"] == "DeletedPayload"
        return drawn


async def test_jobs_that_crash_anywhere_leave_no_bytes_of_an_abandoned_thumbnail(gateway: GatewayClient) -> None:
    use_pictures(gateway, PicturesHere())
    photo = await create_photo(gateway, await create_gallery(gateway), picture(1_000, 500))
    for stop in range(16):
        node = await node_of(gateway, photo)
        # The bytes are stored, and the file is not yet marked as complete.
        with crashing(gateway, 3), pytest.raises(Crash):
            await thumbnails.get_thumbnail(gateway.state.database, node, 80, PicturesHere(), now=gateway.clock.now())
        assert await bytes_left(gateway) == (2, 2)
        gateway.clock.advance(minutes=4)
        with crashing(gateway, stop) as faulty, stopping():
            await photo_jobs.finish_uploads(gateway.state.database, now=gateway.clock.now())
        for _ in range(2):
            await gateway.run_jobs(days=1, minutes=4)

        assert await bytes_left(gateway) == (1, 1), stop
        if not faulty.has_crashed:
            break
    assert 1 < stop < 15


async def test_a_thumbnail_can_be_made_before_the_file_of_its_photo_is_settled(gateway: GatewayClient) -> None:
    use_pictures(gateway, PicturesHere())
    photo = await create_photo(gateway, await create_gallery(gateway), picture(1_000, 500))
    unsettled = {"$set": {"length": 0, "metadata.unsettled": SystemClock().now()}}
    await gateway.db[FILES].update_one({"_id": await file_of(gateway, photo)}, unsettled)

    assert (await small(gateway, photo, 80)).size == (80, 40)
