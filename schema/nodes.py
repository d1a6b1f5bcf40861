"""Global ids, and the kinds of objects that have one.

The rule of visibility of a kind runs where documents are read, and not in each field:

* Reads by key check it: relations, `node`, `nodes`, and methods that call `load`, `load_one` or `require`. Both
  executors use the same loaders (`loader_of`), which leave out hidden documents.
* `Paged.page` checks each row. A list still filters in its query, so that MongoDB reads no hidden rows. If a list does
  not filter, the page reads on until it has one visible row more than a page. After about 2,000 rows it ends early:
  `hasNextPage` is true, and `endCursor` is the place of the last row that it has read.
* A method that finds a document in another way calls `is_visible`, or `shown` if the kind has a rule `shown_to`.
* A repeated mutation and each event of a subscription check the rule again.

Where documents belong to others, one read checks all of a level, and the context remembers the objects that the caller
has been shown (`context.seen`). A mutation forgets what it remembers when it begins. If a field cannot be null and
its object is hidden or gone, the error is `NOT_FOUND`. This is no fault, and the log has no entry: another request may
delete an object between two reads.
"""

from base64 import urlsafe_b64decode
from binascii import Error as Base64Error
from binascii import b2a_base64
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic

import strawberry
from graphql import GraphQLError, GraphQLNamedType, GraphQLObjectType, GraphQLSchema

from portico.loaders.batching import BatchRead, Loader
from portico.resolvers.documents import D, Database, Projection
from portico.resolvers.errors import NotFound, one_of
from portico.resolvers.undecodable import is_undecodable

from .context import Context
from .fields import Source, computed
from .selections import cached, selection_of

MAX_NODES = 100
# The extension of a GraphQL type with the kind whose documents have the type.
KIND = "portico.kind"
_URL_SAFE = str.maketrans("+/", "-_")
# `b2a_base64` ends the line. Most ids have none of the characters that are unsafe in a URL.
_PADDING = "=\n"


@strawberry.interface(description="An object that you can fetch again by its id, which is globally unique and opaque.")
class Node:
    id: strawberry.ID = strawberry.field(description="Globally unique and opaque.")


Rule = Callable[[D, Context], bool]
# A rule for many documents, which may read. For each document, it returns what the caller sees of it: the document, a
# copy that lacks something, or None if the caller does not see it. An exception in place of a document is its error.
BatchRule = Callable[[Context, Sequence[D]], Awaitable[Sequence[D | Exception | None]]]
# An object that others belong to: its kind, and its key as text.
Holder = tuple[str, str]


def everybody(_document: Source, _context: Context) -> bool:
    """Returns True: the rule of a kind whose documents every caller may see."""
    return True


@dataclass(frozen=True)
class Kind(Generic[D]):
    """A kind of objects with global ids, whose documents are of type D.

    `path` is the path of the key in its documents. `parse` converts text to a key, or raises ValueError. `read` makes
    the batched read by key. `type_name` returns the GraphQL type of a document, one of `types`.

    The visibility rule has three parts, and a kind declares at least one of them. `visible_to` returns whether a caller
    may see a document; use `everybody` if all callers may. `within` returns the object that contains a document, as its
    kind and its key as text: a caller who may not see that object may not see the document either. `shown_to` is a rule
    that reads something else, for many documents at a time. What it reads is read after the documents, so that no
    document is shown by an outdated permission. It must not keep what it has read.

    The log names a damaged document by `collection`; by the kind if its objects are in several collections.

    `type_name` and the rule read the paths in `discriminator`. `find_gone` finds a document that an
    operation has removed, for the answer to a repeated call.
    """

    name: str
    path: str
    parse: Callable[[str], Any]
    read: Callable[[Database, Projection | None], BatchRead[Any, D]]
    types: tuple[str, ...]
    type_name: Callable[[D], str]
    discriminator: tuple[str, ...] = ()
    visible_to: Rule[D] | None = None
    within: Callable[[D], Holder] | None = None
    shown_to: BatchRule[D] | None = None
    find_gone: Callable[[Database, Any, str], Awaitable[Mapping[str, Any] | None]] | None = None
    collection: str = ""

    @property
    def has_rule(self) -> bool:
        return not (self.visible_to is None and self.within is None and self.shown_to is None)

    @property
    def is_open(self) -> bool:
        """Whether every caller may see every document. Reads of such a kind check nothing."""
        return self.visible_to is everybody and self.within is None and self.shown_to is None


def kind_of(graphql_type: GraphQLNamedType | None) -> Kind | None:
    """Returns the kind whose documents have this type, by the schema that the type belongs to; None if there is none.

    `installation` notes the kind of each type.
    """
    found: Kind | None = None if graphql_type is None else graphql_type.extensions.get(KIND)
    return found


def collection_of_type(graphql_type: GraphQLNamedType) -> str:
    """Returns the collection of the documents of this GraphQL type. If it has none of its own, returns the kind or the
    type.
    """
    kind = kind_of(graphql_type)
    return graphql_type.name if kind is None else kind.collection or kind.name


class KindDocument(dict[str, Any]):
    """A document with its kind, for fields that can have an object of any kind."""

    __slots__ = ("kind",)

    def __init__(self, kind: Kind, document: Source) -> None:
        super().__init__(document)
        self.kind = kind


def encode_id(kind: str, key: object) -> str:
    """Returns the `id` of the object with this kind and key."""
    return _url_safe(b2a_base64(f"{kind}:{key}".encode()).decode())


def _url_safe(text: str) -> str:
    return text.rstrip(_PADDING).translate(_URL_SAFE)


def decode_id(context: Context, global_id: str) -> tuple[Kind, Any]:
    """Returns the kind and key of an id. Raises ValueError, also for a kind that the gateway does not serve."""
    name, text = split_id(global_id)
    kind: Kind | None = context.served.kinds.get(name)
    if kind is None:
        raise ValueError(global_id)
    key = kind.parse(text)
    if encode_id(name, key) != global_id:
        raise ValueError(global_id)
    return kind, key


def split_id(global_id: str) -> tuple[str, str]:
    """Returns the two parts of a text like an id: the name of a kind, and a key as text. Raises ValueError."""
    try:
        name, _, text = urlsafe_b64decode(global_id.encode() + b"=" * (-len(global_id) % 4)).decode().partition(":")
    except (Base64Error, UnicodeError) as error:
        raise ValueError(global_id) from error
    return name, text


def key_in(context: Context, kind: str, global_id: str) -> Any:
    """Returns the key in an id of this kind. Raises NotFound for any other id, because no such object can exist."""
    try:
        found, key = decode_id(context, global_id)
    except ValueError:
        raise NotFound(kind, message=f"The id is not that of {one_of(kind)}.") from None
    if found.name != kind:
        raise NotFound(kind, message=f"The id is that of {one_of(found.name)}, not of {one_of(kind)}.")
    return key


def require_decodable(keys: object) -> None:
    """Raises GraphQLError for a key, or a list with a key, that is not valid UTF-8. It would fail the read of all."""
    if is_undecodable(keys):
        raise GraphQLError("A key is not valid UTF-8.")


def node_id(kind: str, path: str, *, description: str = "Globally unique and opaque.") -> Any:
    """Returns the `id` field of a document-backed type. In a snapshot, it is the id of the object in the snapshot."""
    prefix = f"{kind}:"

    def read(source: Source) -> str:
        # Like `encode_id`, but without a call: a page has dozens of ids.
        text = b2a_base64((prefix + str(source[path])).encode()).decode()
        return text.rstrip(_PADDING) if "/" not in text and "+" not in text else _url_safe(text)

    return computed(read, path, description=description)


def types_of(schema: GraphQLSchema, kind: Kind) -> list[GraphQLObjectType]:
    types = [schema.type_map[name] for name in kind.types]
    return [found for found in types if isinstance(found, GraphQLObjectType)]


def projection_of(info: Any, kind: Kind) -> Projection | None:
    """Returns the projection of documents of this kind for the current field's selection. Takes graphql-core's info."""
    return cached(  # type: ignore[no-any-return]
        info,
        kind.name,
        lambda: selection_of(info).projection(types_of(info.schema, kind), kind.discriminator),
    )


def load(info: Any, kind: Kind[D], key: Any) -> Awaitable[D | None]:
    """Returns the document with this key and the paths that the selection needs; batched with sibling fields.

    The value is None if there is no such document that the caller may see. If the visibility rule fails, the value is
    its error, and the executor raises it.
    """
    return loader_of(kind, projection_of(info, kind))(info.context).load(key)


async def load_one(info: Any, kind: Kind[D], key: Any) -> D | None:
    """Loads a document as `load` does, for a field that needs only one. If no other field reads, sends it at once."""
    found = await loader_of(kind, projection_of(info, kind))(info.context).load_all((key,))
    return _without_error(found.get(key))


async def require(info: Any, kind: Kind[D], key: Any) -> D:
    """Loads a document as `load` does, for a non-null field. Raises NotFound if `load` returns None."""
    document = _without_error(await load(info, kind, key))
    if document is None:
        raise NotFound(kind.name)
    return document


def loader_of(
    kind: Kind[D], projection: Projection | None, *, discloses: bool = False
) -> Callable[[Context], Loader[Any, D]]:
    """Returns a function that returns a request's loader of documents of this kind that the caller may see.

    With `discloses`, the loader also reads documents that the caller may not see.
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
    """Returns the object with this id; None if there is none that the caller may see, also for any other text."""
    try:
        kind, key = decode_id(info.context, global_id)
    except ValueError:
        return None
    document = await load_one(info, kind, key)
    return None if document is None else KindDocument(kind, document)


async def is_visible(context: Context, kind: Kind[D], document: D) -> bool:
    """Returns whether the caller may see the document and all objects that contain it.

    The context remembers an object that the caller may see. Checking objects inside it then needs no read.
    """
    return await shown(context, kind, document) is not None


async def shown(context: Context, kind: Kind[D], document: D) -> D | None:
    """Returns the document as the caller sees it; None if the caller may not see it. Remembers as `is_visible` does."""
    found: D | None = _without_error((await visible_of(context, kind, {None: document})).get(None))
    if found is not None and kind.path in document:
        context.seen.add((kind.name, str(document[kind.path])))
    return found


async def visible_of(context: Context, kind: Kind, documents: Mapping[Any, Any]) -> dict[Any, Any]:
    """Returns the documents that the caller may see, by their keys, with one read for each level of containing objects.

    A batched rule is called once, and its copies replace the documents. If the rule of a document fails, the error
    replaces the document. The other documents are not affected.
    """
    found = _visible_alone(context, kind, documents)
    if kind.shown_to is not None:
        found = await _shown_together(context, kind.shown_to, found)
    return found if kind.within is None else await _visible_within(context, kind.within, found)


def _visible_alone(context: Context, kind: Kind, documents: Mapping[Any, Any]) -> dict[Any, Any]:
    """Returns the documents that `visible_to` shows, or its errors."""
    if kind.visible_to is None:
        return dict(documents)
    found: dict[Any, Any] = {}
    for key, document in documents.items():
        try:
            if kind.visible_to(document, context):
                found[key] = document
        except Exception as error:  # noqa: BLE001 - any exception is an error of this document
            found[key] = error
    return found


async def _shown_together(context: Context, rule: BatchRule, documents: Mapping[Any, Any]) -> dict[Any, Any]:
    found: dict[Any, Any] = {key: one for key, one in documents.items() if isinstance(one, Exception)}
    wanted = [key for key in documents if key not in found]
    if wanted:
        views: Sequence[Any] = await rule(context, [documents[key] for key in wanted])
        found.update((key, view) for key, view in zip(wanted, views, strict=True) if view is not None)
    return found


async def _visible_within(
    context: Context, within: Callable[[Source], Holder], documents: Mapping[Any, Any]
) -> dict[Any, Any]:
    """Returns the documents whose containing objects the caller may see."""
    _remember_listed(context)
    found: dict[Any, Any] = {}
    held: dict[Holder, list[Any]] = {}
    for key, document in documents.items():
        if isinstance(document, Exception):
            found[key] = document
            continue
        try:
            if (holder := within(document)) in context.seen:
                found[key] = document
            else:
                held.setdefault(holder, []).append(key)
        except Exception as error:  # noqa: BLE001 - any exception is an error of this document
            found[key] = error
    if held:
        holders = await _visible_holders(context, held)
        for holder, keys in held.items():
            if holder in holders:
                wrong = holders[holder]
                found.update((key, documents[key] if wrong is None else wrong) for key in keys)
    return found


def _remember_listed(context: Context) -> None:
    """Remembers the rows of the pages that the caller has got: objects inside them need no further read."""
    for kind, rows in context.listed:
        context.seen.update((kind.name, str(row[kind.path])) for row in rows if kind.path in row)
    context.listed.clear()


async def _visible_holders(context: Context, holders: Iterable[Holder]) -> dict[Holder, Exception | None]:
    """Returns the containing objects that the caller may see, each with None, or with the error if its rule fails."""
    found: dict[Holder, Exception | None] = {}
    by_kind: dict[str, dict[Any, Holder]] = {}
    kinds: Mapping[str, Kind] = context.served.kinds
    for holder in holders:
        try:
            name, text = holder
            key = kinds[name].parse(text)
        except (KeyError, ValueError):
            # There is no such object, or its domain is not served.
            continue
        except Exception as error:  # noqa: BLE001 - as above
            found[holder] = error
        else:
            by_kind.setdefault(name, {})[key] = holder
    for name, wanted in by_kind.items():
        kind = kinds[name]
        projection = dict.fromkeys((kind.path, *kind.discriminator), 1)
        documents = await loader_of(kind, projection, discloses=True)(context).load_all(wanted)
        there = {key: document for key in wanted if (document := documents.get(key)) is not None}
        for key, shown in (await visible_of(context, kind, there)).items():
            found[wanted[key]] = shown if isinstance(shown, Exception) else None
    context.seen.update(holder for holder, error in found.items() if error is None)
    return found


def _without_error(found: D | None) -> D | None:
    """Returns the document or None, or raises the error of its rule."""
    if isinstance(found, Exception):
        raise found
    return found
