"""The demo's discussions of its products and its blog."""

from __future__ import annotations

from pathlib import Path

import orjson

from portico.gateway.demo.loading import Demo
from portico.resolvers.attachments import Hosts

COMMENTS = Path(__file__).parent / "data" / "comments.jsonl"


async def load(demo: Demo) -> None:
    """Loads the comments on the objects of the enabled domains."""
    discussed = [("product", "Product"), ("content", "ContentNode")]
    hosts = demo.resources.of(Hosts)
    fields = [field for field, kind in discussed if kind in hosts]
    lines = COMMENTS.read_bytes().splitlines(keepends=True)
    file = demo.folder / COMMENTS.name
    file.write_bytes(b"".join(line for line in lines if any(field in orjson.loads(line) for field in fields)))
    await demo.load_files("comments", [file])
