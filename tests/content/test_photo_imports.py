"""`portico import photos`, and the demo's gallery."""

from __future__ import annotations

import asyncio
import io
from pathlib import Path
from typing import Any

import orjson
import pytest
from rich.console import Console

from bench.dataset import shared_folder
from portico.gateway.cli import data as cli_data
from portico.gateway.clock import SystemClock
from portico.gateway.demo import demo_token
from portico.gateway.domains.content.gallery import hang_pictures
from portico.gateway.domains.content.landscapes import LANDSCAPES, draw
from portico.gateway.settings import Settings
from portico.resolvers.content.photo_uploads import UploadRules
from portico.schema.roles import Role
from tests.support import real_data
from tests.support.harness import GatewayClient, assert_invariants
from tests.support.photos import bytes_of, picture, sha256, stored
from tests.support.site import create_page

Line = dict[str, Any]
PHOTOS = """query ($path: String!) { content(path: $path) { ... on Section {
  kind children(first: 100) { nodes {
    slug title tags author { name } ... on Photo { contentType width height length checksum url }
  } }
} } }"""


async def imported(settings: Settings, folder: Path, lines: list[Line]) -> list[str]:
    """What the command prints, a line each."""
    file = folder / "photos.jsonl"
    file.write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in lines))
    return await told_of(settings, file)


async def told_of(settings: Settings, file: Path) -> list[str]:
    printed = io.StringIO()
    console = Console(file=printed, width=300)
    await cli_data.import_files(settings, "photos", [file], console, console)
    return [line.removeprefix(f"{file}:").strip() for line in printed.getvalue().splitlines() if line.strip()]


async def photos_at(gateway: GatewayClient, path: str) -> list[Line]:
    found: list[Line] = (await gateway.data(PHOTOS, {"path": path}, token=None))["content"]["children"]["nodes"]
    return found


async def test_files_become_photos_and_nothing_happens_twice(
    gateway: GatewayClient, settings: Settings, tmp_path: Path
) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "One Picture.PNG").write_bytes(picture())
    (tmp_path / "sub" / "two.jpg").write_bytes(picture(form="JPEG"))
    lines: list[Line] = [
        {"file": "One Picture.PNG", "title": "One"},
        {"file": "sub/two.jpg", "title": "Two", "slug": "second", "author": "Ann", "tags": ["sea"]},
    ]

    first = await imported(settings, tmp_path, lines)
    again = await imported(settings, tmp_path, lines)
    (tmp_path / "One Picture.PNG").write_bytes(picture(color="red"))
    lines[1] |= {"title": "Two, again", "tags": ["sky"]}
    changed = await imported(settings, tmp_path, lines)

    assert (first, again, changed) == (["photos: 2 created"], ["photos: 2 unchanged"], ["photos: 2 changed"])
    one, two = await photos_at(gateway, "/gallery")
    assert (one["slug"], one["author"], one["checksum"]) == (
        "one-picture",
        {"name": "import"},
        sha256(picture(color="red")),
    )
    assert (two["slug"], two["title"], two["tags"], two["author"]) == (
        "second",
        "Two, again",
        ["sea", "sky"],
        {"name": "Ann"},
    )
    assert await bytes_of(gateway, two) == picture(form="JPEG")


async def test_pictures_may_be_in_the_folder_that_is_called_after_their_list_which_may_tell_more_of_them(
    gateway: GatewayClient, settings: Settings, tmp_path: Path
) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "one.png").write_bytes(picture())

    told = await imported(settings, tmp_path, [{"file": "one.png", "title": "One", "width": 8, "license": "CC0"}])

    assert told == ["photos: 1 created"]
    assert await bytes_of(gateway, (await photos_at(gateway, "/gallery"))[0]) == picture()
    await assert_invariants(gateway)


async def test_each_bad_record_is_named_and_the_others_are_kept(
    gateway: GatewayClient, settings: Settings, tmp_path: Path
) -> None:
    folder = tmp_path / "photos"
    folder.mkdir()
    (tmp_path / "outside.png").write_bytes(picture())
    (folder / "good.png").write_bytes(picture())
    (folder / "bad.png").write_bytes(b"<svg/>")
    (folder / "link.png").symlink_to(tmp_path / "outside.png")
    page = await create_page(gateway, slug="a-page")
    good = {"file": "good.png", "title": "Good"}

    told = await imported(
        settings,
        folder,
        [
            good,
            {"title": "No file"},
            {**good, "file": "missing.png"},
            {**good, "file": "../outside.png"},
            {**good, "file": "link.png"},
            {**good, "file": "."},
            {**good, "slug": "Not A Slug"},
            {**good, "slug": "other", "sha256": "0" * 64},
            {**good, "slug": "other", "gallery": "nowhere"},
            {**good, "slug": "other", "gallery": "/no/where"},
            {**good, "slug": "other", "gallery": f"/{page['slug']}"},
            {**good, "slug": "bad", "file": "bad.png"},
            {**good, "slug": "", "file": "good.png", "title": "Good"},
            {**good, "file": "a\0b.png"},
            {**good, "file": "a" * 5_000},
        ],
    )

    assert told == [
        "2: file: is missing",
        "3: file: there is no such file",
        "4: file: it leads out of the folder",
        "5: file: it leads out of the folder",
        "6: file: there is no such file",
        "14: file: there is no such file",
        "15: file: there is no such file",
        "7: slug: Slug may hold letters a to z, digits, and '-', '_' or '.' between them.",
        "8: sha256: the file is another: its bytes have another checksum",
        "9: gallery: a path is wanted, e.g. /gallery",
        "10: gallery: there is no section /no",
        "11: gallery: /a-page is no gallery",
        "12: The file is none of these: image/jpeg, image/png, image/gif, image/webp, image/avif.",
        "photos: 1 created, 1 unchanged, 13 failed",
    ]
    assert [photo["slug"] for photo in await photos_at(gateway, "/gallery")] == ["good"]
    await assert_invariants(gateway)


async def test_what_would_be_stored_is_compared_and_not_what_is_written(
    gateway: GatewayClient, settings: Settings, tmp_path: Path
) -> None:
    (tmp_path / "one.png").write_bytes(picture())
    line = {"file": "one.png", "title": " One  and\ttwo e\u0301", "tags": ["a  b", " e\u0301 "]}
    line |= {"sha256": sha256(picture()).upper()}

    told = [await imported(settings, tmp_path, [line]) for _ in range(2)]

    assert told == [["photos: 1 created"], ["photos: 1 unchanged"]]
    (photo,) = await photos_at(gateway, "/gallery")
    assert (photo["title"], photo["tags"]) == ("One and two \xe9", ["a b", "\xe9"])


async def test_two_imports_at_once_both_find_the_photos_as_they_are_to_be(
    gateway: GatewayClient, settings: Settings, tmp_path: Path
) -> None:
    lines: list[Line] = []
    for number in range(3):
        (tmp_path / f"p{number}.png").write_bytes(picture(color="red"))
        lines.append({"file": f"p{number}.png", "title": f"Photo {number}", "tags": ["a"]})

    for color in ("red", "blue"):
        (tmp_path / "p1.png").write_bytes(picture(color=color))
        told = await asyncio.gather(*(imported(settings, tmp_path, lines) for _ in range(2)))
        # One of the two has made or changed each.
        assert not any("failed" in line or ":" in line[:3] for lines_of in told for line in lines_of), told
        found = await photos_at(gateway, "/gallery")
        assert [photo["slug"] for photo in found] == ["p0", "p1", "p2"]
        assert await bytes_of(gateway, found[1]) == picture(color=color)
    await assert_invariants(gateway)


async def test_the_name_of_an_author_has_a_limit_and_the_photo_behind_it_is_stored(
    gateway: GatewayClient, settings: Settings, tmp_path: Path
) -> None:
    (tmp_path / "one.png").write_bytes(picture())
    line = {"file": "one.png", "title": "One"}
    authors = ["x" * 9_000_000, "x" * 201, "\u200b", " Ann ", ""]

    told = await imported(
        settings, tmp_path, [{**line, "slug": f"p{number}", "author": author} for number, author in enumerate(authors)]
    )

    assert told == [
        "1: author: Author has 9,000,000 characters; 200 are allowed.",
        "2: author: Author has 201 characters; 200 are allowed.",
        "3: author: Author must not be empty: it shows nothing.",
        "photos: 2 created, 3 failed",
    ]
    assert {photo["author"]["name"] for photo in await photos_at(gateway, "/gallery")} == {"Ann", "import"}


async def test_real_photos_are_what_their_list_says(gateway: GatewayClient, settings: Settings) -> None:
    rows = {row["file"]: row for row in real_data.rows("photos")}
    if not (shared_folder() / "photos").is_dir():
        pytest.skip("the pictures are not there")

    told = await told_of(settings, shared_folder() / "photos.jsonl")
    found = {photo["checksum"]: photo for photo in await photos_at(gateway, "/gallery")}

    assert told == [f"photos: {len(rows)} created"]
    for row in rows.values():
        photo = found[row["sha256"]]
        assert (photo["title"], photo["author"]["name"]) == (row["title"], row["author"])
        assert (photo["width"], photo["height"], photo["length"]) == (row["width"], row["height"], row["bytes"])
        assert photo["contentType"] == f"image/{row['format'].lower()}"
        assert sha256(await bytes_of(gateway, photo)) == row["sha256"]
        assert (await gateway.http.get(photo["url"], params={"width": "320"})).status_code == 200
    await assert_invariants(gateway)


async def test_the_demo_has_a_gallery_of_pictures_that_it_has_drawn(gateway: GatewayClient) -> None:
    now = SystemClock().now()
    gateway.roles, gateway.subject = (Role.ADMIN,), demo_token.SUBJECT

    hung = [await hang_pictures(gateway.db, gateway.state.resources.of(UploadRules), now=now) for _ in range(2)]

    found = {photo["slug"]: photo for photo in await photos_at(gateway, "/gallery")}
    assert hung == [len(LANDSCAPES)] * 2
    assert sorted(found) == sorted(landscape.slug for landscape in LANDSCAPES)
    for landscape in LANDSCAPES:
        assert (found[landscape.slug]["width"], found[landscape.slug]["height"]) == (1_600, 1_000)
        assert found[landscape.slug]["checksum"] == sha256(draw(landscape))
    assert (await stored(gateway.db))[0] == len(LANDSCAPES)


def test_a_landscape_is_drawn_the_same_every_time() -> None:
    first = draw.__wrapped__(LANDSCAPES[0])

    assert draw.__wrapped__(LANDSCAPES[0]) == first
    assert draw.__wrapped__(LANDSCAPES[1]) != first
