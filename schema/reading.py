"""Helpers to read documents by keys and ids, for domains that store each type of document in one collection."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from typing import Any, TypeVar, overload

from portico.loaders import declaring
from portico.resolvers.documents import CollectionSpec, D, Database, Document
from portico.resolvers.errors import NotFound
from portico.schema.kinds import Kind

from . import nodes
from .context import Context, Info, core

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
FindByKeys = Callable[[Database, Sequence[K]], Awaitable[Mapping[K, V]]]


@overload
async def load_one(info: Info, source: Kind[D], key: Any) -> D | None: ...


@overload
async def load_one(info: Info, source: CollectionSpec[D], key: Any, *, path: str = "_id") -> D | None: ...


@overload
async def load_one(info: Info, source: FindByKeys[K, V], key: K) -> V | None: ...


async def load_one(info: Info, source: Any, key: Any, *, path: str = "_id") -> Any:
    """Returns what belongs to a key, or None; batched with the reads of sibling fields.

    Args:     source: a kind: returns the object with this key if the caller may see it, with the paths that the
              selection of the current field needs. A collection: returns the whole document that has the key at the
              path. Or a function of the database and of several keys, which returns what it finds by key. The latter
              two do not check whether the caller may see it.
    """
    if isinstance(source, Kind):
        return await nodes.load_one(core(info), source, key)
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
    key = Kind.key_in(context, name, global_id)
    found: Kind = context.served.kinds[name]
    document = (await found.read(context.db, None)([key])).get(key)
    view: Document | None = None if document is None else await nodes.shown(context, found, document)
    if view is None:
        raise NotFound(name, str(key))
    return view
