"""Says whether a document matches a filter, for the operators that reads of the gateway use.

The answer is True or False only if MongoDB's is the same; otherwise it is None, and the caller must assume either.
`tests/gateway/test_matching.py` compares the answers with MongoDB.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from bson import Regex

from .comparing import compare, equal, have_keys, index_key, is_comparable, is_type, row_keys
from .paths import ALL_PATHS, NO_PATHS, TEXT, Paths, names_of, union
from .spans import Place, Span, compared_with, place_of
from .texts import may_contain, words_of

Answer = bool | None
Check = Callable[["Found"], Answer]
TESTS: Mapping[str, Callable[[int], bool]] = {
    "$gt": lambda order: order > 0,
    "$gte": lambda order: order >= 0,
    "$lt": lambda order: order < 0,
    "$lte": lambda order: order <= 0,
}


class Condition:
    """One of the conditions that must all hold: its paths, and the values of which the path must have one.

    `values` is None if it is no equality. Each of them has a key. `span` is the range in which a value of the path must
    be; None if it is no comparison.
    """

    __slots__ = ("_check", "_keys", "path", "paths", "span", "values")

    def __init__(
        self,
        path: str,
        check: Check,
        values: Sequence[Any] | None = None,
        span: Span | None = None,
    ) -> None:
        self.path = path
        self.paths = Paths([path])
        self.values = values
        self.span = span
        self._check = check
        self._keys: Collection[object] | None = None

    @property
    def keys(self) -> Collection[object]:
        """The keys of the values."""
        if self._keys is None:
            self._keys = tuple(dict.fromkeys(map(index_key, self.values or ())))
        return self._keys

    def test(self, document: Mapping[str, Any]) -> Answer:
        """Returns whether the document fulfils the condition."""
        found = Found(document, names_of(self.path))
        return None if found.is_vague else self._check(found)


class _Alternatives(Condition):
    """The condition that one of some filters matches, or that none does."""

    __slots__ = ("_is_none", "_parts")

    def __init__(self, parts: Sequence[Filter], *, is_none: bool) -> None:
        super().__init__("", _nobody_knows)
        self.paths = union(part.paths for part in parts)
        self._parts = parts
        self._is_none = is_none

    def test(self, document: Mapping[str, Any]) -> Answer:
        found = _some(part.answer(document) for part in self._parts)
        return _not(found) if self._is_none else found


class Unknown(Condition):
    """A condition of which nothing is known but the paths that it depends on."""

    __slots__ = ()

    def __init__(self, paths: Paths = ALL_PATHS) -> None:
        super().__init__("", _nobody_knows)
        self.paths = paths

    def test(self, _document: Mapping[str, Any]) -> Answer:
        return None


class _Text(Condition):
    """A full-text search. It is never known that a document matches, but often that it does not."""

    __slots__ = ("_words",)

    def __init__(self, wanted: Mapping[str, Any]) -> None:
        super().__init__("", _nobody_knows)
        self.paths = TEXT
        self._words = words_of(wanted)

    def test(self, document: Mapping[str, Any]) -> Answer:
        return None if may_contain(document, self._words) else False


class Filter:
    """What a document must match to be read. Live queries keep it, so it has no more than is needed for that."""

    __slots__ = ("conditions", "is_text", "paths")

    def __init__(self, conditions: Iterable[Condition]) -> None:
        self.conditions = tuple(conditions)
        self.paths = union([condition.paths for condition in self.conditions])
        # Whether it is a full-text search, besides other conditions.
        self.is_text = any(isinstance(condition, _Text) for condition in self.conditions)

    @classmethod
    def of(cls, query: Mapping[str, Any]) -> Filter:
        """Returns the filter of a query that `stored_form` has returned."""
        return cls(_conditions(query))

    def widened(self) -> Filter:
        """Returns the filter for an index in which other words than those of a search can be found."""
        if not self.is_text:
            return self
        return Filter(Unknown(TEXT) if isinstance(one, _Text) else one for one in self.conditions)

    @property
    def spans(self) -> Iterable[tuple[str, Span | None]]:
        """The ranges of its comparisons, by path."""
        return ((condition.path, condition.span) for condition in self.conditions)

    def is_within(self, keys: frozenset[Any]) -> bool:
        """Returns whether it names the `_id` of all documents that can match, and each has one of these keys."""
        for condition in self.conditions:
            if condition.path != "_id" or (values := condition.values) is None:
                continue
            if len(values) <= len(keys) and row_keys(values) <= keys:
                return True
        return False

    def may_match(self, document: Mapping[str, Any], changed: Paths = NO_PATHS) -> bool:
        """Returns whether the document can match now, or could before these paths changed."""
        for condition in self.conditions:
            if changed.touch(condition.paths):
                continue
            if condition.test(document) is False:
                return False
        return True

    def answer(self, document: Mapping[str, Any]) -> Answer:
        """Returns whether the document matches; None if it is not known here."""
        return _every(condition.test(document) for condition in self.conditions)


def _conditions(query: Mapping[str, Any]) -> Iterable[Condition]:
    for name, wanted in query.items():
        if name == "$and":
            for part in wanted:
                yield from _conditions(part)
        elif name in ("$or", "$nor"):
            yield _Alternatives([Filter.of(part).widened() for part in wanted], is_none=name == "$nor")
        elif name == "$comment":
            continue
        elif name == "$text":
            yield _Text(wanted)
        elif name.startswith("$"):
            yield Unknown()
        else:
            yield from _of_path(name, wanted)


def _of_path(path: str, wanted: Any) -> Iterable[Condition]:
    if not _is_operators(wanted):
        wanted = {"$eq": wanted}
    for operator, operand in wanted.items():
        values = [operand] if operator == "$eq" else operand if operator == "$in" else None
        if values is not None and not have_keys(values):
            values = None
        span = compared_with(operator, operand) if operator in TESTS else None
        yield Condition(path, _check(operator, operand), values, span)


def _is_operators(wanted: Any) -> bool:
    return isinstance(wanted, dict) and any(name.startswith("$") for name in wanted)


class Found:
    """What a document has at a path: `values`, and also the elements of those that are arrays.

    `is_missing` says that the path leads nowhere, `is_certain` that it leads through no array on its way.
    It `is_vague` if it names a position in an array, whose elements MongoDB treats in ways of its own.
    """

    __slots__ = ("is_certain", "is_missing", "is_vague", "values")

    def __init__(self, document: Any, names: Sequence[str]) -> None:
        self.values: list[Any] = []
        self.is_missing = False
        self.is_certain = True
        self.is_vague = False
        self._walk(document, names, 0)

    @classmethod
    def of(cls, value: Any) -> Found:
        found = cls.__new__(cls)
        found.values, found.is_missing, found.is_certain, found.is_vague = [value], False, True, False
        return found

    def _walk(self, value: Any, names: Sequence[str], place: int) -> None:
        if place == len(names):
            self.values.append(value)
        elif isinstance(value, dict):
            if names[place] in value:
                self._walk(value[names[place]], names, place + 1)
            else:
                self.is_missing = True
        elif isinstance(value, list):
            self.is_certain = False
            name = names[place]
            if name.isdigit() and int(name) < len(value):
                self.is_vague = True
                self._walk(value[int(name)], names, place + 1)
            for element in value:
                if isinstance(element, dict):
                    self._walk(element, names, place)
            self.is_missing = True
        else:
            self.is_missing = True

    def each(self) -> Iterable[Any]:
        """Yields the values, and the elements of those that are arrays."""
        for value in self.values:
            yield value
            if isinstance(value, list):
                yield from value


def _check(operator: str, operand: Any) -> Check:
    """Returns the test of one operator."""
    make = _CHECKS.get(operator)
    return _nobody_knows if make is None else make(operand)


def _nobody_knows(_found: Found) -> Answer:
    return None


def _negation(operand: Any) -> Check:
    if not _is_operators(operand):
        return _nobody_knows
    checks = [_check(name, value) for name, value in operand.items()]
    return lambda found: _not(_every(check(found) for check in checks))


def _size(operand: Any) -> Check:
    if not isinstance(operand, int):
        return _nobody_knows
    return lambda found: any(isinstance(value, list) and len(value) == operand for value in found.values)


def _all(operand: Any) -> Check:
    if not operand or any(_is_operators(one) for one in operand):
        return _nobody_knows
    return lambda found: _every(_equals(found, one) for one in operand)


def _type(operand: Any) -> Check:
    names = operand if isinstance(operand, list) else [operand]
    return lambda found: _some(is_type(value, names) for value in found.each())


def _order(operator: str) -> Callable[[Any], Check]:
    return lambda operand: lambda found: _compares(found, operator, operand)


def _element(wanted: Mapping[str, Any]) -> Check:
    if _is_operators(wanted) and not {"$and", "$or", "$nor"} & wanted.keys():
        checks = [_check(name, value) for name, value in wanted.items()]

        def matches(element: Any) -> Answer:
            if isinstance(element, list):
                return None
            return _every(check(Found.of(element)) for check in checks)
    else:
        parts = Filter.of(wanted)

        def matches(element: Any) -> Answer:
            if isinstance(element, list):
                return None
            return parts.answer(element) if isinstance(element, dict) else False

    def test(found: Found) -> Answer:
        return _some(matches(one) for value in found.values if isinstance(value, list) for one in value)

    return test


def _equals(found: Found, wanted: Any) -> Answer:
    if isinstance(wanted, Regex):
        return None
    answer = _some(equal(value, wanted) for value in found.each())
    if wanted is None and answer is False and found.is_missing:
        return True if found.is_certain else None
    return answer


def _compares(found: Found, operator: str, wanted: Any) -> Answer:
    if wanted is None or isinstance(wanted, dict | list):
        return None
    return _some(_holds(value, operator, wanted) for value in found.each())


def _holds(value: Any, operator: str, wanted: Any) -> Answer:
    is_alike = is_comparable(value, wanted)
    if not is_alike:
        return is_alike
    order = compare(value, wanted)
    return None if order is None else TESTS[operator](order)


def _exists(found: Found) -> Answer:
    if found.values:
        return True
    return False if found.is_certain else None


def _not(answer: Answer) -> Answer:
    return None if answer is None else not answer


def _some(answers: Iterable[Answer]) -> Answer:
    found: Answer = False
    for answer in answers:
        if answer:
            return True
        if answer is None:
            found = None
    return found


def _every(answers: Iterable[Answer]) -> Answer:
    found: Answer = True
    for answer in answers:
        if answer is False:
            return False
        if answer is None:
            found = None
    return found


_CHECKS: Mapping[str, Callable[[Any], Check]] = {
    "$eq": lambda operand: lambda found: _equals(found, operand),
    "$ne": lambda operand: lambda found: _not(_equals(found, operand)),
    "$in": lambda operand: lambda found: _some(_equals(found, one) for one in operand),
    "$nin": lambda operand: lambda found: _not(_some(_equals(found, one) for one in operand)),
    "$exists": lambda operand: lambda found: _exists(found) if operand else _not(_exists(found)),
    "$not": _negation,
    "$size": _size,
    "$all": _all,
    "$elemMatch": _element,
    "$type": _type,
    **{operator: _order(operator) for operator in TESTS},
}


def place_at(document: Mapping[str, Any], names: Sequence[str]) -> Place | None:
    """Returns the place of the value that a comparison or a sort uses; None if it can be another one, or several."""
    found = Found(document, names)
    if not found.is_certain or len(found.values) > 1:
        return None
    return place_of(found.values[0] if found.values else None)


def values_at(document: Mapping[str, Any], names: Sequence[str]) -> Iterable[Any] | None:
    """Returns the values of a document that an equality of this path compares; None if that is not known here."""
    found = Found(document, names)
    return None if found.is_vague else found.each()
