"""`TypedDict` for the documents of collections, without its cost at the start.

Python compiles the annotation of every key when it creates a TypedDict: for a thousand keys, that takes as long as
importing a larger module. Only the type checker and tests need them, so at run time these classes are plain dicts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__all__ = ["TypedDict"]

if TYPE_CHECKING:
    from typing import TypedDict
else:

    class _TypedDict:
        def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[type]:
            return (dict,)

        def __call__(self, name: str, keys: dict[str, Any]) -> type:
            """Creates a class with keys that are no names in Python, e.g. `from`."""
            return type(name, (dict,), {"__annotations__": keys})

    TypedDict = _TypedDict()
