"""The order of products in a list."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from hypothesis import strategies as st

from portico.resolvers.documents import Document

SORTS = st.sampled_from(["NEWEST", "DISCOUNT_DESC", "PRICE_ASC", "PRICE_DESC", "TITLE_ASC"])


def order(sort: str, found: Document) -> Any:
    """Return the sort key of a document. Ties are sorted by `_id`, in the direction of the order."""
    date = found["issue_date"] or datetime.min  # noqa: DTZ901 - the driver returns times without a zone
    key = {
        "NEWEST": date,
        "DISCOUNT_DESC": found["pricing"]["pct_savings"],
        "PRICE_ASC": found["pricing"]["retail"],
        "PRICE_DESC": found["pricing"]["retail"],
        "TITLE_ASC": found["title"].encode(),
    }[sort]
    return key, found["_id"]
