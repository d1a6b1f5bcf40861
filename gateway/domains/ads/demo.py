"""The demo's ads: house campaigns in a zone of the category pages and a zone of the blog."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

from portico.gateway.demo.loading import Demo

CAMPAIGNS = Path(__file__).parent / "data" / "campaigns.jsonl"


async def load(demo: Demo) -> None:
    """Imports the campaigns with their ads and banners. Idempotent: what was shown stays counted."""
    file = await asyncio.to_thread(_with_banners, demo.folder)
    await demo.load_files("campaigns", [file])


def _with_banners(folder: Path) -> Path:
    """Writes the file of the campaigns into the folder, and draws the banners beside it. Returns the file."""
    from .banners import BANNERS, draw  # noqa: PLC0415 - only the demo needs Pillow

    file = folder / CAMPAIGNS.name
    shutil.copyfile(CAMPAIGNS, file)
    for banner in BANNERS:
        (folder / f"{banner.name}.png").write_bytes(draw(banner))
    return file
