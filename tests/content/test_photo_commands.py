"""The commands that uploads and reads of photos send: their number, their shards, and their indexes."""

from __future__ import annotations

import pytest

from tests.content.support.photos import (
    PicturesHere,
    create_gallery,
    create_photo,
    noise,
    photo_input,
    result,
    use_pictures,
)
from tests.content.support.site import own
from tests.support.harness import GatewayClient
from tests.support.routing import unroutable
from tests.support.sending import assert_indexed

_BEGUN = ["insert cms.nodes", "find cms.nodes", "update cms.nodes"]
_CHUNKS = ["insert cms.assets.chunks"] * 2
_EXAMINED = ["find cms.assets.chunks"] * 2
_ENDED = ["findAndModify cms.nodes", "update cms.assets.files"]
# The shard key is the section of a node. A command that knows only the id of a node goes to all shards.
BY_ID = "find cms.nodes _id"


@pytest.fixture(autouse=True)
def _quick(gateway: GatewayClient) -> None:
    use_pictures(gateway, PicturesHere())


@pytest.mark.parametrize(("mutation", "begun"), [("uploadPhoto", _BEGUN), ("replacePhoto", ["update cms.nodes"])])
async def test_an_upload_sends_one_command_per_megabyte_and_a_dozen_others(
    gateway: GatewayClient, mutation: str, begun: list[str]
) -> None:
    gallery = await create_gallery(gateway)
    given = photo_input(gallery) if mutation == "uploadPhoto" else own(await create_photo(gateway, gallery))
    gateway.commands.clear()
    await result(gateway, mutation, given, noise(6))

    # The first command reads the gallery or the photo, and the last one the path for the response.
    read = ["find cms.nodes"]
    expected = [*read, *begun, "insert cms.assets.files", *_CHUNKS, *_EXAMINED, *_ENDED, *read]
    assert gateway.commands.names() == expected
    assert set(unroutable(gateway.commands.sent)) == {BY_ID}
    await assert_indexed(gateway, list(gateway.commands.sent))


async def test_a_deletion_removes_all_files_by_their_ids(gateway: GatewayClient) -> None:
    photo = await create_photo(gateway, await create_gallery(gateway))
    gateway.commands.clear()
    text = "mutation ($input: DeleteContentInput!) { deleteContent(input: $input) { __typename } }"
    await gateway.data(text, {"input": own(photo)})

    assert gateway.commands.names()[-6:-2] == [
        "find cms.assets.files",
        # This command checks whether a retry of the upload has created the node again.
        "find cms.nodes",
        "delete cms.assets.chunks",
        "delete cms.assets.files",
    ]
    of_files = [found for found in unroutable(gateway.commands.sent) if "assets" in found]
    assert of_files == ["find cms.assets.files metadata.node metadata.removed"]
    await assert_indexed(gateway, list(gateway.commands.sent))


async def test_a_download_sends_two_commands_and_one_per_megabyte(gateway: GatewayClient) -> None:
    photo = await create_photo(gateway, await create_gallery(gateway), noise(6))
    for _ in range(2):
        gateway.commands.clear()
        await gateway.http.get(photo["url"])

        assert gateway.commands.names() == ["find cms.nodes", "find cms.assets.files", *["find cms.assets.chunks"] * 2]
        assert unroutable(gateway.commands.sent) == ["find cms.nodes _id type"]
        await assert_indexed(gateway, list(gateway.commands.sent))


async def test_a_page_of_photos_sends_no_command_per_photo(gateway: GatewayClient) -> None:
    gallery = await create_gallery(gateway, slug="gallery")
    for number in range(3):
        await create_photo(gateway, gallery, slug=f"photo-{number}")
    text = """{ content(path: "/gallery") { ... on Section { children { nodes {
      path ... on Photo { url thumbnailUrl width length contentType checksum locked }
    } } } } }"""
    gateway.commands.clear()

    found = await gateway.data(text, token=None)

    assert len(found["content"]["children"]["nodes"]) == 3
    assert gateway.commands.names() == ["find cms.nodes"] * 2
