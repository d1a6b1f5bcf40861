"""The demo's ads: house campaigns in a zone of the category pages and a zone of the blog."""

from __future__ import annotations

from pathlib import Path

from portico.gateway.demo.loading import Demo

CAMPAIGNS = Path(__file__).parent / "data" / "campaigns.jsonl"


async def load(demo: Demo) -> None:
    """Imports the campaigns with their ads. Idempotent: what was shown stays counted."""
    await demo.load_files("campaigns", [CAMPAIGNS])
