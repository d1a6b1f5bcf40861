"""What resolvers read by keys and ids, for domains that keep one type of document in one collection."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from portico.loaders import keyed
from portico.resolvers.documents import CollectionSpec, Document, document_id
from portico.resolvers.errors import NotFound

from . import nodes
from .connections import Paged
from .context import Context, Info, core
from .fields import Source
from .nodes import KINDS, Kind


def document_kind(
    name: str,
    spec: CollectionSpec,
    *,
    path: str = "_id",
    parse: Callable[[str], Any] = document_id,
    reads: Sequence[str] = (),
    visible_to: Callable[[Source, Context], bool] = lambda _document, _context: True,
    within: Callable[[Source], tuple[str, str]] | None = None,
) -> Kind:
    """Returns a kind whose objects are the documents of one collection, and all of the GraphQL type `name`.

    Args:     path: where documents hold the key.  parse: makes a key of its text, and raises ValueError.
              reads: the paths that `visible_to` and `within` read.
              visible_to: whether a caller may see a document.  within: the kind and the key of what it belongs to.
    """
    return Kind(
        name=name,
        path=path,
        parse=parse,
        read=keyed.by_key(spec, path),
        types=(name,),
        type_name=lambda _document: name,
        discriminator=tuple(reads),
        visible_to=visible_to,
        within=within,
    )


def document_pages(kind: Kind, spec: CollectionSpec, *, name: str = "") -> Paged:
    """Returns how the documents of a kind are listed in pages.

    Args:     name: what the name of the connection begins with, where that is not the name of the kind.
    """
    return Paged(kind.name, keyed.pages(spec), name=name)


def global_id(kind: str, key: object) -> str:
    """Returns the `id` of the object of a kind that has this key."""
    return nodes.encode_id(kind, key)


async def load_one(info: Info, kind: Kind, key: Any) -> Document | None:
    """Returns the document with this key, with what the selection of the present field needs; batched with its siblings.

    It may be one that the caller may not see.
    """
    return await nodes.load_one(core(info), kind, key)


async def load_related(info: Info, spec: CollectionSpec, key: Any, *, path: str = "_id") -> Document | None:
    """Returns the document of a collection that has this key at the path, whole; batched with its siblings."""
    context = info.context
    loader = context.loader((spec.name, path), lambda: keyed.by_key(spec, path)(context.reading, None))
    return (await loader.load_all((key,))).get(key)


async def find_visible(context: Context, kind: str, global_id: str) -> Document:
    """Returns the whole object with this id, of this kind. Raises NotFound where there is none that the caller may see."""
    key = nodes.key_in(kind, global_id)
    found = KINDS[kind]
    document = (await found.read(context.db, None)([key])).get(key)
    if document is None or not await nodes.is_visible(context, found, document):
        raise NotFound(kind, str(key))
    return document
