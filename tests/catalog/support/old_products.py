"""Products in the form of the oldest data."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from portico.resolvers.documents import Document


def album(**fields: Any) -> Document:
    return {
        "sku": "00e8da9b",
        "type": "Audio Album",
        "title": "A Love Supreme",
        "description": "by John Coltrane",
        "asin": "B0000A118M",
        "shipping": {"weight": 6, "dimensions": {"width": 10, "height": 10, "depth": 1}},
        "pricing": {"list": 1200, "retail": 1100, "savings": 100, "pct_savings": 8},
        "details": {
            "title": "A Love Supreme [Original Recording Reissued]",
            "artist": "John Coltrane",
            "genre": ["Jazz", "General"],
            "issue_date": datetime(1965, 1, 1),  # noqa: DTZ001 - as the driver returns it
            "tracks": ["A Love Supreme, Part I: Acknowledgement", "A Love Supreme, Part II: Resolution"],
        },
        **fields,
    }
