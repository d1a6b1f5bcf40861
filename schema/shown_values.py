"""What an answer shows of a document, if functions compute some of its fields.

After a change, a live query reads the document again. It runs only if the answer would show something else. For
example, the items of a cart are the same before and after a note in them is removed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Document = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Elements:
    """What is shown of objects in a document: what functions compute from each, and its fields with these names."""

    functions: tuple[Callable[[Any], Any], ...]
    names: tuple[str, ...]

    @classmethod
    def of(cls, functions: Sequence[Callable[[Any], Any]], paths: Iterable[str]) -> Elements:
        """Returns what is shown by these functions and paths."""
        return cls(tuple(functions), tuple(sorted(map(_first_name, paths))))

    def shown(self, value: Any) -> Any:
        """Returns what is shown of an object, or of a list of objects."""
        if isinstance(value, list | tuple):
            return [self.shown(one) for one in value]
        if not isinstance(value, Mapping):
            return value
        return [value.get(name) for name in self.names], [function(value) for function in self.functions]


@dataclass(frozen=True, slots=True)
class Value:
    """The value that a function computes from a document. `elements` says what is shown of it; None: everything."""

    function: Callable[[Any], Any]
    elements: Elements | None

    def of(self, document: Document) -> Any:
        """Returns what is shown of the value."""
        value = self.function(document)
        return value if self.elements is None else self.elements.shown(value)


@dataclass(frozen=True, slots=True)
class Shown:
    """What is shown of documents: some values, and all of their fields that are not hidden."""

    values: tuple[Value, ...]
    hidden: frozenset[str]

    @classmethod
    def of(cls, values: Iterable[Value], projection: Iterable[str], others: Iterable[str]) -> Shown:
        """`others` are the paths of the projection that something else than the values needs."""
        return cls(tuple(values), frozenset(map(_first_name, projection)) - set(map(_first_name, others)))

    def __call__(self, document: Document) -> Any:
        """Returns what is shown of the document. If a function fails, that is the whole document."""
        try:
            values = [value.of(document) for value in self.values]
        except Exception:  # noqa: BLE001 - the field says what is wrong with the document
            return document
        return {name: value for name, value in document.items() if name not in self.hidden}, values


def _first_name(path: str) -> str:
    return path.partition(".")[0]
