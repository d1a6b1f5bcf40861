"""Reads of objects by id and by key, and the rules of visibility.

The rule of a kind runs where documents are read, and not in each field:

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

from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any

from portico.loaders.batching import BatchRead, Loader
from portico.resolvers.documents import D, Projection, projection_name
from portico.resolvers.errors import NotFound

from .context import Context
from .fields import Source
from .kinds import BatchRule, Holder, Kind, KindDocument, decode_id, types_of
from .selections import cached, selection_of

MAX_NODES = 100


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
    reads = projection_name(projection)
    if discloses or kind.is_open:
        name: Hashable = (kind.name, reads)
        return lambda context: context.loader(name, lambda: kind.read(context.reading, projection))
    checked: Hashable = ("visible", kind.name, reads)
    return lambda context: context.loader(checked, lambda: _visible_read(context, kind, projection))


def _visible_read(context: Context, kind: Kind, projection: Projection | None) -> BatchRead[Any, Any]:
    read = kind.read(context.reading, projection)

    async def read_visible(keys: Sequence[Any]) -> Mapping[Any, Any]:
        if kind.is_closed_to(context):
            return {}
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


class UndeclaredPath(LookupError):
    """A rule misses a path that its kind does not declare. Reads fetch it only if the client selects it."""


async def visible_of(context: Context, kind: Kind, documents: Mapping[Any, Any]) -> dict[Any, Any]:
    """Returns the documents that the caller may see, by their keys, with one read for each level of containing objects.

    A batched rule is called once, and its copies replace the documents. If the rule of a document fails, the error
    replaces the document. The other documents are not affected.
    """
    found = _visible_alone(context, kind, documents)
    if kind.shown_to is not None:
        try:
            found = await _shown_together(context, kind.shown_to, found)
        except KeyError as error:
            raise _explained(kind, error) from error
    return found if kind.within is None else await _visible_within(context, kind, kind.within, found)


def _visible_alone(context: Context, kind: Kind, documents: Mapping[Any, Any]) -> dict[Any, Any]:
    """Returns the documents that `callers` and `visible_to` show, or its errors."""
    if kind.is_closed_to(context):
        return {}
    if kind.visible_to is None:
        return dict(documents)
    found: dict[Any, Any] = {}
    for key, document in documents.items():
        try:
            if kind.visible_to(document, context):
                found[key] = document
        except Exception as error:  # noqa: BLE001 - any exception is an error of this document
            found[key] = _explained(kind, error)
    return found


def _explained(kind: Kind, error: Exception) -> Exception:
    """Returns the error of a rule; `UndeclaredPath` if the rule misses a path that the kind does not declare."""
    missing = error.args[0] if isinstance(error, KeyError) and error.args else None
    declared = {name for path in (kind.path, *kind.discriminator) for name in path.split(".")}
    if not isinstance(missing, str) or missing in declared:
        return error
    explained = UndeclaredPath(
        f"The rule of the kind {kind.name} misses {missing!r} in a document. If this is a path of the documents that "
        "the rule reads, name it in `reads` of the kind."
    )
    explained.__cause__ = error
    return explained


async def _shown_together(context: Context, rule: BatchRule, documents: Mapping[Any, Any]) -> dict[Any, Any]:
    found: dict[Any, Any] = {key: one for key, one in documents.items() if isinstance(one, Exception)}
    wanted = [key for key in documents if key not in found]
    if wanted:
        views: Sequence[Any] = await rule(context, [documents[key] for key in wanted])
        found.update((key, view) for key, view in zip(wanted, views, strict=True) if view is not None)
    return found


async def _visible_within(
    context: Context, kind: Kind, within: Callable[[Source], Holder], documents: Mapping[Any, Any]
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
            found[key] = _explained(kind, error)
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
