"""`portico import photos`, and the gallery of the demo."""

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
from portico.gateway.domains.content.gallery import add_pictures
from portico.gateway.domains.content.landscapes import LANDSCAPES, draw
from portico.gateway.settings import Settings
from portico.resolvers.content.photo_uploads import UploadRules
from portico.schema.roles import Role
from tests.content.support.photos import bytes_of, picture, sha256, stored
from tests.content.support.site import create_page
from tests.support import real_data
from tests.support.harness import GatewayClient, assert_invariants

Line = dict[str, Any]
PHOTOS = """query ($path: String!) { content(path: $path) { ... on Section {
  kind children(first: 100) { nodes {
    slug title tags author { name } ... on Photo { contentType width height length checksum url }
  } }
} } }"""


async def imported(settings: Settings, folder: Path, lines: list[Line]) -> list[str]:
    """Import the lines. Return the printed lines."""
    file = folder / "photos.jsonl"
    file.write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in lines))
    return await import_file(settings, file)


async def import_file(settings: Settings, file: Path) -> list[str]:
    printed = io.StringIO()
    console = Console(file=printed, width=300)
    await cli_data.import_files(settings, "photos", [file], console, console)
    return [line.removeprefix(f"{file}:").strip() for line in printed.getvalue().splitlines() if line.strip()]


async def photos_at(gateway: GatewayClient, path: str) -> list[Line]:
    found: list[Line] = (await gateway.data(PHOTOS, {"path": path}, token=None))["content"]["children"]["nodes"]
    return found


async def test_files_are_imported_as_photos_and_a_repeated_import_changes_nothing(
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


async def test_pictures_may_be_in_the_folder_named_after_the_list_and_unknown_fields_are_ignored(
    gateway: GatewayClient, settings: Settings, tmp_path: Path
) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "one.png").write_bytes(picture())

    result = await imported(settings, tmp_path, [{"file": "one.png", "title": "One", "width": 8, "license": "CC0"}])

    assert result == ["photos: 1 created"]
    assert await bytes_of(gateway, (await photos_at(gateway, "/gallery"))[0]) == picture()
    await assert_invariants(gateway)


GOOD = {"file": "good.png", "title": "Good"}
# Records whose file cannot be read, and those that have another fault, with the reasons. All files are read first.
UNREADABLE: list[tuple[dict[str, str], str]] = [
    ({"title": "No file"}, "file: is missing"),
    ({**GOOD, "file": "missing.png"}, "file: there is no such file"),
    ({**GOOD, "file": "../outside.png"}, "file: the file must be in the folder of the import"),
    ({**GOOD, "file": "link.png"}, "file: the file must be in the folder of the import"),
    ({**GOOD, "file": "."}, "file: there is no such file"),
    ({**GOOD, "file": "a\0b.png"}, "file: there is no such file"),
    ({**GOOD, "file": "a" * 5_000}, "file: there is no such file"),
]
REFUSED: list[tuple[dict[str, str], str]] = [
    ({**GOOD, "slug": "Not A Slug"}, "slug: Slug may hold letters a to z, digits, and '-', '_' or '.' between them."),
    ({**GOOD, "slug": "other", "sha256": "0" * 64}, "sha256: the checksum does not match the bytes of the file"),
    ({**GOOD, "slug": "other", "gallery": "nowhere"}, "gallery: it must be a path, e.g. /gallery"),
    ({**GOOD, "slug": "other", "gallery": "/no/where"}, "gallery: there is no section /no"),
    ({**GOOD, "slug": "other", "gallery": "/a-page"}, "gallery: the node /a-page is not a gallery"),
    (
        {**GOOD, "slug": "bad", "file": "bad.png"},
        "The file must have one of these types: image/jpeg, image/png, image/gif, image/webp, image/avif.",
    ),
]


async def test_invalid_records_are_reported_and_the_others_are_imported(gateway: GatewayClient, tmp_path: Path) -> None:
    folder = tmp_path / "photos"
    folder.mkdir()
    (tmp_path / "outside.png").write_bytes(picture())
    (folder / "good.png").write_bytes(picture())
    (folder / "bad.png").write_bytes(b"<svg/>")
    (folder / "link.png").symlink_to(tmp_path / "outside.png")
    await create_page(gateway, slug="a-page")
    invalid = [*UNREADABLE, *REFUSED]

    result = await imported(gateway.settings, folder, [GOOD, *(record for record, _ in invalid), {**GOOD, "slug": ""}])

    reasons = [f"{line}: {reason}" for line, (_, reason) in enumerate(invalid, 2)]
    assert result == [*reasons, "photos: 1 created, 1 unchanged, 13 failed"]
    assert [photo["slug"] for photo in await photos_at(gateway, "/gallery")] == ["good"]
    await assert_invariants(gateway)


async def test_a_repeated_import_compares_normalized_values(gateway: GatewayClient, tmp_path: Path) -> None:
    (tmp_path / "one.png").write_bytes(picture())
    line = {"file": "one.png", "title": " One  and\ttwo e\u0301", "tags": ["a  b", " e\u0301 "]}
    line |= {"sha256": sha256(picture()).upper()}

    result = [await imported(gateway.settings, tmp_path, [line]) for _ in range(2)]

    assert result == [["photos: 1 created"], ["photos: 1 unchanged"]]
    (photo,) = await photos_at(gateway, "/gallery")
    assert (photo["title"], photo["tags"]) == ("One and two \xe9", ["a b", "\xe9"])


async def test_two_concurrent_imports_both_succeed(gateway: GatewayClient, settings: Settings, tmp_path: Path) -> None:
    lines: list[Line] = []
    for number in range(3):
        (tmp_path / f"p{number}.png").write_bytes(picture(color="red"))
        lines.append({"file": f"p{number}.png", "title": f"Photo {number}", "tags": ["a"]})

    for color in ("red", "blue"):
        (tmp_path / "p1.png").write_bytes(picture(color=color))
        result = await asyncio.gather(*(imported(settings, tmp_path, lines) for _ in range(2)))
        # For each photo, one of the two imports has created or changed it.
        assert not any("failed" in line or ":" in line[:3] for lines_of in result for line in lines_of), result
        found = await photos_at(gateway, "/gallery")
        assert [photo["slug"] for photo in found] == ["p0", "p1", "p2"]
        assert await bytes_of(gateway, found[1]) == picture(color=color)
    await assert_invariants(gateway)


async def test_an_invalid_author_is_refused_and_the_next_photos_are_imported(
    gateway: GatewayClient, settings: Settings, tmp_path: Path
) -> None:
    (tmp_path / "one.png").write_bytes(picture())
    line = {"file": "one.png", "title": "One"}
    authors = ["x" * 9_000_000, "x" * 201, "\u200b", " Ann ", ""]

    result = await imported(
        settings, tmp_path, [{**line, "slug": f"p{number}", "author": author} for number, author in enumerate(authors)]
    )

    assert result == [
        "1: author: Author has 9,000,000 characters; 200 are allowed.",
        "2: author: Author has 201 characters; 200 are allowed.",
        "3: author: Author must not be empty: it shows nothing.",
        "photos: 2 created, 3 failed",
    ]
    assert {photo["author"]["name"] for photo in await photos_at(gateway, "/gallery")} == {"Ann", "import"}


async def test_an_import_of_real_photos_matches_their_list(gateway: GatewayClient, settings: Settings) -> None:
    rows = {row["file"]: row for row in real_data.rows("photos")}
    if not (shared_folder() / "photos").is_dir():
        pytest.skip("the pictures are not there")

    result = await import_file(settings, shared_folder() / "photos.jsonl")
    found = {photo["checksum"]: photo for photo in await photos_at(gateway, "/gallery")}

    assert result == [f"photos: {len(rows)} created"]
    for row in rows.values():
        photo = found[row["sha256"]]
        assert (photo["title"], photo["author"]["name"]) == (row["title"], row["author"])
        assert (photo["width"], photo["height"], photo["length"]) == (row["width"], row["height"], row["bytes"])
        assert photo["contentType"] == f"image/{row['format'].lower()}"
        assert sha256(await bytes_of(gateway, photo)) == row["sha256"]
        assert (await gateway.http.get(photo["url"], params={"width": "320"})).status_code == 200
    await assert_invariants(gateway)


async def test_the_demo_has_a_gallery_of_generated_pictures(gateway: GatewayClient) -> None:
    now = SystemClock().now()
    gateway.roles, gateway.subject = (Role.ADMIN,), demo_token.SUBJECT

    hung = [await add_pictures(gateway.db, gateway.state.resources.of(UploadRules), now=now) for _ in range(2)]

    found = {photo["slug"]: photo for photo in await photos_at(gateway, "/gallery")}
    assert hung == [len(LANDSCAPES)] * 2
    assert sorted(found) == sorted(landscape.slug for landscape in LANDSCAPES)
    for landscape in LANDSCAPES:
        assert (found[landscape.slug]["width"], found[landscape.slug]["height"]) == (1_600, 1_000)
        assert found[landscape.slug]["checksum"] == sha256(draw(landscape))
    assert (await stored(gateway.db))[0] == len(LANDSCAPES)


def test_a_landscape_is_always_drawn_the_same() -> None:
    first = draw.__wrapped__(LANDSCAPES[0])

    assert draw.__wrapped__(LANDSCAPES[0]) == first
    assert draw.__wrapped__(LANDSCAPES[1]) != first
