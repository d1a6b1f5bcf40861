"""Global ids, and what can be fetched again by one."""

from __future__ import annotations

import binascii
from base64 import urlsafe_b64decode
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping, Sequence
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


Rule = Callable[[Source, Context], bool]
# An object that others belong to: its kind, and its key as text.
Holder = tuple[str, str]


def everybody(_document: Source, _context: Context) -> bool:
    """Returns the rule of a kind whose documents every caller may see."""
    return True


@dataclass(frozen=True)
class Kind:
    """One kind of object that has a global id.

    `path` is where its documents hold the key, `parse` makes a key of its text and raises ValueError, `read` makes
    the batch read by key. A kind with several types tells them apart by `type_name`.

    The rule of visibility has two parts, and a kind declares at least one of them. `visible_to` tells whether a caller
    may see a document; it is `everybody` where all callers may. `within` names the object that a document belongs to,
    by its kind and its key as text: a caller who may not see that object does not see the document, either.

    `type_name`, `visible_to` and `within` read the paths in `discriminator`. `find_gone` finds a document that an
    operation has removed, for the answer to a repeated call.
    """

    name: str
    path: str
    parse: Callable[[str], Any]
    read: Callable[[Database, Projection | None], BatchRead[Any, Document]]
    types: tuple[str, ...]
    type_name: Callable[[Source], str]
    discriminator: tuple[str, ...] = ()
    visible_to: Rule | None = None
    within: Callable[[Source], Holder] | None = None
    find_gone: Callable[[Database, Any, str], Awaitable[Document | None]] | None = None

    @property
    def has_rule(self) -> bool:
        return self.visible_to is not None or self.within is not None

    @property
    def is_open(self) -> bool:
        """Whether every caller sees every document. Reads of such a kind check nothing."""
        return self.visible_to is everybody and self.within is None


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
    """Returns the kind and key that an id stands for. Raises ValueError."""
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
    """Returns the key in an id that must be of this kind. Raises NotFound for any other text: no such object can exist."""
    try:
        found, key = decode_id(global_id)
    except ValueError:
        raise NotFound(kind, message=f"The id is not that of a {words_of(kind)}.") from None
    if found.name != kind:
        raise NotFound(kind, message=f"The id is that of a {words_of(found.name)}, not of a {words_of(kind)}.")
    return key


def node_id(kind: str, path: str, *, description: str = "Globally unique and opaque.") -> Any:
    """Returns the `id` of a document-backed type, or, in a snapshot, that of the object which it shows."""
    return computed(lambda source: encode_id(kind, source[path]), path, description=description)


def types_of(schema: GraphQLSchema, kind: Kind) -> list[GraphQLObjectType]:
    types = [schema.type_map[name] for name in kind.types]
    return [found for found in types if isinstance(found, GraphQLObjectType)]


def projection_of(info: Any, kind: Kind) -> Projection | None:
    """Returns what the selection below the present field needs of documents of this kind. Takes graphql-core's info."""
    return kept(  # type: ignore[no-any-return]
        info,
        kind.name,
        lambda: selection_of(info).projection(types_of(info.schema, kind), kind.discriminator),
    )


def load(info: Any, kind: Kind, key: Any) -> Awaitable[Document | None]:
    """Returns the document with this key, with what the selection needs; batched with its siblings.

    None where there is none that the caller may see. Where its rule fails on the document, that error is the value,
    which an executor raises.
    """
    return loader_of(kind, projection_of(info, kind))(info.context).load(key)


async def load_one(info: Any, kind: Kind, key: Any) -> Document | None:
    """As `load`, for a field that asks for one document and no more: where it is alone, it is read at once."""
    found = await loader_of(kind, projection_of(info, kind))(info.context).load_all((key,))
    return _without_error(found.get(key))


async def require(info: Any, kind: Kind, key: Any) -> Document:
    """As `load`, for a field that cannot be null. Raises NotFound where there is nothing that the caller may see."""
    document = _without_error(await load(info, kind, key))
    if document is None:
        raise NotFound(kind.name)
    return document


def loader_of(
    kind: Kind, projection: Projection | None, *, discloses: bool = False
) -> Callable[[Context], Loader[Any, Document]]:
    """Returns a function that finds a request's loader of these documents, without those that the caller may not see.

    With `discloses` the loader reads all of them.
    """
    paths = None if projection is None else tuple(projection)
    if discloses or kind.is_open:
        name: Hashable = (kind.name, paths)
        return lambda context: context.loader(name, lambda: kind.read(context.reading, projection))
    checked: Hashable = ("visible", kind.name, paths)
    return lambda context: context.loader(checked, lambda: _visible_read(context, kind, projection))


def _visible_read(context: Context, kind: Kind, projection: Projection | None) -> BatchRead[Any, Any]:
    read = kind.read(context.reading, projection)

    async def read_visible(keys: Sequence[Any]) -> Mapping[Any, Any]:
        found = await visible_of(context, kind, await read(keys))
        context.seen.update((kind.name, str(key)) for key, one in found.items() if not isinstance(one, Exception))
        return found

    return read_visible


async def find_node(info: Any, global_id: str) -> KindDocument | None:
    """Returns the object with this id; None where there is none that the caller may see. Raises a GraphQLError where it is no
    id.
    """
    try:
        kind, key = decode_id(global_id)
    except ValueError:
        shown = global_id if len(global_id) <= 60 else f"{global_id[:60]}…"  # noqa: PLR2004
        raise GraphQLError(f"{shown!r} is not an id.", extensions={"code": "BAD_USER_INPUT"}) from None
    document = await load_one(info, kind, key)
    return None if document is None else KindDocument(kind, document)


async def is_visible(context: Context, kind: Kind, document: Source) -> bool:
    """Returns whether the caller may see the document, and everything that it belongs to.

    The context remembers an object that they may see. What belongs to it then needs no read to be checked.
    """
    is_seen = _without_error((await visible_of(context, kind, {None: document})).get(None)) is not None
    if is_seen and kind.path in document:
        context.seen.add((kind.name, str(document[kind.path])))
    return is_seen


async def visible_of(context: Context, kind: Kind, documents: Mapping[Any, Any]) -> dict[Any, Any]:
    """Those of the documents that the caller may see, by their keys; one read for each level of what they belong to.

    In place of a document that its rule fails on stands the error: the others are not to blame.
    """
    found: dict[Any, Any] = {}
    held: dict[Holder, list[Any]] = {}
    for key, document in documents.items():
        try:
            if kind.visible_to is not None and not kind.visible_to(document, context):
                continue
            if kind.within is None or (holder := kind.within(document)) in context.seen:
                found[key] = document
            else:
                held.setdefault(holder, []).append(key)
        except Exception as error:  # noqa: BLE001 - whatever it was, it is the error of this document
            found[key] = error
    if held:
        holders = await _visible_holders(context, held)
        for holder, keys in held.items():
            if holder in holders:
                wrong = holders[holder]
                found.update((key, documents[key] if wrong is None else wrong) for key in keys)
    return found


async def _visible_holders(context: Context, holders: Iterable[Holder]) -> dict[Holder, Exception | None]:
    """Returns the holders that the caller may see, with None, and those whose rule fails, with the error."""
    found: dict[Holder, Exception | None] = {}
    by_kind: dict[str, dict[Any, Holder]] = {}
    for holder in holders:
        try:
            name, text = holder
            key = KINDS[name].parse(text)
        except (KeyError, ValueError):
            # There is no such object, or its domain is not served.
            continue
        except Exception as error:  # noqa: BLE001 - as above
            found[holder] = error
        else:
            by_kind.setdefault(name, {})[key] = holder
    for name, wanted in by_kind.items():
        kind = KINDS[name]
        projection = dict.fromkeys((kind.path, *kind.discriminator), 1)
        documents = await loader_of(kind, projection, discloses=True)(context).load_all(wanted)
        there = {key: document for key in wanted if (document := documents.get(key)) is not None}
        for key, shown in (await visible_of(context, kind, there)).items():
            found[wanted[key]] = shown if isinstance(shown, Exception) else None
    context.seen.update(holder for holder, error in found.items() if error is None)
    return found


def _without_error(found: Any) -> Document | None:
    """Returns the document, or None. Raises the error that its rule failed with."""
    if isinstance(found, Exception):
        raise found
    document: Document | None = found
    return document
