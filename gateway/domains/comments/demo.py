"""The demo's discussions: what people say about its products and its blog."""

from __future__ import annotations

from pathlib import Path

from portico.gateway.demo.loading import Demo

COMMENTS = Path(__file__).parent / "data" / "comments.jsonl"


async def load(demo: Demo) -> None:
    await demo.load_files("comments", [COMMENTS])
