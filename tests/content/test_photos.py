"""Photos: uploads and replacements, and what other callers see meanwhile."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
from gridfs import GridFSBucket
from PIL import Image
from pymongo import MongoClient

from portico.gateway.settings import Settings
from portico.schema.catalog.merchants import MERCHANT
from tests.content.support.photos import (
    CHUNK,
    Slow,
    answer,
    bytes_of,
    create_gallery,
    create_photo,
    noise,
    photo_input,
    picture,
    result,
    send,
    sha256,
    stored,
)
from tests.content.support.site import create_section, own
from tests.support.harness import GatewayClient, running
from tests.support.ids import key_in
from tests.support.interruptions import database_of, interrupted
from tests.support.multipart import body_of, part

pytestmark = [pytest.mark.both_drivers, pytest.mark.usefixtures("sound")]

SEEN = """
query ($path: String!) {
  content(path: $path) {
    __typename nonce title ... on Photo { url thumbnailUrl contentType length width height checksum locked }
  }
}
"""


async def test_an_uploaded_photo_equals_the_sent_file(gateway: GatewayClient) -> None:
    gallery = await create_gallery(gateway, slug="gallery")
    data = noise(3)

    photo = await create_photo(gateway, gallery, data, slug="noise", title="Noise", tags=["loud", "grey"])

    assert photo["path"] == "/gallery/noise"
    assert photo["contentType"] == "image/png"
    assert (photo["length"], photo["checksum"]) == (len(data), sha256(data))
    assert (photo["width"], photo["height"]) == Image.open(io.BytesIO(data)).size
    assert photo["locked"] is None
    assert photo["tags"] == ["loud", "grey"]
    assert photo["url"].endswith(f"/{sha256(data)}/noise.png")
    assert await bytes_of(gateway, photo) == data
    assert await stored(gateway.db) == (1, 3)


async def test_a_photo_is_found_like_any_other_node(gateway: GatewayClient) -> None:
    gallery = await create_gallery(gateway, slug="gallery")
    photo = await create_photo(gateway, gallery, slug="one", tags=["sea"])
    text = """
    query ($id: ID!) {
      node(id: $id) { ... on Photo { slug url } }
      content(path: "/gallery") { ... on Section { children { nodes { __typename ... on Photo { width } } } } }
      contentByTag(tag: "sea") { nodes { ... on Photo { checksum } } }
    }
    """

    found = await gateway.data(text, {"id": photo["id"]}, token=None)

    assert found == {
        "node": {"slug": "one", "url": photo["url"]},
        "content": {"children": {"nodes": [{"__typename": "Photo", "width": 40}]}},
        "contentByTag": {"nodes": [{"checksum": photo["checksum"]}]},
    }


async def test_any_driver_reads_the_file_from_gridfs(gateway: GatewayClient, settings: Settings) -> None:
    data = noise(6)
    photo = await create_photo(gateway, await create_gallery(gateway), data)
    node = await gateway.stored("cms.nodes", {"_id": key_in("ContentNode", photo["id"])})

    with MongoClient[dict[str, Any]](settings.mongodb_uri) as client:
        out = GridFSBucket(client[settings.database], "cms.assets").open_download_stream(node["detail"]["file"])
        assert out.read() == data
        assert (out.length, out.chunk_size, out.filename) == (len(data), CHUNK, "a-photo.png")


async def test_a_replaced_photo_has_the_new_bytes_and_another_url(gateway: GatewayClient) -> None:
    old, new = picture(color="red"), picture(20, 50, "JPEG")
    photo = await create_photo(gateway, await create_gallery(gateway), old)

    replaced = await result(gateway, "replacePhoto", own(photo), new)

    assert replaced["__typename"] == "PhotoPayload"
    found = replaced["photo"]
    assert (found["contentType"], found["width"], found["height"]) == ("image/jpeg", 20, 50)
    assert found["checksum"] == sha256(new)
    assert found["nonce"] != photo["nonce"]
    assert found["url"] != photo["url"]
    assert await bytes_of(gateway, found) == new
    assert (await gateway.http.get(photo["url"])).status_code == 404
    # Readers of the old bytes have a minute.
    assert await stored(gateway.db) == (2, 2)
    await gateway.run_jobs()
    assert await stored(gateway.db) == (2, 2)
    await gateway.run_jobs(seconds=61)
    assert await stored(gateway.db) == (1, 1)


async def test_a_photo_can_be_replaced_by_the_same_bytes(gateway: GatewayClient) -> None:
    photo = await create_photo(gateway, await create_gallery(gateway), picture())

    replaced = await result(gateway, "replacePhoto", own(photo), picture())
    await gateway.run_jobs(seconds=61)

    assert replaced["photo"]["url"] == photo["url"]
    assert await bytes_of(gateway, photo) == picture()


async def _once(body: bytes) -> AsyncIterator[bytes]:
    yield body


async def test_only_editors_upload_photos(gateway: GatewayClient) -> None:
    gallery = await create_gallery(gateway)
    given = photo_input(gallery)

    for token, code in ((None, "UNAUTHENTICATED"), (gateway.token(roles=[MERCHANT]), "FORBIDDEN")):
        refused = await answer(gateway, "uploadPhoto", given, noise(2), token=token)
        assert refused.codes == [code]
    expired = await send(gateway, "uploadPhoto", given, noise(2), token="nonsense")

    assert expired.status_code == 401
    assert await stored(gateway.db) == (0, 0)


async def test_other_errors_in_the_input_are_reported(gateway: GatewayClient) -> None:
    gallery, folder = await create_gallery(gateway), await create_section(gateway, "FOLDER")
    photo = await create_photo(gateway, gallery, slug="taken")
    cases: list[tuple[dict[str, Any], str, Any]] = [
        ({"slug": "taken"}, "SlugTaken", {"slug": "taken"}),
        ({"slug": "Not a slug"}, "InvalidInput", {"path": ["slug"]}),
        ({"title": " "}, "InvalidInput", {"path": ["title"]}),
        ({"tags": ["", "b"]}, "InvalidInput", {"path": ["tags", "0"]}),
        ({"galleryId": folder["id"]}, "InvalidInput", {"path": ["galleryId"]}),
        ({"galleryId": photo["id"]}, "InvalidInput", {"path": ["galleryId"]}),
        ({"galleryId": "nonsense"}, "NotFound", {"missingId": None}),
    ]
    for fields, kind, facts in cases:
        found = await result(gateway, "uploadPhoto", photo_input(gallery, **{"slug": "new", **fields}), noise(2))

        assert found["__typename"] == kind, fields
        assert found.items() >= facts.items()
    assert await stored(gateway.db) == (1, 1)


async def test_only_a_photo_with_a_current_nonce_can_be_replaced(gateway: GatewayClient) -> None:
    gallery = await create_gallery(gateway)
    photo = await create_photo(gateway, gallery, title="As it was")

    missing = await result(gateway, "replacePhoto", {"id": "nonsense", "nonce": "x"}, picture())
    other = await result(gateway, "replacePhoto", own(gallery), picture())
    late = await result(gateway, "replacePhoto", {"id": photo["id"], "nonce": "another"}, picture())

    assert missing["__typename"] == other["__typename"] == "NotFound"
    assert late["__typename"] == "EditConflict"
    assert late["current"] == {"nonce": photo["nonce"], "title": "As it was"}
    assert (late["baseText"], late["diff"], late["mergedText"]) == (None, "", None)


async def test_a_file_cannot_be_given_as_a_value(gateway: GatewayClient) -> None:
    gallery = await create_gallery(gateway)
    text = "mutation ($input: UploadPhotoInput!) { uploadPhoto(input: $input) { __typename } }"
    literal = 'mutation { replacePhoto(input: {id: "a", nonce: "b", file: "c"}) { __typename } }'

    for value in ("a text", 1, {"file": 1}, None):
        refused = await gateway.ask(text, {"input": photo_input(gallery, file=value)})
        assert refused.codes == ["BAD_USER_INPUT"]
    written = await gateway.ask(literal)

    assert written.codes == ["GRAPHQL_VALIDATION_FAILED"]
    assert "multipart" in written.body["errors"][0]["message"]


async def test_a_request_may_contain_several_photos(gateway: GatewayClient) -> None:
    gallery = await create_gallery(gateway)
    text = """
    mutation ($a: UploadPhotoInput!, $b: UploadPhotoInput!) {
      a: uploadPhoto(input: $a) { ... on PhotoPayload { photo { slug checksum } } }
      b: uploadPhoto(input: $b) { ... on PhotoPayload { photo { slug checksum } } }
    }
    """
    first, second = noise(2), noise(2, seed=2)
    variables = {name: photo_input(gallery, slug=name, file=None) for name in "ab"}
    parts = [
        part("operations", json.dumps({"query": text, "variables": variables}).encode()),
        part("map", b'{"x": ["variables.a.file"], "y": ["variables.b.file"]}'),
        part("x", first, filename="x"),
        part("y", second, filename="y"),
    ]

    response = await send(gateway, "uploadPhoto", {}, b"", content=_once(body_of(parts)))

    assert response.json()["data"] == {
        "a": {"photo": {"slug": "a", "checksum": sha256(first)}},
        "b": {"photo": {"slug": "b", "checksum": sha256(second)}},
    }


async def test_a_multipart_query_has_the_usual_time_limit(settings: Settings) -> None:
    async with running(replace(settings, operation_seconds=1)) as gateway:
        body = body_of([part("operations", b'{"query": "{ categories { nodes { id } } }"}'), part("map", b"{}")])
        db = gateway.db

        with database_of(gateway, interrupted(db, None, None, lambda: asyncio.sleep(20))):
            late = await send(gateway, "uploadPhoto", {}, b"", content=_once(body))
        in_time = await send(gateway, "uploadPhoto", {}, b"", content=_once(body))

    assert late.json()["errors"][0]["extensions"]["code"] == "TIMEOUT"
    assert in_time.json() == {"data": {"categories": {"nodes": []}}}


async def test_only_editors_see_a_photo_until_its_bytes_are_complete(gateway: GatewayClient) -> None:
    gallery = await create_gallery(gateway, slug="gallery")
    given = photo_input(gallery)
    slow = Slow("uploadPhoto", given, noise(3))
    upload = asyncio.create_task(send(gateway, "uploadPhoto", given, b"", content=aiter(slow)))
    await slow.is_waiting.wait()

    by_editor = (await gateway.data(SEEN, {"path": "/gallery/a-photo"}))["content"]
    by_reader = (await gateway.data(SEEN, {"path": "/gallery/a-photo"}, token=None))["content"]
    rival = await result(gateway, "uploadPhoto", given, picture())
    locked = await result(
        gateway,
        "replacePhoto",
        {"id": await id_at(gateway, "/gallery/a-photo"), "nonce": by_editor["nonce"]},
        picture(),
    )
    slow.may_go_on.set()
    uploaded = (await upload).json()["data"]["uploadPhoto"]

    assert by_reader is None
    assert (
        by_editor.items() >= {"__typename": "Photo", "url": "", "thumbnailUrl": "", "length": 0, "checksum": ""}.items()
    )
    assert by_editor["locked"] is not None
    assert rival["__typename"] == "SlugTaken"
    assert (locked["__typename"], locked["since"]) == ("PhotoLocked", by_editor["locked"])
    assert uploaded["__typename"] == "PhotoPayload"
    assert (await gateway.data(SEEN, {"path": "/gallery/a-photo"}, token=None))["content"]["locked"] is None


async def id_at(gateway: GatewayClient, path: str) -> str:
    found = await gateway.data("query ($path: String!) { content(path: $path) { id } }", {"path": path})
    return str(found["content"]["id"])


async def test_the_old_bytes_are_served_until_the_new_ones_are_complete(gateway: GatewayClient) -> None:
    photo = await create_photo(gateway, await create_gallery(gateway, slug="gallery"), picture(color="red"))
    given = own(photo)
    slow = Slow("replacePhoto", given, noise(3))
    upload = asyncio.create_task(send(gateway, "replacePhoto", given, b"", content=aiter(slow)))
    await slow.is_waiting.wait()

    meanwhile = (await gateway.data(SEEN, {"path": "/gallery/a-photo"}, token=None))["content"]
    old = await bytes_of(gateway, photo)
    rival = await result(gateway, "replacePhoto", given, picture())
    slow.may_go_on.set()
    replaced = (await upload).json()["data"]["replacePhoto"]

    assert old == picture(color="red")
    assert (meanwhile["url"], meanwhile["nonce"]) == (photo["url"], photo["nonce"])
    assert (rival["__typename"], rival["since"]) == ("PhotoLocked", meanwhile["locked"])
    assert replaced["photo"]["checksum"] == sha256(noise(3))


async def test_exactly_one_of_many_concurrent_replacements_succeeds(gateway: GatewayClient) -> None:
    photo = await create_photo(gateway, await create_gallery(gateway))
    given = own(photo)
    pictures = [noise(2, seed=number) for number in range(8)]

    answers = await asyncio.gather(*(result(gateway, "replacePhoto", given, data) for data in pictures))

    done = [found["photo"] for found in answers if found["__typename"] == "PhotoPayload"]
    assert len(done) == 1
    assert {found["__typename"] for found in answers} <= {"PhotoPayload", "PhotoLocked", "EditConflict"}
    assert sha256(await bytes_of(gateway, done[0])) == done[0]["checksum"]
    assert done[0]["checksum"] in map(sha256, pictures)
    await gateway.run_jobs(days=2)
    assert await stored(gateway.db) == (1, 2)
    assert await gateway.db["cms.assets.files"].count_documents({}) == 1


async def test_exactly_one_of_many_uploads_to_one_path_succeeds(gateway: GatewayClient) -> None:
    given = photo_input(await create_gallery(gateway))

    answers = await asyncio.gather(*(result(gateway, "uploadPhoto", given, noise(2, seed=n)) for n in range(8)))

    assert sorted(found["__typename"] for found in answers) == ["PhotoPayload", *["SlugTaken"] * 7]
    await gateway.run_jobs(days=2)
    assert await stored(gateway.db) == (1, 2)


async def test_a_tagged_photo_shows_its_row_among_the_nodes_with_the_tag(gateway: GatewayClient) -> None:
    gallery = await create_gallery(gateway)

    tagged = await result(gateway, "uploadPhoto", photo_input(gallery, tags=["news"]), picture())
    other = await result(gateway, "uploadPhoto", photo_input(gallery, slug="other"), picture())

    listed = (await gateway.data('{ contentByTag(tag: "news") { edges { cursor node { id } } } }'))["contentByTag"]
    assert listed["edges"] == [tagged["taggedEdge"]]
    assert other["taggedEdge"] is None
