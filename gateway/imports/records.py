"""The form of imported records: the fields of the schema's `Create…Input`, with natural keys where those have ids."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path, PurePath
from typing import Any

from graphql import GraphQLError

from portico.gateway.demo.gallery import SLUG, FileBeside
from portico.resolvers.catalog.category_imports import CategoryRecord
from portico.resolvers.catalog.product_imports import ProductRecord
from portico.resolvers.catalog.product_rules import MAX_LIST, MAX_SKU, Price, ProductFields
from portico.resolvers.comments.discussions import DOCUMENTS
from portico.resolvers.comments.imports import CommentRecord
from portico.resolvers.comments.storages import STORAGES
from portico.resolvers.content import nodes as content
from portico.resolvers.content.imports import PostRecord
from portico.resolvers.content.photo_imports import PhotoRecord
from portico.resolvers.errors import InvalidInput
from portico.resolvers.text import MAX_AUTHOR, MAX_SLUG, check_length, require_text
from portico.schema.scalars import check_big_int, parse_instant

Record = Mapping[str, Any]
# The longest path of a node.
_MAX_PATH = content.MAX_DEPTH * (MAX_SLUG + 1)


def category_record(given: Any) -> CategoryRecord:
    """{"slug", "name", "parent"?: a slug}. Raises InvalidInput."""
    record = _object(given, {"slug", "name", "parent"})
    return CategoryRecord(
        slug=_key(record, "slug"), name=_text(record, "name"), parent=_optional(record, "parent", _as_key)
    )


def product_record(given: Any) -> ProductRecord:
    """The fields of `CreateProductInput`, with `categories`: slugs, for `categoryIds`. Raises InvalidInput."""
    record = _object(given, _PRODUCT)
    pricing = _object(record.get("pricing"), {"list", "retail"}, "pricing")
    shipping = _optional(record, "shipping", _shipping)
    weight, dimensions = shipping or (None, None)
    fields = ProductFields(
        sku=_key(record, "sku", longest=MAX_SKU),
        type=_text(record, "type"),
        title=_text(record, "title"),
        list_price=_price(pricing, "list"),
        retail_price=_price(pricing, "retail"),
        description=_optional(record, "description", _as_text),
        asin=_optional(record, "asin", _as_text),
        weight=weight,
        dimensions=dimensions,
        properties=_optional(record, "properties", _properties) or (),
        issue_date=_optional(record, "issueDate", _instant),
        details={} if record.get("details") is None else record["details"],
    )
    return ProductRecord(fields, _optional(record, "categories", _keys) or ())


def photo_record(given: Any, records: Path) -> PhotoRecord:
    """The fields of `UploadPhotoInput`, with `file`, a name beside the file of the records, and `gallery`, a path.

    Other fields are passed over: lists of pictures tell much of them. Raises InvalidInput.
    """
    record = _object(given, None)
    name = _text(record, "file")
    return PhotoRecord(
        slug=(_optional(record, "slug", _as_key) or _slug_of(name)).strip(),
        title=_text(record, "title"),
        gallery=_optional(record, "gallery", _as_text) or f"/{SLUG}",
        author=_optional(record, "author", _as_author) or "import",
        tags=tuple(_optional(record, "tags", _texts) or ()),
        read=FileBeside(records, name).read,
        checksum=_optional(record, "sha256", _as_text),
    )


def comment_record(given: Any) -> CommentRecord:
    """{"content": a path or "product": a SKU, "id", "parent"?: an id, "author", "posted", "text", "edited"?,
    "storage"?}. Raises InvalidInput.
    """
    record = _object(given, {"content", "product", "id", "parent", "author", "posted", "text", "edited", "storage"})
    subjects = [name for name in ("content", "product") if record.get(name) is not None]
    if len(subjects) != 1:
        raise InvalidInput("either a `content` or a `product` is wanted")
    subject = check_length(_text(record, subjects[0]), subjects[0], longest=_MAX_PATH)
    if subject.startswith("/") is not (subjects[0] == "content"):
        raise InvalidInput("a path begins with a slash, a SKU with something else", subjects[0])
    storage = _optional(record, "storage", _as_text) or DOCUMENTS
    if storage not in STORAGES:
        raise InvalidInput(f"it must be one of {', '.join(STORAGES)}", "storage")
    return CommentRecord(
        subject=subject,
        name=_as_key(_text(record, "id"), "id"),
        parent=_optional(record, "parent", _as_key),
        author=_text(record, "author"),
        text=_text(record, "text"),
        posted=_instant(record.get("posted"), "posted"),
        edited=_optional(record, "edited", _instant),
        storage=storage,
    )


def _slug_of(name: str) -> str:
    """The name of a file as a slug."""
    return re.sub(r"[^a-z0-9]+", "-", PurePath(name).stem.lower()).strip("-")


def post_record(given: Any) -> PostRecord:
    """A blog entry in the form of the front matter of a file with its text. Raises InvalidInput.

    {"slug", "title", "text", "blog"?: a path, "tags"?, "publishOn" or "date"?, "author" or "authors"?}. Other fields
    are passed over: front matter has many.
    """
    record = _object(given, None)
    path = content.path_in(_text(record, "blog") if "blog" in record else "/blog")
    if path is None:
        raise InvalidInput("a path such as '/blog' is wanted", "blog")
    published = "publishOn" if record.get("publishOn") is not None else "date"
    return PostRecord(
        blog=path,
        slug=_key(record, "slug"),
        title=_text(record, "title"),
        text=_text(record, "text"),
        author=_author(record),
        tags=_optional(record, "tags", _texts) or (),
        publish_on=_optional(record, published, _day),
    )


def _author(record: Record) -> dict[str, str]:
    """Who wrote it: {"id", "name"}, a name, or the names of several."""
    author = record.get("author")
    if isinstance(author, dict):
        found = _object(author, {"id", "name"}, "author")
        return {
            name: require_text(_text(found, "author", name), "author", name, longest=MAX_AUTHOR)
            for name in ("id", "name")
        }
    names = [_as_text(author, "author")] if author is not None else _optional(record, "authors", _texts)
    name = _as_author(", ".join(one.strip() for one in names or () if one.strip()), "author")
    return {"id": name, "name": name} if name else {"id": "import", "name": "Import"}


def _as_author(value: Any, *path: str) -> str:
    """The name of an author; empty where there is none."""
    name = _as_text(value, *path).strip()
    return name and require_text(name, *path, longest=MAX_AUTHOR)


def _day(value: Any, *path: str) -> Any:
    """An instant, or a day, which begins at midnight in UTC."""
    text = _as_text(value, *path)
    return _instant(f"{text}T00:00:00Z" if _DAY.fullmatch(text) else text, *path)


_DAY = re.compile(r"\d{4}-\d\d-\d\d")
_PRODUCT = {
    "sku",
    "type",
    "title",
    "description",
    "asin",
    "pricing",
    "shipping",
    "categories",
    "properties",
    "issueDate",
    "details",
}


def _object(value: Any, known: set[str] | None, *path: str) -> Record:
    """An object with these fields; with None with any."""
    if not isinstance(value, dict):
        raise InvalidInput("an object is wanted", *path)
    for name in value:
        if known is not None and name not in known:
            raise InvalidInput("there is no such field", *path, name)
    return value


def _text(record: Record, *path: str) -> str:
    if record.get(path[-1]) is None:
        raise InvalidInput("it is missing", *path)
    return _as_text(record[path[-1]], *path)


def _as_text(value: Any, *path: str) -> str:
    if not isinstance(value, str):
        raise InvalidInput("a text is wanted", *path)
    return value


def _key(record: Record, name: str, *, longest: int = MAX_SLUG) -> str:
    """What something is looked for by. Of many records it comes into one query, so no part of that may be huge."""
    return check_length(_text(record, name).strip(), name, longest=longest)


def _as_key(value: Any, *path: str) -> str:
    return check_length(_as_text(value, *path), *path, longest=MAX_SLUG)


def _keys(value: Any, *path: str) -> list[str]:
    keys = [_as_key(item, *path, str(number)) for number, item in enumerate(_list(value, *path))]
    if len(keys) > MAX_LIST:
        raise InvalidInput(f"There are {len(keys):,}; {MAX_LIST} are allowed.", *path)
    return keys


def _optional(record: Record, name: str, read: Callable[..., Any], *path: str) -> Any:
    return None if record.get(name) is None else read(record[name], *path, name)


def _list(value: Any, *path: str) -> list[Any]:
    if not isinstance(value, list):
        raise InvalidInput("a list is wanted", *path)
    return value


def _texts(value: Any, *path: str) -> list[str]:
    return [_as_text(item, *path, str(number)) for number, item in enumerate(_list(value, *path))]


def _price(pricing: Record, name: str) -> Price:
    price = _object(pricing.get(name), {"amount", "currency"}, "pricing", name)
    try:
        amount = check_big_int(price.get("amount"))
    except GraphQLError as error:
        raise InvalidInput(error.message, "pricing", name, "amount") from None
    return Price(amount, _as_text(price.get("currency", "USD"), "pricing", name, "currency"))


def _properties(value: Any, *path: str) -> list[tuple[str, str]]:
    pairs = []
    for number, item in enumerate(_list(value, *path)):
        pair = _object(item, {"name", "value"}, *path, str(number))
        pairs.append((_text(pair, *path, str(number), "name"), _text(pair, *path, str(number), "value")))
    return pairs


def _shipping(value: Any, *path: str) -> tuple[float | None, tuple[float, float, float] | None]:
    shipping = _object(value, {"weight", "dimensions"}, *path)
    return _optional(shipping, "weight", _number, *path), _optional(shipping, "dimensions", _dimensions, *path)


def _dimensions(value: Any, *path: str) -> tuple[float, float, float]:
    size = _object(value, {"width", "height", "depth"}, *path)
    width, height, depth = (_number(size.get(name), *path, name) for name in ("width", "height", "depth"))
    return width, height, depth


def _number(value: Any, *path: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidInput("a number is wanted", *path)
    return float(value)


def _instant(value: Any, *path: str) -> Any:
    try:
        return parse_instant(value)
    except GraphQLError as error:
        raise InvalidInput(error.message, *path) from None
