"""The relations of one level: their keys, and the answers of the documents with these keys.

A page has dozens of relations with a few keys each. So the work is done by lists: a *group* has the relations of one
field, with all their keys one after the other. Only a group with a relation that needs more is split.
"""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, count
from operator import is_
from typing import Any, NamedTuple

from graphql import GraphQLError

from portico.loaders.batching import Loader
from portico.resolvers.answer_bounds import Meter, Size
from portico.resolvers.errors import NotFound
from portico.schema.kinds import require_decodable

from .places import Errors, Place
from .plan import CompleteAll, FieldPlan, Relation

# A relation to read: (its field, the keys in the parent document, the answer that gets the value, the place of that
# answer). A plain tuple, because each relation of each row has one: a NamedTuple takes seven times as long to build.
RelationEntry = tuple[FieldPlan, Any, dict[str, Any], Place | None]


class Group:
    """Relations of one field, and the numbers of all their keys, one after the other."""

    __slots__ = ("entries", "numbers", "relation")

    def __init__(self, entries: Sequence[RelationEntry], numbers: Sequence[int], relation: Relation) -> None:
        self.entries = entries
        self.numbers = numbers
        self.relation = relation


def _relation_of(entries: Sequence[RelationEntry]) -> Relation:
    relation = entries[0][0].relation
    assert relation is not None
    return relation


def place_of(entry: RelationEntry) -> Place:
    field, _, answer, place = entry
    return place, answer, field.response_name, field.is_nullable, field.parent.name


def by_loader(
    relations: Iterable[RelationEntry], errors: Errors, context: Any
) -> dict[Loader[Any, Any], list[list[RelationEntry]]]:
    """Groups the relations by the loader of their documents, and by their fields. Leaves out those below a null."""
    if errors.found:
        relations = [entry for entry in relations if not errors.covers(entry[3])]
    related: defaultdict[Any, list[RelationEntry]] = defaultdict(list)
    for entry in relations:
        related[entry[0].relation].append(entry)
    found: defaultdict[Loader[Any, Any], list[list[RelationEntry]]] = defaultdict(list)
    for relation, entries in related.items():
        found[relation.loader(context)].append(entries)
    return found


class Keys:
    """The keys of some relations. `number_of` has each key once, in the order in which the keys occur first.

    The numbers ascend. A key that occurs again keeps its number, and leaves a gap. `unfit` are the relations whose keys
    cannot be keys, with their errors. With `has_undecodable`, a key can be text that is not valid UTF-8.
    """

    def __init__(self, groups: Iterable[Sequence[RelationEntry]], *, has_undecodable: bool) -> None:
        self.number_of: dict[Any, int] = {}
        self.groups: list[Group] = []
        self.unfit: list[tuple[RelationEntry, Exception]] = []
        self._has_undecodable = has_undecodable
        self._next = 0
        for entries in groups:
            self._add(entries)

    def _add(self, entries: Sequence[RelationEntry]) -> None:
        found: Iterable[Any] = [keys for _, keys, _, _ in entries]
        before, relation = len(self.number_of), _relation_of(entries)
        try:
            if self._has_undecodable:
                require_decodable(found)
            if relation.many:
                found = chain.from_iterable(found)
            # Hashes each key once: an ObjectId is slow to hash. The rest of the work uses the numbers.
            numbers = list(map(self.number_of.setdefault, found, count(self._next)))
        except (TypeError, GraphQLError) as error:
            for key in list(self.number_of)[before:]:
                del self.number_of[key]
            if len(entries) == 1:
                self.unfit.append((entries[0], error))
            else:
                for entry in entries:
                    self._add((entry,))
        else:
            self._next += len(numbers)
            self.groups.append(Group(entries, numbers, relation))


class _Flat(NamedTuple):
    """The answers of documents and their sizes, by the numbers of their keys. Relations to the same document share its
    answer. `lacks_some`: the answers of missing documents are None.
    """

    answer_of: Callable[[int], Any]
    size_of: Callable[[int], float]
    lacks_some: bool


class Placing:
    """Puts the answers of documents, which were found by some keys, into the places of their relations."""

    def __init__(self, keys: Keys, documents: Mapping[Any, Any], meter: Meter, read: int) -> None:
        """`read` is the size of the documents in bytes, or more; 0 if it is not known."""
        self._groups = keys.groups
        self._numbers = keys.number_of.values()
        self._documents = _in_order(documents, keys.number_of)
        self._meter = meter
        self._read = read
        self._completed: dict[Any, _Flat | None] = {}
        self._estimated: dict[Any, Mapping[int, Any] | None] = {}

    def place(self) -> Iterator[RelationEntry]:
        """Counts and places the answers. Yields the relations that must be completed field by field."""
        for group in self._groups:
            if self._meter.has_undecodable:
                # Only completing field by field checks the texts.
                yield from group.entries
            else:
                yield from self._place(group)

    def _place(self, group: Group) -> Iterator[RelationEntry]:
        if self._is_placed_by_estimate(group):
            return
        size = self._meter.size
        flat = self._flat(group.relation)
        if flat is None:
            yield from group.entries
            return
        answers = list(map(flat.answer_of, group.numbers))
        total = size[0] + sum(map(flat.size_of, group.numbers))
        many = group.relation.many
        if total <= size[1] and (many or not flat.lacks_some or None not in answers):
            size[0] = total
            _put(group.entries, answers, many=many, lacks_some=flat.lacks_some)
        elif len(group.entries) == 1:
            # Finds the field where the answer becomes too large, or what a missing document means for its field.
            yield group.entries[0]
        else:
            for one in _split(group):
                yield from self._place(one)

    def _is_placed_by_estimate(self, group: Group) -> bool:
        """Places the answers of small documents, and counts what was read instead of their texts, which are no longer.

        Returns False, and counts nothing, if that is no bound, or the documents or their answers need more.
        """
        relation, numbers = group.relation, group.numbers
        if not self._read or relation.completers is None or relation.completers.many is None:
            return False
        # One document can have most of the bytes, and be shown most often.
        times = len(numbers) - len(set(numbers)) + 1
        bound = self._read * times
        answer_of = self._all(relation.completers.many) if self._meter.may_estimate(bound) else None
        if answer_of is None:
            return False
        self._meter.estimate(bound)
        _put(group.entries, list(map(answer_of.__getitem__, numbers)), many=relation.many, lacks_some=False)
        return True

    def _all(self, complete: CompleteAll) -> Mapping[int, Any] | None:
        """Returns the answer of each number; None if a document is missing, or its answer has computed texts."""
        if complete not in self._estimated:
            self._estimated[complete] = None
            if set(map(type, self._documents)) == {dict}:
                size = Size()
                with contextlib.suppress(Exception):  # completing field by field raises it again, and reports it
                    answers = complete(self._documents, size)
                    if not size[0]:
                        self._estimated[complete] = dict(zip(self._numbers, answers, strict=True))
        return self._estimated[complete]

    def _flat(self, relation: Relation) -> _Flat | None:
        complete = None if relation.completers is None else relation.completers.one
        if complete not in self._completed:
            self._completed[complete] = _complete(relation, self._documents, self._numbers, self._meter.size[1])
        return self._completed[complete]


def _in_order(documents: Mapping[Any, Any], keys: Mapping[Any, int]) -> list[Any]:
    """Returns the document of each key, or None, in the order of the keys."""
    if len(documents) == len(keys) and all(map(is_, documents, keys)):
        return list(documents.values())
    return [documents.get(key) for key in keys]


def _complete(relation: Relation, documents: Sequence[Any], numbers: Iterable[int], most: float) -> _Flat | None:
    """Returns the answers of documents, whose keys have these numbers.

    None if there is no compiled function for them, or a document does not fit its type.
    """
    if relation.completers is None:
        return None
    complete = relation.completers.one
    if relation.is_checked and any(isinstance(document, Exception) for document in documents):
        return None
    answers: list[Any] = []
    sizes: list[float] = []
    size = Size(most)
    try:
        for document in documents:
            size[0] = 0
            answers.append(None if document is None else complete(document, size))
            sizes.append(size[0])
    except Exception:  # noqa: BLE001 - completing field by field raises it again, and reports it
        return None
    by_number = dict(zip(numbers, answers, strict=True)), dict(zip(numbers, sizes, strict=True))
    return _Flat(by_number[0].__getitem__, by_number[1].__getitem__, None in answers)


def _put(entries: Sequence[RelationEntry], answers: list[Any], *, many: bool, lacks_some: bool) -> None:
    name = entries[0][0].response_name
    if not many:
        for entry, one in zip(entries, answers, strict=True):
            entry[2][name] = one
        return
    end = 0
    for _, keys, answer, _ in entries:
        start, end = end, end + len(keys)
        shown = answers[start:end]
        answer[name] = [one for one in shown if one is not None] if lacks_some else shown


def _split(group: Group) -> Iterator[Group]:
    """Yields a group for each of the relations."""
    end = 0
    for entry in group.entries:
        start, end = end, end + (len(entry[1]) if group.relation.many else 1)
        yield Group((entry,), group.numbers[start:end], group.relation)


def related_value(field: FieldPlan, relation: Relation, keys: Any, documents: Any) -> Any:
    """Returns the related document or documents. Raises NotFound for a missing one, if the field is not nullable."""
    if relation.many:
        return [document for key in keys if (document := documents.get(key)) is not None]
    document = documents.get(keys)
    if document is None and not field.is_nullable:
        raise NotFound(relation.kind)
    return document
