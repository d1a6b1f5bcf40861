"""Helpers to read documents by keys and ids, for domains that store each type of document in one collection."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from typing import Any, TypeVar, overload

from portico.loaders import declaring
from portico.loaders.batching import BatchRead
from portico.resolvers.documents import CollectionSpec, D, Database, Document, document_id
from portico.resolvers.errors import NotFound

from . import nodes
from .connections import CountRule, Paged
from .context import Context, Info, core
from .nodes import BatchRule, Kind, Rule

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
FindByKeys = Callable[[Database, Sequence[K]], Awaitable[Mapping[K, V]]]


def document_kind(
    name: str,
    spec: CollectionSpec[D],
    *,
    path: str = "_id",
    parse: Callable[[str], Any] = document_id,
    read: Callable[..., BatchRead[Any, D]] | None = None,
    reads: Sequence[str] = (),
    visible_to: Rule[D] | None = None,
    within: Callable[[D], tuple[str, str]] | None = None,
    shown_to: BatchRule[D] | None = None,
) -> Kind[D]:
    """Returns a kind whose objects are the documents of one collection, all with the GraphQL type `name`.

    Args:     path: the path of the key in documents.  parse: converts text to a key, or raises ValueError.
              read: the loader of documents by key, if `find_by_keys` does not do.
              reads: the paths that the rule reads.
              visible_to: whether a caller may see a document; `everybody` if all may.
              within: the kind and key of the object that contains it.
              shown_to: what a caller sees of each of many documents, if that takes a read.
    """
    return Kind(
        name=name,
        path=path,
        parse=parse,
        read=read or declaring.by_key(spec, path),
        collection=spec.name,
        types=(name,),
        type_name=lambda _document: name,
        discriminator=tuple(reads),
        visible_to=visible_to,
        within=within,
        shown_to=shown_to,
    )


def document_pages(kind: Kind[D], spec: CollectionSpec, *, name: str = "", counts: CountRule | None = None) -> Paged:
    """Returns the definition of the pages of a kind.

    Args:     name: the prefix of the connection's name; by default, the name of the kind.
              counts: gives the connection `totalCount`. It takes the context and the filter of a listing, and returns
              whether the caller sees each row that matches the filter. An index must lead to these rows alone.
    """
    return Paged(kind.name, declaring.pages(spec), name=name, counts=counts)


async def load_one(info: Info, kind: Kind[D], key: Any) -> D | None:
    """Returns the document with this key; None if there is none that the caller may see.

    It has the paths that the selection of the current field needs. The read is batched with those of sibling fields.
    """
    return await nodes.load_one(core(info), kind, key)


@overload
async def load_related(info: Info, source: CollectionSpec[D], key: Any, *, path: str = "_id") -> D | None: ...


@overload
async def load_related(info: Info, source: FindByKeys[K, V], key: K) -> V | None: ...


async def load_related(info: Info, source: Any, key: Any, *, path: str = "_id") -> Any:
    """Returns what belongs to a key; batched with the reads of sibling fields.

    Does not check whether the caller may see it.

    Args:     source: a collection: returns the whole document that has the key at the path. Or a function of the
              database and of several keys, which returns what it finds by key.
    """
    context = info.context
    if isinstance(source, CollectionSpec):
        loader = context.loader((source.name, path), lambda: declaring.by_key(source, path)(context.reading, None))
    else:
        loader = context.loader(source, lambda: declaring.batched(source)(context.reading))
    return (await loader.load_all((key,))).get(key)


@overload
async def find_visible(context: Context, kind: Kind[D], global_id: str) -> D: ...


@overload
async def find_visible(context: Context, kind: str, global_id: str) -> Document: ...


async def find_visible(context: Context, kind: Kind | str, global_id: str) -> Any:
    """Returns the whole object of this kind and id. Raises NotFound if there is none that the caller may see."""
    name = kind if isinstance(kind, str) else kind.name
    key = nodes.key_in(context, name, global_id)
    found: Kind = context.served.kinds[name]
    document = (await found.read(context.db, None)([key])).get(key)
    view: Document | None = None if document is None else await nodes.shown(context, found, document)
    if view is None:
        raise NotFound(name, str(key))
    return view
