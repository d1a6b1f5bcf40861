"""The plain fields of products: those that are stored as the merchant gives them.

A plain field is written once, here: as a key of `PlainFields` and an entry of `PLAIN`. The type `Product`, the inputs
of its mutations, the records of its importer and the checks of its writes follow from the entry.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, NotRequired

from portico.resolvers.texts import check_length, require_line, require_slug
from portico.resolvers.typed import TypedDict

MAX_SKU = 100
MAX_TITLE = 500
MAX_DESCRIPTION = 20_000


class PlainFields(TypedDict):
    """What a merchant says about a product in plain values."""

    title: str
    description: str | None
    asin: str | None
    # Unique: see `product_slugs`. A product that was stored by an earlier version has none.
    slug: NotRequired[str | None]
    issue_date: datetime | None


@dataclass(frozen=True)
class PlainField:
    """A plain field.

    Args:     about: its description in the schema.
              check: returns the value as stored, given the value and the name of the field. Raises InvalidInput.
              kind: the type of the value.  is_required: whether every product has it.
    """

    about: str
    check: Callable[[Any, str], Any]
    kind: type = str
    is_required: bool = False


def _check_text(longest: int, value: str | None, name: str) -> str | None:
    return None if value is None else check_length(value, name, longest=longest)


def _check_title(value: str | None, name: str) -> str:
    return require_line(value, name, longest=MAX_TITLE)


def _check_slug(value: str | None, name: str) -> str | None:
    return None if value is None else require_slug(value, name)


def _check_nothing(value: datetime | None, _name: str) -> datetime | None:
    return value


PLAIN: Mapping[str, PlainField] = {
    "title": PlainField("For display.", _check_title, is_required=True),
    "description": PlainField("In plain text.", partial(_check_text, MAX_DESCRIPTION)),
    "asin": PlainField("Amazon's number for it.", partial(_check_text, MAX_SKU)),
    "slug": PlainField(
        "Its name in URLs, which no other product has: lower-case letters, digits, and single `-`, `_` or `.` between "
        "them.",
        _check_slug,
    ),
    "issue_date": PlainField("When the work or the product was released.", _check_nothing, datetime),
}
