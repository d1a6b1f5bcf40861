"""Kinds of objects with global ids, and the ids.

A kind says where its objects are, and who sees them: see `nodes` for where the rule runs.
"""

from base64 import urlsafe_b64decode
from binascii import Error as Base64Error
from binascii import b2a_base64
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic

import strawberry
from graphql import GraphQLError, GraphQLNamedType, GraphQLObjectType, GraphQLSchema

from portico.loaders import declaring
from portico.loaders.batching import BatchRead
from portico.resolvers.documents import CollectionSpec, D, Database, DocumentId, Projection, document_id
from portico.resolvers.errors import InvalidInput, NotFound, one_of
from portico.resolvers.undecodable import is_undecodable

from .context import Context
from .fields import Computed, Source, without_argument

# The extension of a GraphQL type with the kind whose documents have the type.
KIND = "portico.kind"
URL_SAFE = bytes.maketrans(b"+/", b"-_")
# `b2a_base64` ends the line.
PADDING = b"=\n"


@strawberry.interface(description="An object that you can fetch again by its id, which is globally unique and opaque.")
class Node:
    id: strawberry.ID = strawberry.field(description="Globally unique and opaque.")


Rule = Callable[[D, Context], bool]
# A rule for many documents, which may read. For each document, it returns what the caller sees of it: the document, a
# copy that lacks something, or None if the caller does not see it. An exception in place of a document is its error.
BatchRule = Callable[[Context, Sequence[D]], Awaitable[Sequence[D | Exception | None]]]
# An object that others belong to: its kind, and its key as text.
Holder = tuple[str, str]


@dataclass(frozen=True)
class Kind(Generic[D]):
    """A kind of objects with global ids, whose documents are of type D.

    `path` is the path of the key in its documents. `parse` converts text to a key, or raises ValueError. `read` makes
    the batched read by key. `type_name` returns the GraphQL type of a document, one of `types`.

    The visibility rule has four parts, and a kind declares at least one of them. `callers` returns whether a caller may
    see documents of the kind at all; for others, none is read by its key. `visible_to` returns whether a caller may see
    a document; use `Kind.everybody` if all callers may. `within` returns the object that contains a document, as its
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
    callers: Callable[[Context], bool] | None = None
    visible_to: Rule[D] | None = None
    within: Callable[[D], Holder] | None = None
    shown_to: BatchRule[D] | None = None
    find_gone: Callable[[Database, Any, str], Awaitable[Mapping[str, Any] | None]] | None = None
    collection: str = ""

    @property
    def has_rule(self) -> bool:
        return not (self.callers is None and self.visible_to is None and self.within is None and self.shown_to is None)

    @property
    def is_open(self) -> bool:
        """Whether every caller may see every document. Reads of such a kind check nothing."""
        is_for_all = self.visible_to is Kind.everybody and self.callers is None
        return is_for_all and self.within is None and self.shown_to is None

    def is_closed_to(self, context: Context) -> bool:
        """Returns whether the caller sees no document of the kind, whatever it has."""
        return self.callers is not None and not self.callers(context)

    @staticmethod
    def everybody(_document: Source, _context: Context) -> bool:
        """Returns True: the rule of a kind whose documents every caller may see."""
        return True

    @staticmethod
    def of(
        name: str,
        spec: CollectionSpec[D],
        *,
        path: str = "_id",
        parse: Callable[[str], Any] = document_id,
        read: Callable[..., BatchRead[Any, D]] | None = None,
        reads: Sequence[str] = (),
        callers: Callable[[Context], bool] | None = None,
        visible_to: Rule[D] | None = None,
        within: Callable[[D], tuple[str, str]] | None = None,
        shown_to: BatchRule[D] | None = None,
    ) -> "Kind[D]":
        """Returns a kind whose objects are the documents of one collection, all with the GraphQL type `name`.

        Args:     path: the path of the key in documents.  parse: converts text to a key, or raises ValueError.
                  read: the loader of documents by key, if `find_by_keys` does not do.
                  reads: the paths that the rule reads.
                  callers: whether a caller may see any document, e.g. by a role.
                  visible_to: whether a caller may see a document; `Kind.everybody` if all may.
                  within: the kind and key of the object that contains it.
                  shown_to: what a caller sees of each of many documents, if that takes a read.
        Raises:   TypeError if `within` cannot be called.
        """
        if within is not None and not callable(within):
            raise TypeError(f"`within` of the kind {name} must be a function; got {within!r}.")
        return Kind(
            name=name,
            path=path,
            parse=parse,
            read=read or declaring.by_key(spec, path),
            collection=spec.name,
            types=(name,),
            type_name=lambda _document: name,
            discriminator=tuple(reads),
            callers=callers,
            visible_to=visible_to,
            within=within,
            shown_to=shown_to,
        )

    @staticmethod
    def document_id(text: str) -> DocumentId:
        """Returns the ObjectId in a text. Raises ValueError."""
        return document_id(text)

    @staticmethod
    def encode_id(kind: str, key: object) -> str:
        """Returns the `id` of the object with this kind and key."""
        return b2a_base64(f"{kind}:{key}".encode()).translate(URL_SAFE, PADDING).decode()

    @staticmethod
    def key_in(context: Context, kind: str, global_id: str) -> Any:
        """Returns the key in an id of this kind. Raises NotFound for any other id, because no such object can exist."""
        try:
            found, key = decode_id(context, global_id)
        except ValueError:
            raise NotFound(kind, message=f"The id is not that of {one_of(kind)}.") from None
        if found.name != kind:
            raise NotFound(kind, message=f"The id is that of {one_of(found.name)}, not of {one_of(kind)}.")
        return key

    @staticmethod
    def key_argument(context: Context, kind: str, global_id: str, *path: str) -> Any:
        """Returns the key in an id that filters a list. Raises InvalidInput, with this path, for any other id."""
        try:
            return Kind.key_in(context, kind, global_id)
        except NotFound as error:
            raise InvalidInput(error.message, *path, code=InvalidInput.WRONG_FORMAT) from None


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


def decode_id(context: Context, global_id: str) -> tuple[Kind, Any]:
    """Returns the kind and key of an id. Raises ValueError, also for a kind that the gateway does not serve."""
    name, text = split_id(global_id)
    kind: Kind | None = context.served.kinds.get(name)
    if kind is None:
        raise ValueError(global_id)
    key = kind.parse(text)
    if Kind.encode_id(name, key) != global_id:
        raise ValueError(global_id)
    return kind, key


def split_id(global_id: str) -> tuple[str, str]:
    """Returns the two parts of a text like an id: the name of a kind, and a key as text. Raises ValueError."""
    try:
        name, _, text = urlsafe_b64decode(global_id.encode() + b"=" * (-len(global_id) % 4)).decode().partition(":")
    except (Base64Error, UnicodeError) as error:
        raise ValueError(global_id) from error
    return name, text


def require_decodable(keys: object) -> None:
    """Raises GraphQLError for a key, or a list with a key, that is not valid UTF-8. It would fail the read of all."""
    if is_undecodable(keys):
        raise GraphQLError("A key is not valid UTF-8.")


def node_id(kind: str, path: str, *, description: str = "Globally unique and opaque.") -> Any:
    """Returns the `id` field of a document-backed type. In a snapshot, it is the id of the object in the snapshot."""
    prefix = f"{kind}:"

    def read(source: Source) -> str:
        # Like `Kind.encode_id`, but without a call: a page has dozens of ids.
        return b2a_base64((prefix + str(source[path])).encode()).translate(URL_SAFE, PADDING).decode()

    return without_argument(Computed(read, (path,), kind=kind), description)


def types_of(schema: GraphQLSchema, kind: Kind) -> list[GraphQLObjectType]:
    types = [schema.type_map[name] for name in kind.types]
    return [found for found in types if isinstance(found, GraphQLObjectType)]
