"""The covers of the demo's blog entries: pictures of its gallery in their texts."""

from __future__ import annotations

from datetime import datetime

from portico.gateway.demo.loading import OPERATION
from portico.resolvers.content.edits import Edit, edit_text
from portico.resolvers.content.nodes import find_by_paths
from portico.resolvers.content.photos import path_of_bytes
from portico.resolvers.documents import Author, Database

from .gallery import SLUG

_AUTHOR: Author = {"id": "mara", "name": "Mara"}
# The slugs of entries, with those of their pictures.
_COVERS = {
    "what-is-on-the-turntable": "red-evening",
    "discs-that-sound-as-good-as-they-look": "winter-night",
}


async def add_covers(db: Database, *, now: datetime) -> int:
    """Puts a picture before the texts of some entries. Returns how many have one. May be repeated."""
    entries = {("blog", entry): (SLUG, picture) for entry, picture in _COVERS.items()}
    found = await find_by_paths(db, [*entries, *entries.values()])
    for entry, picture in entries.items():
        node, photo = found.get(entry), found.get(picture)
        if node is None or photo is None or node["detail"]["text"].startswith("!["):
            continue
        text = f"![{photo['title']}]({path_of_bytes(photo)})\n\n{node['detail']['text']}"
        edit = Edit(node["_id"], node["nonce"], _AUTHOR, now=now, operation_id=f"{OPERATION}cover of {entry[1]}")
        await edit_text(db, edit, text=text)
    return len(_COVERS)
