"""Global ids, and what can be fetched again by one."""

from __future__ import annotations

import binascii
from base64 import urlsafe_b64decode
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any

import strawberry
from graphql import GraphQLError, GraphQLObjectType, GraphQLSchema

from portico.loaders.batching import BatchRead, Loader
from portico.resolvers.documents import Database, Document, Projection
from portico.resolvers.errors import NotFound, words_of

from .context import Context
from .fields import Source, computed
from .selections import kept, selection_of

MAX_NODES = 100
_URL_SAFE = bytes.maketrans(b"+/", b"-_")


@strawberry.interface(description="Anything that can be fetched again by its globally unique, opaque id.")
class Node:
    id: strawberry.ID = strawberry.field(description="Globally unique and opaque.")


@dataclass(frozen=True)
class Kind:
    """One kind of object that has a global id.

    `path` is where its documents hold the key, `parse` makes a key of its text and raises ValueError, `read` makes
    the batch read by key. A kind with several types tells them apart by `type_name`. `visible_to` tells whether the
    caller of an operation may know of the document by its id; `within` names the kind and the key, as text, of what it
    belongs to: who may not know of that may not know of the document, either. All three read `discriminator`.
    `find_gone` finds a document that an operation has removed, for the answer to a repeated call.
    """

    name: str
    path: str
    parse: Callable[[str], Any]
    read: Callable[[Database, Projection | None], BatchRead[Any, Document]]
    types: tuple[str, ...]
    type_name: Callable[[Source], str]
    discriminator: tuple[str, ...] = ()
    visible_to: Callable[[Source, Context], bool] = lambda _document, _context: True
    within: Callable[[Source], tuple[str, str]] | None = None
    find_gone: Callable[[Database, Any, str], Awaitable[Document | None]] | None = None


# Those that this process serves, by their names.
KINDS: dict[str, Kind] = {}


def register(kinds: Iterable[Kind]) -> None:
    """Makes these the kinds of the process."""
    KINDS.clear()
    KINDS.update((kind.name, kind) for kind in kinds)


class KindDocument(dict[str, Any]):
    """A document that says what kind it is, for fields that may hold any kind."""

    __slots__ = ("kind",)

    def __init__(self, kind: Kind, document: Source) -> None:
        super().__init__(document)
        self.kind = kind


def encode_id(kind: str, key: object) -> str:
    text = binascii.b2a_base64(f"{kind}:{key}".encode(), newline=False)
    return text.translate(_URL_SAFE, b"=").decode()


def decode_id(global_id: str) -> tuple[Kind, Any]:
    """The kind and key that an id stands for. Raises ValueError."""
    try:
        name, _, text = urlsafe_b64decode(global_id.encode() + b"=" * (-len(global_id) % 4)).decode().partition(":")
        kind = KINDS[name]
        key = kind.parse(text)
    except (binascii.Error, UnicodeError, KeyError) as error:
        raise ValueError(global_id) from error
    if encode_id(name, key) != global_id:
        raise ValueError(global_id)
    return kind, key


def key_in(kind: str, global_id: str) -> Any:
    """The key in an id that must be of this kind. Raises NotFound for any other text: no such object can exist."""
    try:
        found, key = decode_id(global_id)
    except ValueError:
        raise NotFound(kind, message=f"The id is not that of a {words_of(kind)}.") from None
    if found.name != kind:
        raise NotFound(kind, message=f"The id is that of a {words_of(found.name)}, not of a {words_of(kind)}.")
    return key


def node_id(kind: str, path: str, *, description: str = "Globally unique and opaque.") -> Any:
    """The `id` of a document-backed type, or, in a snapshot, that of the object which it shows."""
    return computed(lambda source: encode_id(kind, source[path]), path, description=description)


def types_of(schema: GraphQLSchema, kind: Kind) -> list[GraphQLObjectType]:
    types = [schema.type_map[name] for name in kind.types]
    return [found for found in types if isinstance(found, GraphQLObjectType)]


def projection_of(info: Any, kind: Kind) -> Projection | None:
    """What the selection below the present field needs of documents of this kind. Takes graphql-core's info."""
    return kept(  # type: ignore[no-any-return]
        info,
        kind.name,
        lambda: selection_of(info).projection(types_of(info.schema, kind), kind.discriminator),
    )


def load(info: Any, kind: Kind, key: Any) -> Awaitable[Document | None]:
    """The document with this key, with what the selection needs; batched with its siblings."""
    return _loader(info, kind).load(key)


async def load_one(info: Any, kind: Kind, key: Any) -> Document | None:
    """As `load`, for a field that asks for one document and no more: where it is alone, it is read at once."""
    return (await _loader(info, kind).load_all((key,))).get(key)


def _loader(info: Any, kind: Kind) -> Loader[Any, Document]:
    return _loader_of(info.context, kind, projection_of(info, kind))


def _loader_of(context: Context, kind: Kind, projection: Projection | None) -> Loader[Any, Document]:
    name = (kind.name, None if projection is None else tuple(projection))
    return context.loader(name, lambda: kind.read(context.reading, projection))


async def find_node(info: Any, global_id: str) -> KindDocument | None:
    """The object with this id; None where there is none that the caller may see. Raises a GraphQLError where it is no
    id.
    """
    try:
        kind, key = decode_id(global_id)
    except ValueError:
        shown = global_id if len(global_id) <= 60 else f"{global_id[:60]}…"  # noqa: PLR2004
        raise GraphQLError(f"{shown!r} is not an id.", extensions={"code": "BAD_USER_INPUT"}) from None
    document = await load_one(info, kind, key)
    if document is None or not await is_visible(info.context, kind, document):
        return None
    return KindDocument(kind, document)


async def is_visible(context: Context, kind: Kind, document: Source) -> bool:
    """Whether the caller may know of the document, and of all that it belongs to."""
    while kind.visible_to(document, context):
        if kind.within is None:
            return True
        name, text = kind.within(document)
        kind = KINDS[name]
        key = kind.parse(text)
        loader = _loader_of(context, kind, dict.fromkeys((kind.path, *kind.discriminator), 1))
        above = (await loader.load_all((key,))).get(key)
        if above is None:
            return False
        document = above
    return False
