"""The covers of the demo's blog entries: pictures of its gallery before their texts."""

from __future__ import annotations

import json
from pathlib import Path

from portico.resolvers.content.nodes import find_by_paths
from portico.resolvers.content.photos import path_of_bytes
from portico.resolvers.documents import Database

from .records import GALLERY

# The slugs of entries, with those of their pictures.
_COVERS = {
    "what-is-on-the-turntable": "red-evening",
    "discs-that-sound-as-good-as-they-look": "winter-night",
}


async def with_covers(db: Database, posts: Path, folder: Path) -> Path:
    """Writes the posts to a file in the folder, some with a picture before their text. Returns the file.

    An entry whose picture is gone has none.
    """
    photos = await find_by_paths(db, [(GALLERY, picture) for picture in _COVERS.values()])
    written = folder / posts.name
    with posts.open() as lines, written.open("w") as file:
        for post in map(json.loads, lines):
            photo = photos.get((GALLERY, _COVERS.get(post["slug"], "")))
            if photo is not None:
                post["text"] = f"![{photo['title']}]({path_of_bytes(photo)})\n\n{post['text']}"
            file.write(f"{json.dumps(post)}\n")
    return written
