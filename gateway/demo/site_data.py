"""The demo's site: a blog and a page of the shop's own, and what people say about them."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from portico.resolvers.content.creation import NewNode, create_page
from portico.resolvers.content.nodes import find_by_paths
from portico.resolvers.documents import Database

FOLDER = Path(__file__).parent / "site"
POSTS = FOLDER / "posts.jsonl"
COMMENTS = FOLDER / "comments.jsonl"
ABOUT = FOLDER / "about.md"
# Whatever begins so is done once, however often the demo is started.
_OPERATION = "k-demo."
_AUTHOR = {"id": "mara", "name": "Mara"}


async def write_pages(db: Database, *, now: datetime) -> int:
    """Puts the pages into the site that are not there. Returns how many there are. May be repeated."""
    if await find_by_paths(db, [("about",)], {"_id": 1}):
        return 1
    about = NewNode("about", "About the shop", _AUTHOR, tags=["the shop"])
    await create_page(db, node=about, text=ABOUT.read_text(), now=now, operation_id=f"{_OPERATION}about")
    return 1
