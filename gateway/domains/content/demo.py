"""The demo's site: a blog, a page about the shop, and a gallery."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from portico.gateway.demo.loading import OPERATION, Demo
from portico.resolvers.content.creation import NewNode, create_page
from portico.resolvers.content.nodes import find_by_paths
from portico.resolvers.content.photo_uploads import UploadRules
from portico.resolvers.documents import Author, Database

FOLDER = Path(__file__).parent / "data"
POSTS = FOLDER / "posts.jsonl"
ABOUT = FOLDER / "about.md"
_AUTHOR: Author = {"id": "mara", "name": "Mara"}


async def load(demo: Demo) -> None:
    # Only the demo needs Pillow.
    from .covers import with_covers  # noqa: PLC0415
    from .gallery import add_pictures  # noqa: PLC0415

    photos = await add_pictures(demo.db, demo.resources.of(UploadRules), now=demo.now)
    demo.say(f"photos: {photos:,} in the gallery")
    await demo.load_files("posts", [await with_covers(demo.db, POSTS, demo.folder)])
    demo.say(f"pages: {await write_pages(demo.db, now=demo.now):,}")


async def write_pages(db: Database, *, now: datetime) -> int:
    """Creates the missing pages. Returns the number of pages. May be repeated."""
    if await find_by_paths(db, [("about",)], {"_id": 1}):
        return 1
    about = NewNode("about", "About the shop", _AUTHOR, tags=["the shop"])
    await create_page(db, node=about, text=ABOUT.read_text(), now=now, operation_id=f"{OPERATION}about")
    return 1
